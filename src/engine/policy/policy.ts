// Policies: named, appended to the table once, seen by every thread. A record
// never moves, so the kernel knows a policy by the address of its record.

import { wholeNanoseconds } from "../clock-cell.js";
import { SluiceError } from "../errors.js";
import type { Table } from "../table/table.js";
import { checkLimit, type Kind, kindOf } from "./kinds.js";
import { type Declared, PolicyRecord } from "./policy-record.js";
import { isRunDown, type Limits, nextPiece } from "./scale.js";
import { readSegment, scaleLimits, type Segment, stageSegment } from "./segment.js";

export class Policy {
  readonly table: Table;
  /** Address of the record. */
  readonly record: number;
  readonly number: number;
  readonly name: string;
  readonly kind: Kind;
  /** The limits that it joins, each a policy, in their order; none for most kinds. */
  readonly limits: readonly Policy[];
  readonly #record: PolicyRecord;
  #segment: Segment;
  #version: number;

  constructor(table: Table, number: number) {
    this.table = table;
    this.number = number;
    this.#record = new PolicyRecord(table, number);
    this.record = this.#record.address;
    this.name = this.#record.name;
    this.kind = kindOf(this.#record.kind);
    this.limits = this.#record.limits.map((limit) => new Policy(table, limit));
    [this.#segment, this.#version] = this.#read();
  }

  /** What it was defined with. */
  get declared(): Declared {
    return this.#record.declared;
  }

  /** Largest cost that is ever granted, tokens. */
  get maxCost(): number {
    if (!this.kind.hasBurst) return Infinity;
    if (this.limits.length === 0) return this.burst;
    return Math.min(...this.limits.map(({ rate, burst }) => (rate === Infinity ? Infinity : burst)));
  }

  /** Changes with every new rate or burst, in all threads at once. */
  get version(): number {
    return this.#record.version;
  }

  /** Changes with every change of scale: a virtual time can be rescaled across two of them. */
  get generation(): number {
    return this.#current().generation;
  }

  /** Address of the segment in force. */
  get segmentAt(): number {
    return this.#record.segmentAt(this.version);
  }

  /** Units of virtual time in a token, as a power of two. */
  get tokenShift(): number {
    return this.#current().tokenShift;
  }

  /** Address of what this thread counts and stores of it. */
  get statsAt(): number {
    return this.table.scratch.statsAt(this.number);
  }

  /** Its keys are decided by one word against a reading of its clock. */
  get isQuick(): boolean {
    return (this.declared.flags & ~this.table.at.QUICK_FLAGS) === 0;
  }

  /** Tokens per second; of several limits, the first one's. */
  get rate(): number {
    return this.limits[0]?.rate ?? this.#current().limits.rate;
  }

  /** Tokens; of several limits, the first one's; of a warm-up, the most permits stored. */
  get burst(): number {
    if (!this.kind.hasBurst) return this.#current().burstTokens;
    return this.limits[0]?.burst ?? this.#current().limits.burst;
  }

  /**
   * Changes rate or burst for all keys at once, from now on. Tokens earned until now stay.
   * @throws RangeError for a limit that is too large for its window, SluiceError
   * ERR_SLUICE_LOCKED if a thread was stopped while it changed the policy.
   */
  set(wanted: Partial<Limits>, nowMs = this.table.clock.now()): void {
    const { table } = this;
    const { at, kernel } = table;
    for (let attempt = 0;;) {
      const [segment, version] = this.#read();
      const v = BigInt.asUintN(64, kernel.readingOf(this.record, nowMs));
      const limits = this.#changed(segment, wanted);
      const next = nextPiece(segment, v, wholeNanoseconds(nowMs), limits, this.kind.isGlobalOnly, scaleLimits(table));
      if (next.generation !== segment.generation) {
        // Its tag was last used three scales ago. Words are rewritten first; a claim
        // that is under way since then, in a thread that was stopped, gets time to end.
        if (next.generation > 2) Atomics.wait(pause, 0, 0, 5);
        kernel.retag(this.record, BigInt(next.generation % 3));
      }
      stageSegment(table, next);
      const published = kernel.publish(this.record, version);
      if (published === 1) return;
      if (published === at.POLICY_LOCKED) waitForOwner(attempt++);
    }
  }

  /** The limits with a change. A window's rate is its limit over its length. */
  #changed(segment: Segment, wanted: Partial<Limits>): Limits {
    const limits = { ...segment.limits, ...wanted };
    const { window } = this.kind;
    if (!window) return limits;
    const windowNs = window.lengthNs(segment);
    if (wanted.rate !== undefined) limits.burst = Math.round((wanted.rate * windowNs) / 1e9);
    limits.rate = (limits.burst / windowNs) * 1e9;
    checkLimit(this.kind, limits, scaleLimits(this.table));
    return limits;
  }

  /** Winds a global bucket's clock back if it has run high. Call before deciding on a policy of that kind. */
  keepWithinLife(nowMs: number): void {
    if (this.kind.isGlobalOnly && isRunDown(this.#current(), wholeNanoseconds(nowMs))) this.set({}, nowMs);
  }

  /** The segment in force. */
  #current(): Segment {
    if (this.version !== this.#version) [this.#segment, this.#version] = this.#read();
    return this.#segment;
  }

  #read(): [Segment, number] {
    for (;;) {
      const { version } = this;
      const segment = readSegment(this.table, this.#record.segmentAt(version), this.declared.extra);
      if (this.version === version) return [segment, version];
    }
  }
}

const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Waits for the thread that changes policies just now, about 1 ms a call.
 * @throws SluiceError ERR_SLUICE_LOCKED after a second: that thread may have died, which
 * this thread learns only when its event loop turns.
 */
export function waitForOwner(attempt: number): void {
  if (attempt >= 1000) {
    throw new SluiceError("ERR_SLUICE_LOCKED", "a thread was stopped while it changed policies; try again");
  }
  if (attempt > 10) Atomics.wait(pause, 0, 0, 1);
}
