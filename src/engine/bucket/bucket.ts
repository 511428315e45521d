// One bucket: a policy and a key, hashed once, or the policy's global bucket.
// What needs no speed goes through here.

import type { Policy } from "../policy/policy.js";
import { type Key, putKey } from "../table/key.js";
import type { Table } from "../table/table.js";
import { type Decision, decisionIn } from "./decision.js";

/** When a reservation acts, in virtual time (two halves; 0 if nothing was charged), and what it took of several limits. */
export interface DueAt {
  readonly dueAtLow: number;
  readonly dueAtHigh: number;
  /** The policy's generation then. */
  readonly generation: number;
  readonly taken: Float64Array | undefined;
}

/** Names a bucket of a policy; all 0 for the global one. */
export interface KeyWords {
  readonly low: number;
  readonly high: number;
  readonly setA: number;
}

/** Changes of scale across which a virtual time can be told. */
const KNOWN_GENERATIONS = 2;

export class Bucket implements KeyWords {
  readonly policy: Policy;
  readonly table: Table;
  readonly record: number;
  readonly isGlobal: boolean;
  /** The key word in two halves and its first set; 0 for the global bucket. */
  readonly low: number;
  readonly high: number;
  readonly setA: number;

  constructor(policy: Policy, key: Key | undefined) {
    const { table, record } = policy;
    this.policy = policy;
    this.table = table;
    this.record = record;
    this.isGlobal = key === undefined;
    if (key === undefined) {
      this.low = this.high = this.setA = 0;
      return;
    }
    putKey(table, record, key);
    const { at, words, lane } = table;
    this.low = words[(lane + at.LANE_KEY) / 4];
    this.high = words[(lane + at.LANE_KEY) / 4 + 1];
    this.setA = words[(lane + at.LANE_SET_A) / 4];
  }

  isSame({ record, low, high, setA }: Bucket): boolean {
    return this.record === record && this.low === low && this.high === high && this.setA === setA;
  }

  /** The kernel's general decision: true if granted. Its other answers are then in the lane. */
  decide(mode: number, cost: number, nowMs: number, maxWaitMs = 0): boolean {
    return this.table.kernel.decide(this.record, this.#select(mode | this.table.at.ANSWER), cost, nowMs, maxWaitMs)
      === 1;
  }

  /** Decides at `nowMs`, or as of a later moment, taking what it grants or not. */
  ask(takes: boolean, cost: number, nowMs: number, asOfMs = nowMs): Decision {
    const { at, doubles, lane } = this.table;
    let mode = takes ? at.CONSUME : 0;
    if (asOfMs !== nowMs) {
      mode |= at.AS_OF;
      doubles[(lane + at.LANE_REAL_MS) / 8] = nowMs;
    }
    return decisionIn(this.policy, this.decide(mode, cost, asOfMs));
  }

  /**
   * What the last grant took, of each limit: tokens, its cost and what would have
   * overflowed until it acts. Of a warm-up: ns, and the share of what was stored.
   */
  get taken(): Float64Array {
    const { at, doubles, lane } = this.table;
    const from = (lane + at.LANE_TAKEN) / 8;
    return doubles.slice(from, from + (this.policy.kind === "warmUp" ? 2 : Math.max(1, this.policy.parts.length)));
  }

  /** The first of `taken`, or all of it for most kinds, without an array. */
  get tookFirst(): number {
    return this.table.doubles[(this.table.lane + this.table.at.LANE_TAKEN) / 8];
  }

  /** The virtual time at which the last grant may act, in two halves; 0 if it charged nothing. */
  get dueAt(): DueAt {
    return { ...dueAtIn(this.policy), taken: this.policy.isLine && !this.policy.isWindow ? this.taken : undefined };
  }

  untilDue(dueAt: DueAt, nowMs: number): { ns: number; dueAt: DueAt } | undefined {
    return untilDue(this.policy, dueAt, nowMs);
  }

  refund(cost: number): boolean {
    return this.table.kernel.refund(this.record, this.#select(0), cost, this.table.clock.now()) === 1;
  }

  cancel(cost: number, dueAt: DueAt, nowMs = this.table.clock.now()): boolean {
    return cancelReserved(this.policy, this, cost, dueAt, nowMs);
  }

  /** Makes it hold `tokens`, fractions and debts too, but at most the burst. */
  setTokens(tokens: number, nowMs = this.table.clock.now()): void {
    this.table.kernel.setTokens(this.record, this.#select(0), tokens, nowMs);
  }

  /** Tokens in it now, fractions and debts too. */
  tokens(nowMs = this.table.clock.now()): number {
    this.decide(0, 0, nowMs);
    return this.table.doubles[(this.table.lane + this.table.at.LANE_TOKENS) / 8];
  }

  #select(mode: number): number {
    return select(this.policy, this, mode);
  }
}

/** Puts a key in the lane; the mode that says whose bucket it is. */
function select({ table: { kernel, at } }: Policy, { low, high, setA }: KeyWords, mode: number): number {
  if ((low | high | setA) === 0) return mode | at.GLOBAL;
  kernel.keyOfWords(low, high, setA);
  return mode;
}

/**
 * ns until a reservation may act under the present rate, and its dueAt in the
 * present units; undefined if its scale is too long ago to tell.
 */
export function untilDue(
  policy: Policy,
  { dueAtLow, dueAtHigh, generation, taken }: DueAt,
  nowMs: number,
): { ns: number; dueAt: DueAt } | undefined {
  const { record, table } = policy;
  if (policy.generation - generation > KNOWN_GENERATIONS) return undefined;
  const ns = table.kernel.untilAct(record, dueAtLow, dueAtHigh, nowMs);
  if (policy.generation === generation) return { ns, dueAt: { dueAtLow, dueAtHigh, generation, taken } };
  table.kernel.translateAct(record, dueAtLow, dueAtHigh);
  return { ns, dueAt: { ...dueAtIn(policy), taken } };
}

/** Cancels what was reserved: `cost` tokens, or of a policy with several limits what each `taken` says. */
export function cancelReserved(
  policy: Policy,
  key: KeyWords,
  cost: number,
  { dueAtLow, dueAtHigh, generation, taken }: DueAt,
  nowMs: number,
): boolean {
  // Too many scales ago to know who reserved behind it.
  if (policy.generation - generation > KNOWN_GENERATIONS) return false;
  const { table, record } = policy;
  if (taken) table.doubles.set(taken, (table.lane + table.at.LANE_TAKEN) / 8);
  return table.kernel.cancel(record, select(policy, key, 0), cost, dueAtLow, dueAtHigh, nowMs) === 1;
}

/** The dueAt that the kernel just left in the lane. */
function dueAtIn({ table: { at, unsigned, lane }, generation }: Policy): DueAt {
  return {
    dueAtLow: unsigned[(lane + at.LANE_ACT) / 4],
    dueAtHigh: unsigned[(lane + at.LANE_ACT) / 4 + 1],
    generation,
    taken: undefined,
  };
}
