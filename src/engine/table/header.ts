// The head of a table: what its creator writes once and every thread verifies
// before it attaches, and the words that threads share: the clock cell, the
// ticker's turn and the number of policies. assembly/layout.ts draws it.

import { ClockCell } from "../clock-cell.js";
import { type ClockKind, clockKinds } from "../clock.js";
import { shown, SluiceError } from "../errors.js";
import { kernelConstants, type KernelNumbers, type SharedMemory } from "./kernel.js";
import { Views } from "./views.js";

export type WhenFull = "evict" | "deny" | "allow";
/** @internal */
export const whenFullChoices: readonly WhenFull[] = ["evict", "deny", "allow"];

/** What another thread needs to attach. Structured-cloneable: put it in `workerData` or post it. */
export interface SluiceHandle {
  /** Layout version of the table. */
  readonly sluice: number;
  /** A shared WebAssembly.Memory. */
  readonly memory: SharedMemory;
}

/** @internal What a table is made with. */
export interface Founding {
  readonly setCount: number;
  readonly lineSetCount: number;
  readonly threadCount: number;
  readonly capacity: number;
  readonly clockKind: ClockKind;
  readonly whenFull: WhenFull;
  /** On the monotonic clock. */
  readonly epochNs: bigint;
  /** Two words of the hash key, and the table's id. */
  readonly random: BigUint64Array;
}

/** @internal */
export class Header {
  readonly #buffer: SharedArrayBuffer;
  readonly #views: Views;
  readonly #at: KernelNumbers;

  constructor(buffer: SharedArrayBuffer) {
    this.#buffer = buffer;
    this.#views = new Views(buffer);
    this.#at = kernelConstants().at;
  }

  /** Makes zeroed memory a table. */
  write(made: Founding): void {
    const at = this.#at;
    const { longs, words } = this.#views;
    longs[at.HEADER_HASH_KEY / 8] = made.random[0];
    longs[at.HEADER_HASH_KEY / 8 + 1] = made.random[1];
    longs[at.HEADER_TABLE_ID / 8] = made.random[2];
    longs[at.HEADER_EPOCH / 8] = made.epochNs;
    words[at.HEADER_SET_COUNT / 4] = made.setCount;
    words[at.HEADER_LINE_SET_COUNT / 4] = made.lineSetCount;
    words[at.HEADER_THREAD_COUNT / 4] = made.threadCount;
    words[at.HEADER_CAPACITY / 4] = made.capacity;
    words[at.HEADER_CLOCK_KIND / 4] = clockKinds.indexOf(made.clockKind);
    words[at.HEADER_WHEN_FULL / 4] = whenFullChoices.indexOf(made.whenFull);
    words[at.HEADER_VERSION / 4] = at.LAYOUT_VERSION;
    words[at.HEADER_MAGIC / 4] = at.MAGIC;
  }

  /** Different for every table. */
  get id(): string {
    return this.#views.longs[this.#at.HEADER_TABLE_ID / 8].toString(36);
  }

  get epochNs(): bigint {
    return this.#views.longs[this.#at.HEADER_EPOCH / 8];
  }

  get capacity(): number {
    return this.#views.unsigned[this.#at.HEADER_CAPACITY / 4];
  }

  get threadCount(): number {
    return this.#views.unsigned[this.#at.HEADER_THREAD_COUNT / 4];
  }

  get clockKind(): ClockKind {
    return clockKinds[this.#views.words[this.#at.HEADER_CLOCK_KIND / 4]];
  }

  /** Slots for keys, in sets and in line sets. */
  get slotCount(): number {
    const at = this.#at;
    const { unsigned } = this.#views;
    return unsigned[at.HEADER_SET_COUNT / 4] * at.SLOT_COUNT
      + unsigned[at.HEADER_LINE_SET_COUNT / 4] * at.LINE_SLOT_COUNT;
  }

  /** How many policies there are; their numbers begin at 1. */
  get policyCount(): number {
    return Atomics.load(this.#views.words, this.#at.HEADER_POLICY_COUNT / 4);
  }

  clockCell(): ClockCell {
    return new ClockCell(this.#buffer, this.#at.HEADER_CLOCK, this.#at.HEADER_CLOCK_NS);
  }

  /** Which ticker's turn it is; 0 before the first. A ticker of an older turn stops. */
  get turn(): number {
    return Atomics.load(this.#views.words, this.#at.HEADER_TICKER / 4);
  }

  /** Ends turn `turn`: true for the thread that did. Its ticker wakes and stops. */
  endTurn(turn: number): boolean {
    const index = this.#at.HEADER_TICKER / 4;
    if (Atomics.compareExchange(this.#views.words, index, turn, turn + 1) !== turn) return false;
    Atomics.notify(this.#views.words, index);
    return true;
  }

  /** Addresses of what a ticker writes and watches. */
  get tickerAddresses(): { msAt: number; nsAt: number; turnAt: number } {
    const { HEADER_CLOCK, HEADER_CLOCK_NS, HEADER_TICKER } = this.#at;
    return { msAt: HEADER_CLOCK, nsAt: HEADER_CLOCK_NS, turnAt: HEADER_TICKER };
  }
}

/**
 * The header behind a handle. Throws TypeError for any other value, ERR_SLUICE_LAYOUT for a table of another version.
 * @internal
 */
export function headerOf(handle: SluiceHandle): Header {
  if (typeof handle !== "object" || handle === null || !(handle.memory instanceof WebAssembly.Memory)) {
    throw new TypeError(`"handle" expected the handle of a Sluice, got ${shown(handle)}`);
  }
  const { at } = kernelConstants();
  const words = new Int32Array(handle.memory.buffer);
  const magic = words[at.HEADER_MAGIC / 4];
  const version = words[at.HEADER_VERSION / 4];
  if (magic !== at.MAGIC) {
    throw new SluiceError(
      "ERR_SLUICE_LAYOUT",
      `"handle" expected a table (first word ${at.MAGIC}), got a memory whose first word is ${magic}`,
    );
  }
  if (version !== at.LAYOUT_VERSION || handle.sluice !== at.LAYOUT_VERSION) {
    throw new SluiceError(
      "ERR_SLUICE_LAYOUT",
      `this thread's sluice has table layout ${at.LAYOUT_VERSION}, the table has ${version} (handle: ${
        shown(handle.sluice)
      }); load the same version of sluice in every thread`,
    );
  }
  return new Header(handle.memory.buffer);
}
