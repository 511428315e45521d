// One bucket: a policy and a key, or the policy's global bucket. The general
// calls of the kernel, each in one crossing, as far as a key allows it.

import type { Policy } from "../policy/policy.js";
import { finite, type Key, putKey } from "../table/key.js";
import type { Table } from "../table/table.js";
import { type Decision, decisionIn } from "./decision.js";

/** When a reservation is due, and what it must remember to be cancelled. */
export interface DueAt {
  /** In virtual time, two halves; both 0 if nothing was charged, so that there is nothing to cancel. */
  readonly dueAtLow: number;
  readonly dueAtHigh: number;
  /** The policy's scale then. */
  readonly scale: number;
  /** What it took: of each of several limits, or of a warm-up. Undefined for kinds whose cost says it all. */
  readonly taken: Float64Array | undefined;
}

/** Names a bucket of a policy: the key word in two halves and its first set; all 0 for the global bucket. */
export interface KeyWords {
  readonly low: number;
  readonly high: number;
  readonly setA: number;
}

/** Changes of scale across which a virtual time can be rescaled. */
const KNOWN_SCALES = 2;

/**
 * Decides about a key that was not hashed before; one crossing for a number and
 * for a string that fits the scratch. True if granted. The other answers are then
 * in the scratch, and so are the key's words.
 * @throws TypeError or RangeError for an invalid key.
 */
export function decideKey(
  { table, record }: Policy,
  key: Key,
  mode: number,
  cost: number,
  nowMs: number,
  maxWaitMs = 0,
): boolean {
  const { kernel, scratch } = table;
  mode |= table.at.ANSWER;
  if (typeof key === "string") {
    if (key.length <= scratch.textMax && scratch.writeText(key)) {
      return kernel.decideText(record, key.length, mode, cost, nowMs, maxWaitMs) === 1;
    }
  } else if (typeof key === "number") {
    return kernel.decideNumber(record, finite(key), mode, cost, nowMs, maxWaitMs) === 1;
  }
  putKey(table, record, key);
  return kernel.decide(record, mode, cost, nowMs, maxWaitMs) === 1;
}

export class Bucket implements KeyWords {
  readonly policy: Policy;
  readonly table: Table;
  readonly record: number;
  readonly isGlobal: boolean;
  /** A string or number that is not hashed yet: the first call hashes it on its way. */
  #key: string | number | undefined;
  #low = 0;
  #high = 0;
  #setA = 0;

  /**
   * The bucket of `key`; without one, the global bucket.
   * @throws TypeError or RangeError for an invalid key.
   */
  constructor(policy: Policy, key: Key | undefined) {
    const { table, record } = policy;
    this.policy = policy;
    this.table = table;
    this.record = record;
    this.isGlobal = key === undefined;
    if (typeof key === "string") {
      this.#key = key;
    } else if (typeof key === "number") {
      this.#key = finite(key);
    } else if (key !== undefined) {
      putKey(table, record, key);
      this.#learn();
    }
  }

  get low(): number {
    if (this.#key !== undefined) this.#hash();
    return this.#low;
  }

  get high(): number {
    if (this.#key !== undefined) this.#hash();
    return this.#high;
  }

  get setA(): number {
    if (this.#key !== undefined) this.#hash();
    return this.#setA;
  }

  #hash(): void {
    putKey(this.table, this.record, this.#key!);
    this.#learn();
  }

  /** Takes over the words of its key from the scratch. */
  #learn(): void {
    const { scratch } = this.table;
    this.#key = undefined;
    this.#low = scratch.keyLow;
    this.#high = scratch.keyHigh;
    this.#setA = scratch.setA;
  }

  isSame(other: Bucket): boolean {
    if (this.record !== other.record) return false;
    if (this.#key !== undefined && other.#key !== undefined) return this.#key === other.#key;
    return this.low === other.low && this.high === other.high && this.setA === other.setA;
  }

  /** The kernel's general decision: true if granted. Its other answers are then in the scratch. */
  decide(mode: number, cost: number, nowMs: number, maxWaitMs = 0): boolean {
    if (this.#key !== undefined) {
      const granted = decideKey(this.policy, this.#key, mode, cost, nowMs, maxWaitMs);
      this.#learn();
      return granted;
    }
    const { kernel, at } = this.table;
    mode |= this.isGlobal ? at.ANSWER | at.GLOBAL : at.ANSWER;
    return kernel.decideWords(this.record, this.#low, this.#high, this.#setA, mode, cost, nowMs, maxWaitMs) === 1;
  }

  /** Decides at `nowMs`, or as of a later moment, and takes the cost if `takes` and it is granted. */
  ask(takes: boolean, cost: number, nowMs: number, asOfMs = nowMs): Decision {
    const { at, scratch } = this.table;
    let mode = takes ? at.CONSUME : 0;
    if (asOfMs !== nowMs) {
      mode |= at.AS_OF;
      scratch.setRealMs(nowMs);
    }
    return decisionIn(this.policy, this.decide(mode, cost, asOfMs));
  }

  /**
   * What the last grant took of the first limit, or in all for most kinds: its cost and what would have
   * overflowed until it is due.
   */
  get takenFirst(): number {
    return this.table.scratch.takenFirst;
  }

  /** When the last grant is due. */
  get dueAt(): DueAt {
    const { policy, table } = this;
    const count = policy.kind.takenCount(policy.limits.length);
    return dueAtIn(policy, count === 0 ? undefined : table.scratch.taken(count));
  }

  untilDue(dueAt: DueAt, nowMs: number): { ns: number; dueAt: DueAt } | undefined {
    return untilDue(this.policy, dueAt, nowMs);
  }

  /** Gives tokens back, at most up to the burst. True if some went back. */
  refund(cost: number): boolean {
    return giveBack(this.policy, this, cost, 0, 0, this.table.clock.now());
  }

  cancel(cost: number, dueAt: DueAt, nowMs = this.table.clock.now()): boolean {
    return cancelReserved(this.policy, this, cost, dueAt, nowMs);
  }

  /** Makes it hold `tokens`, fractions and debts too, but at most the burst. */
  setTokens(tokens: number, nowMs = this.table.clock.now()): void {
    const { kernel, at } = this.table;
    if (!this.isGlobal) kernel.keyOfWords(this.low, this.high, this.setA);
    kernel.setTokens(this.record, this.isGlobal ? at.GLOBAL : 0, tokens, nowMs);
  }

  /** Tokens in it now, fractions and debts too. */
  tokens(nowMs = this.table.clock.now()): number {
    this.decide(0, 0, nowMs);
    return this.table.scratch.tokens;
  }
}

/**
 * ns until a reservation is due under the present rate, and its dueAt in the
 * present scale; undefined if its own scale is too long ago to tell.
 */
export function untilDue(
  policy: Policy,
  dueAt: DueAt,
  nowMs: number,
): { ns: number; dueAt: DueAt } | undefined {
  const { record, table: { kernel }, scale } = policy;
  const { dueAtLow, dueAtHigh, taken } = dueAt;
  if (scale - dueAt.scale > KNOWN_SCALES) return undefined;
  const ns = kernel.untilDueAt(record, dueAtLow, dueAtHigh, nowMs);
  if (policy.scale === dueAt.scale) return { ns, dueAt };
  kernel.rescaleDueAt(record, dueAtLow, dueAtHigh);
  return { ns, dueAt: dueAtIn(policy, taken) };
}

/**
 * Cancels what was reserved: `cost` tokens, or what `taken` says of each limit.
 * True if tokens went back: no other reservation stands behind it.
 */
export function cancelReserved(
  policy: Policy,
  key: KeyWords,
  cost: number,
  { dueAtLow, dueAtHigh, scale, taken }: DueAt,
  nowMs: number,
): boolean {
  // Too many scales ago to know what was reserved behind it.
  if (policy.scale - scale > KNOWN_SCALES) return false;
  if (taken) policy.table.scratch.setTaken(taken);
  return giveBack(policy, key, cost, dueAtLow, dueAtHigh, nowMs);
}

/** A refund if both halves of the dueAt are 0, else a cancel. True if tokens went back. */
function giveBack(
  { record, table: { kernel, at } }: Policy,
  { low, high, setA }: KeyWords,
  cost: number,
  dueAtLow: number,
  dueAtHigh: number,
  nowMs: number,
): boolean {
  const mode = (low | high | setA) === 0 ? at.GLOBAL : 0;
  return kernel.giveBack(record, low, high, setA, mode, cost, dueAtLow, dueAtHigh, nowMs) === 1;
}

/** The dueAt that the kernel just left in the scratch. */
function dueAtIn({ table: { scratch }, scale }: Policy, taken: Float64Array | undefined): DueAt {
  return { dueAtLow: scratch.dueAtLow, dueAtHigh: scratch.dueAtHigh, scale, taken };
}
