// What a user holds: a policy bound to a table.

import { decideKey } from "../bucket/bucket.js";
import { type Decision, decisionIn } from "../bucket/decision.js";
import type { Reservation } from "../bucket/reservation.js";
import type { Clock } from "../clock.js";
import { checkCost, checkInteger, MAX_COST, shown } from "../errors.js";
import type { BucketLimits } from "../policy/algorithms.js";
import type { Policy } from "../policy/policy.js";
import { checkBurst, checkRate } from "../policy/rate.js";
import type { Limits } from "../policy/segment.js";
import type { Kernel } from "../table/kernel.js";
import { finite, type Key, noKey, putKey } from "../table/key.js";
import type { Scratch } from "../table/scratch.js";
import type { Table } from "../table/table.js";
import { Waiters } from "../waiting/waiters.js";
import type { ReserveOptions, WaitOptions, WaitSyncOptions } from "./call-options.js";
import { handleOf, type KeyedLimiter } from "./keyed-limiter.js";

/** @internal The policy behind a limiter; undefined for anything else. */
export let policyOf: (limiter: unknown) => Policy | undefined;
/** @internal Makes a limiter; `tier` finds those of its tiers. */
export let limiterOf: (policy: Policy, tier: (name: string) => Limiter) => Limiter;

/**
 * Limits many keys by one policy: every key has a bucket of its own. Made by
 * `sluice.tokenBucket()` and the like, or found by `sluice.limiter()`; the same
 * in every thread.
 *
 * Costs are integers from 0 to 2^31-1, 1 by default; a cost of 0 asks without
 * taking. Every method throws TypeError or RangeError for a wrong argument, a
 * missing key included, and SluiceError ERR_SLUICE_CLOSED after `sluice.close()`.
 */
export class Limiter {
  static {
    policyOf = (
      limiter,
    ) => (typeof limiter === "object" && limiter !== null && #policy in limiter ? limiter.#policy : undefined);
    limiterOf = (policy, tier) => new Limiter(policy, tier);
  }

  readonly #policy: Policy;
  readonly #table: Table;
  readonly #clock: Clock;
  readonly #kernel: Kernel;
  readonly #scratch: Scratch;
  readonly #record: number;
  readonly #waiters: Waiters;
  /** The policy's one global bucket, apart from those of all keys: the same methods without a key. */
  readonly global: KeyedLimiter;
  readonly #tier: (name: string) => Limiter;

  private constructor(policy: Policy, tier: (name: string) => Limiter) {
    this.#tier = tier;
    this.#policy = policy;
    this.#table = policy.table;
    this.#clock = policy.table.clock;
    this.#kernel = policy.table.kernel;
    this.#scratch = policy.table.scratch;
    this.#record = policy.record;
    this.#waiters = new Waiters(policy);
    this.global = handleOf(policy, this.#waiters, undefined);
  }

  /** The name it was defined with; that of a tier is `"user/gold"`. */
  get name(): string {
    return this.#policy.name;
  }

  /** Tokens per second: 0, 1e-9 to 3e9, or Infinity. Of several limits, the first one's. */
  get rate(): number {
    return this.#policy.rate;
  }

  /**
   * Most tokens at once. Of a window, its limit; of a warm-up, the most permits stored; of several
   * limits, the first one's.
   */
  get burst(): number {
    return this.#policy.burst;
  }

  /** Its limits as they are now, in the order of `decision.limitIndex`: one, or as many as it was defined with. */
  get limits(): readonly BucketLimits[] {
    const { limits } = this.#policy;
    return (limits.length === 0 ? [this.#policy] : limits).map(({ rate, burst }) => ({ rate, burst }));
  }

  /**
   * The limiter of a tier: the same except for its limits, with buckets of its own.
   * @throws SluiceError ERR_SLUICE_NO_POLICY if it was defined without that tier.
   */
  tier(name: string): Limiter {
    return this.#tier(name);
  }

  /** A handle to the bucket of one key, which is hashed once: for keys that are used often. */
  key(key: Key): KeyedLimiter {
    if (key === undefined) throw noKey(key);
    return handleOf(this.#policy, this.#waiters, key);
  }

  /** Takes `cost` tokens of `key` and returns true, or takes none and returns false. */
  allow(key: Key, cost = 1): boolean {
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
  consume(key: Key, cost = 1): Decision {
    return this.#ask(key, this.#table.at.CONSUME, cost);
  }

  /** The answer that `consume` would give; takes nothing. */
  peek(key: Key, cost = 1): Decision {
    return this.#ask(key, 0, cost);
  }

  #ask(key: Key, mode: number, cost: number): Decision {
    checkCost(cost);
    return decisionIn(this.#policy, decideKey(this.#policy, key, mode, cost, this.#clock.now()));
  }

  /**
   * As `allow` for many keys, in their order, with one reading of the clock and
   * their memory accesses overlapped. Returns `out`, by default a new array: 1 for
   * each key that was allowed, 0 for the others.
   * @throws before anything is taken if `cost`, `out` or `keys` is wrong. At a
   * wrong key it stops: the keys before it have been charged.
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

  /** Takes `cost` tokens, from the future if need be; see `KeyedLimiter.reserve`. */
  reserve(key: Key, cost = 1, options: ReserveOptions = {}): Reservation {
    return this.key(key).reserve(cost, options);
  }

  /** Waits until `cost` tokens of `key` are there; see `KeyedLimiter.wait`. */
  wait(key: Key, cost = 1, options: WaitOptions = {}): Promise<void> {
    try {
      return this.key(key).wait(cost, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Blocks this worker thread until `cost` tokens of `key` are there; see `KeyedLimiter.waitSync`. */
  waitSync(key: Key, cost = 1, options: WaitSyncOptions = {}): void {
    this.key(key).waitSync(cost, options);
  }

  /** Gives `cost` tokens back to `key`, at most up to the burst. */
  refund(key: Key, cost = 1): void {
    this.key(key).refund(cost);
  }

  /** Takes `cost` tokens of `key`, there or not: the bucket may go into debt, which later calls wait out. */
  charge(key: Key, cost = 1): void {
    this.key(key).charge(cost);
  }

  /** Makes the bucket of `key` full, as if never used. */
  reset(key: Key): void {
    this.key(key).reset();
  }

  /**
   * Changes the rate, tokens per second (0, 1e-9 to 3e9, or Infinity), for all
   * keys and threads. A bucket's new rate begins 5 ms later, with a ManualClock at
   * once. Tokens earned until then stay; reservations and waits become due by the
   * new rate. Of several limits it changes the one at `limitIndex`.
   * @throws TypeError for a window, whose limit is set by `setLimit`; SluiceError
   * ERR_SLUICE_LOCKED if a thread was stopped while it changed a policy.
   */
  setRate(rate: number, limitIndex = 0): void {
    checkRate(rate);
    if (this.#policy.kind.window) throw this.#hasNo("rate", "setLimit()");
    this.#set({ rate }, limitIndex);
  }

  /**
   * Changes the burst, an integer from 0 to 2^31-1 tokens, for all keys and
   * threads at once. Of several limits it changes the one at `limitIndex`.
   * @throws TypeError for a window, whose limit is set by `setLimit`, and for a
   * warm-up, which has no burst; SluiceError ERR_SLUICE_LOCKED as `setRate`.
   */
  setBurst(burst: number, limitIndex = 0): void {
    checkBurst(burst);
    const { window, hasBurst } = this.#policy.kind;
    if (window) throw this.#hasNo("burst", "setLimit()");
    if (!hasBurst) throw this.#hasNo("burst", "setRate()");
    this.#set({ burst }, limitIndex);
  }

  /**
   * Changes the limit of a window, an integer from 0, for all keys and threads at
   * once. What was used of the window stays used.
   * @throws RangeError for a limit that is too large for the window; TypeError for
   * other kinds, which have a rate and a burst; SluiceError ERR_SLUICE_LOCKED as `setRate`.
   */
  setLimit(limit: number): void {
    checkInteger("limit", limit, 0, MAX_COST);
    const { window, hasBurst } = this.#policy.kind;
    if (!window) throw this.#hasNo("limit", hasBurst ? "setRate() and setBurst()" : "setRate()");
    this.#set({ burst: limit }, 0);
  }

  #set(to: Partial<Limits>, limitIndex: number): void {
    const { limits } = this.#policy;
    checkInteger("limitIndex", limitIndex, 0, Math.max(0, limits.length - 1));
    (limits[limitIndex] ?? this.#policy).set(to);
    this.#waiters.reconsider();
  }

  #hasNo(what: string, instead: string): TypeError {
    const { name, kind } = this.#policy;
    return new TypeError(`${JSON.stringify(name)} is a ${kind.name} and has no ${what} to set; use ${instead}`);
  }
}

function checkLength(keys: ArrayLike<Key>): number {
  if (typeof keys !== "object" || keys === null || !Number.isSafeInteger(keys.length) || keys.length < 0) {
    throw new TypeError(`"keys" expected an array of keys, got ${shown(keys)}`);
  }
  return keys.length;
}
