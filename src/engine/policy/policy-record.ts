// A policy's record in the table: what it was defined with, which never
// changes, and which of its two segments is in force. assembly/layout.ts draws it.

import type { Table } from "../table/table.js";
import type { Limits } from "./segment.js";

const decoder = new TextDecoder();

/** What a policy was defined with. */
export interface Declared extends Limits {
  /** The kernel's FLAG_ constants, or-ed. */
  readonly flags: number;
}

export class PolicyRecord {
  readonly address: number;
  readonly #table: Table;
  readonly #versionAt: number;

  constructor(table: Table, number: number) {
    const { at } = table;
    this.#table = table;
    this.address = at.POLICIES + number * at.POLICY_BYTES;
    this.#versionAt = (this.address + at.POLICY_VERSION) / 4;
  }

  get name(): string {
    const { at, bytes, words } = this.#table;
    const from = this.address + at.POLICY_NAME;
    return decoder.decode(bytes.slice(from, from + words[(this.address + at.POLICY_NAME_BYTES) / 4]));
  }

  /** The number of its kind. */
  get kind(): number {
    return this.#table.words[(this.address + this.#table.at.POLICY_KIND) / 4];
  }

  get declared(): Declared {
    const { at, doubles, words } = this.#table;
    return {
      rate: doubles[(this.address + at.POLICY_RATE) / 8],
      burst: doubles[(this.address + at.POLICY_BURST) / 8],
      extra: doubles[(this.address + at.POLICY_EXTRA) / 8],
      flags: words[(this.address + at.POLICY_FLAGS) / 4],
    };
  }

  /** Numbers of the policies that it joins; none for most kinds. */
  get limits(): readonly number[] {
    const { at, words } = this.#table;
    const count = words[(this.address + at.POLICY_LIMIT_COUNT) / 4];
    const from = (this.address + at.POLICY_LIMITS) / 4;
    return Array.from(words.subarray(from, from + count));
  }

  /** Changes with every new rate or burst, in all threads at once. */
  get version(): number {
    return Atomics.load(this.#table.words, this.#versionAt);
  }

  /** The last scale whose walk is finished: the scale may change again if it is the one in force. */
  get walked(): number {
    return Atomics.load(this.#table.words, (this.address + this.#table.at.POLICY_WALKED) / 4);
  }

  /** Address of the segment that was in force at `version`. */
  segmentAt(version: number): number {
    const { at } = this.#table;
    return this.address + at.POLICY_SEGMENT + (version & 1) * at.SEGMENT_BYTES;
  }
}
