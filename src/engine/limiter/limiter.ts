// What a user holds: a policy bound to a table.

import { decideKey } from "../bucket/bucket.js";
import { type Decision, decisionIn } from "../bucket/decision.js";
import type { Reservation } from "../bucket/reservation.js";
import type { Clock } from "../clock.js";
import { checkCost, checkInteger, shown } from "../errors.js";
import type { Policy } from "../policy/policy.js";
import { checkBurst, checkRate } from "../policy/rate.js";
import type { LimiterStats } from "../table/counters.js";
import type { Kernel } from "../table/kernel.js";
import { finite, type Key, putKey } from "../table/key.js";
import type { Scratch } from "../table/scratch.js";
import type { Table } from "../table/table.js";
import { Waiters } from "../waiting/waiters.js";
import type { ReserveOptions, WaitOptions, WaitSyncOptions } from "./call-options.js";
import { KeyedLimiter } from "./keyed-limiter.js";

export type { LimiterStats };

/** The policy behind a limiter; undefined for what is none. */
export let policyOf: (limiter: unknown) => Policy | undefined;

/**
 * Limits many keys by one policy. A key may be left out (or undefined): the
 * call then acts on the policy's one global bucket. Costs are integers from 0
 * to 2^31-1, 1 by default; 0 asks without taking.
 */
export class Limiter {
  static {
    policyOf = (
      limiter,
    ) => (typeof limiter === "object" && limiter !== null && #policy in limiter ? limiter.#policy : undefined);
  }

  readonly #policy: Policy;
  readonly #table: Table;
  readonly #clock: Clock;
  readonly #kernel: Kernel;
  readonly #scratch: Scratch;
  readonly #record: number;
  readonly #waiters: Waiters;
  /** The policy's one global bucket: the same methods without a key, shared by all threads. */
  readonly global: KeyedLimiter;
  readonly #tier: (name: string) => Limiter;

  /** Made by `sluice.tokenBucket()` and the like, or `sluice.limiter()`. */
  constructor(policy: Policy, tier: (name: string) => Limiter) {
    this.#tier = tier;
    this.#policy = policy;
    this.#table = policy.table;
    this.#clock = policy.table.clock;
    this.#kernel = policy.table.kernel;
    this.#scratch = policy.table.scratch;
    this.#record = policy.record;
    this.#waiters = new Waiters(policy);
    this.global = new KeyedLimiter(policy, this.#waiters, undefined);
  }

  get name(): string {
    return this.#policy.name;
  }

  /** Tokens per second. */
  get rate(): number {
    return this.#policy.rate;
  }

  /** Most tokens at once. */
  get burst(): number {
    return this.#policy.burst;
  }

  /** The limiter of a tier: the same in all but its limits, with buckets of its own. Throws ERR_SLUICE_NO_POLICY if there is none. */
  tier(name: string): Limiter {
    return this.#tier(name);
  }

  /** This limiter for one key, hashed once; without a key, for the global bucket. */
  key(key?: Key): KeyedLimiter {
    return key === undefined ? this.global : new KeyedLimiter(this.#policy, this.#waiters, key);
  }

  /** Takes `cost` tokens of `key` if they are there. Never throws for being limited. */
  allow(key?: Key, cost = 1): boolean {
    if (typeof cost !== "number" || (cost | 0) !== cost || cost < 0) checkCost(cost);
    if (typeof key === "string") {
      const scratch = this.#scratch;
      if (key.length <= scratch.textMax && scratch.writeText(key)) {
        return this.#kernel.allowText(this.#record, key.length, cost, this.#clock.mark()) === 1;
      }
    } else if (typeof key === "number") {
      return this.#kernel.allowNumber(this.#record, finite(key), cost, this.#clock.mark()) === 1;
    }
    return this.key(key).allow(cost);
  }

  /** As `allow`, with the whole answer. */
  consume(key?: Key, cost = 1): Decision {
    return this.#ask(key, this.#table.at.CONSUME, cost);
  }

  /** What `consume` would answer; takes nothing. */
  peek(key?: Key, cost = 1): Decision {
    return this.#ask(key, 0, cost);
  }

  #ask(key: Key | undefined, mode: number, cost: number): Decision {
    checkCost(cost);
    if (key === undefined) return mode ? this.global.consume(cost) : this.global.peek(cost);
    return decisionIn(this.#policy, decideKey(this.#policy, key, mode, cost, this.#clock.now()));
  }

  /**
   * Decides for many keys, in order, with one reading of the clock and their
   * memory accesses overlapped. Returns `out` (or a new array): 1 for each key
   * that was allowed, 0 for the others. Throws before it takes anything if
   * `cost` or `out` is wrong; a key of a wrong type stops it at that key.
   */
  allowMany(keys: ArrayLike<Key>, cost = 1, out: Uint8Array = new Uint8Array(checkLength(keys))): Uint8Array {
    checkCost(cost);
    const length = checkLength(keys);
    if (!(out instanceof Uint8Array)) throw new TypeError(`"out" expected a Uint8Array, got ${shown(out)}`);
    if (out.length < length) {
      throw new RangeError(`"out" expected at least ${length} elements, one a key, got ${out.length}`);
    }
    const table = this.#table;
    const kernel = this.#kernel;
    const record = this.#record;
    const scratch = this.#scratch;
    const { MAX_BATCH: most } = table.at;
    const nowMs = this.#clock.mark();
    for (let from = 0; from < length; from += most) {
      const count = Math.min(most, length - from);
      let i = 0;
      // Reading the lengths first lets the misses on the strings themselves overlap.
      let characters = 0;
      for (let j = 0; j < count; j++) {
        const key = keys[from + j];
        if (typeof key === "string") characters += key.length;
      }
      if (characters < 0) break;
      try {
        for (; i < count; i++) {
          const key = keys[from + i];
          if (typeof key === "string" && key.length <= scratch.textMax && scratch.writeText(key)) {
            kernel.batchText(record, i, 0, key.length);
          } else if (typeof key === "number") {
            kernel.batchNumber(record, i, finite(key));
          } else {
            putKey(table, record, key);
            kernel.batchKey(i);
          }
        }
      } finally {
        kernel.allowBatch(record, i, cost, nowMs);
        scratch.copyAnswers(out, from, i);
      }
    }
    return out;
  }

  /** Takes `cost` tokens, from the future if need be, and says how long to wait before acting. */
  reserve(key?: Key, cost = 1, options: ReserveOptions = {}): Reservation {
    return this.key(key).reserve(cost, options);
  }

  /** Waits until `cost` tokens of `key` are there; see `KeyedLimiter.wait`. */
  wait(key?: Key, cost = 1, options: WaitOptions = {}): Promise<void> {
    try {
      return this.key(key).wait(cost, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Blocks this worker thread until `cost` tokens of `key` are there; see `KeyedLimiter.waitSync`. */
  waitSync(key?: Key, cost = 1, options: WaitSyncOptions = {}): void {
    this.key(key).waitSync(cost, options);
  }

  /** Gives `cost` tokens back to `key`, at most up to the burst. */
  refund(key?: Key, cost = 1): void {
    this.key(key).refund(cost);
  }

  /** Takes `cost` tokens whether they are there or not: the bucket may go into debt, which later calls wait out. */
  charge(key?: Key, cost = 1): void {
    this.key(key).charge(cost);
  }

  /** Makes the bucket of `key` full, as if never used. */
  reset(key?: Key): void {
    this.key(key).reset();
  }

  /**
   * Changes the rate, tokens per second, for all keys and threads at once.
   * Tokens earned until now stay. Of a window it changes the limit, to the rate
   * times its length; of several limits the one at `limitIndex`.
   */
  setRate(rate: number, limitIndex = 0): void {
    checkRate(rate);
    this.#limit(limitIndex).set({ rate });
    this.#waiters.reconsider();
  }

  /** Changes the burst, tokens, for all keys and threads at once. Of a window it changes the limit; what was used stays used. */
  setBurst(burst: number, limitIndex = 0): void {
    checkBurst(burst);
    if (!this.#policy.kind.hasBurst) {
      throw new TypeError(
        `${JSON.stringify(this.name)} warms up: it stores what its rate and warmupMs make, and has no burst to set`,
      );
    }
    this.#limit(limitIndex).set({ burst });
    this.#waiters.reconsider();
  }

  /** The policy of one of several limits, or the only one. */
  #limit(index: number): Policy {
    const { limits } = this.#policy;
    checkInteger("limitIndex", index, 0, Math.max(0, limits.length - 1));
    return limits[index] ?? this.#policy;
  }
}

function checkLength(keys: ArrayLike<Key>): number {
  if (typeof keys !== "object" || keys === null || !Number.isSafeInteger(keys.length) || keys.length < 0) {
    throw new TypeError(`"keys" expected an array of keys, got ${shown(keys)}`);
  }
  return keys.length;
}
