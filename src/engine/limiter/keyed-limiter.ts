// A limiter bound to one key, or to the policy's global bucket: the same
// methods without the key, which is hashed once and not for every call.

import { Bucket } from "../bucket/bucket.js";
import type { Decision } from "../bucket/decision.js";
import { BucketReservation, type Reservation } from "../bucket/reservation.js";
import { checkCost } from "../errors.js";
import type { Policy } from "../policy/policy.js";
import type { Key } from "../table/key.js";
import { crowded, refused } from "../waiting/refusal.js";
import { blockUntil, checkMayBlock } from "../waiting/sleep.js";
import type { Waiters } from "../waiting/waiters.js";
import {
  checkWait,
  maxWaitOf,
  type ReserveOptions,
  timeoutOf,
  type WaitOptions,
  type WaitSyncOptions,
} from "./call-options.js";

/** @internal The bucket behind a handle; undefined for anything else. */
export let bucketOf: (handle: unknown) => Bucket | undefined;
/** @internal Makes a handle to the bucket of `key`; without one, to the global bucket. */
export let handleOf: (policy: Policy, waiters: Waiters, key: Key | undefined) => KeyedLimiter;

/**
 * A limiter bound to one bucket: `limiter.key("alice")` or `limiter.global`. The
 * methods are those of `Limiter` without the key; what it says of costs and
 * errors holds here too.
 */
export class KeyedLimiter {
  static {
    bucketOf = (
      handle,
    ) => (typeof handle === "object" && handle !== null && #bucket in handle ? handle.#bucket : undefined);
    handleOf = (policy, waiters, key) => new KeyedLimiter(policy, waiters, key);
  }

  readonly #bucket: Bucket;
  readonly #waiters: Waiters;
  readonly #kernel: Policy["table"]["kernel"];
  readonly #clock: Policy["table"]["clock"];
  readonly #isGlobal: boolean;
  // Signed, as the kernel takes them: then V8 keeps small integers here, and need
  // not ask at every call whether one of them has become a heap number.
  #low = 0;
  #high = 0;
  /** The segment of the policy's clock that was in force the last time. */
  #segment: number;
  /** Where the key's slot was the last time; 0 unknown, or the global bucket. */
  #slot = 0;
  /** Where this thread keeps its last reading of the clock cell; 0 if that is of no use here. */
  readonly #stats: number;

  private constructor(policy: Policy, waiters: Waiters, key: Key | undefined) {
    const bucket = new Bucket(policy, key);
    this.#bucket = bucket;
    this.#waiters = waiters;
    this.#kernel = policy.table.kernel;
    this.#clock = policy.table.clock;
    this.#segment = policy.segmentAt;
    this.#isGlobal = bucket.isGlobal;
    this.#stats = policy.table.clock.kind !== "precise" && policy.isQuick ? policy.statsAt | 0 : 0;
  }

  /** Takes `cost` tokens and returns true, or takes none and returns false. */
  allow(cost = 1): boolean {
    if (typeof cost !== "number" || (cost | 0) !== cost || cost < 0) checkCost(cost);
    if (this.#slot !== 0) {
      const answer = this.#stats !== 0
        ? this.#kernel.allowSlotByCell(this.#stats, this.#slot, this.#low, this.#high, cost)
        : this.#kernel.allowSlot(this.#segment, this.#slot, this.#low, this.#high, cost, this.#clock.mark());
      if (answer < 2) return answer === 1;
    }
    return this.#isGlobal === true ? this.#allowGlobally(cost) : this.#lookUp(cost);
  }

  #allowGlobally(cost: number): boolean {
    if (this.#stats !== 0) {
      const answer = this.#kernel.allowGlobalByCell(this.#stats, cost);
      if (answer < 2) return answer === 1;
    }
    return this.#kernel.allowGlobal(this.#segment, cost, this.#clock.mark()) === 1;
  }

  /** `allow` when the key's slot is not known, or was given to another key. */
  #lookUp(cost: number): boolean {
    const { table, policy, record, low, high, setA } = this.#bucket;
    this.#segment = policy.segmentAt;
    this.#low = low | 0;
    this.#high = high | 0;
    const answer = table.kernel.allowWords(record, low, high, setA, cost, this.#clock.mark());
    this.#slot = table.scratch.slot | 0;
    return answer === 1;
  }

  /** As `allow`, with the whole answer. */
  consume(cost = 1): Decision {
    checkCost(cost);
    return this.#bucket.ask(true, cost, this.#clock.now());
  }

  /** The answer that `consume` would give; takes nothing. */
  peek(cost = 1): Decision {
    checkCost(cost);
    return this.#bucket.ask(false, cost, this.#clock.now());
  }

  /**
   * Takes `cost` tokens, from the future if need be: act when `delayMs` of the
   * reservation have passed. Not granted, and nothing taken, if the cost exceeds
   * the burst or the delay would exceed `maxWaitMs`.
   */
  reserve(cost = 1, options: ReserveOptions = {}): Reservation {
    checkCost(cost);
    return this.#reserve(cost, maxWaitOf(options), this.#clock.now());
  }

  #reserve(cost: number, maxWaitMs: number, nowMs: number): BucketReservation {
    const granted = this.#bucket.decide(this.#bucket.table.at.CONSUME, cost, nowMs, maxWaitMs);
    return new BucketReservation(this.#bucket, cost, granted, nowMs);
  }

  /** A reservation to wait for, or the error why there is none. */
  #granted(cost: number, timeoutMs: number, nowMs: number): BucketReservation {
    const reservation = this.#reserve(cost, timeoutMs, nowMs);
    if (reservation.granted) return reservation;
    const { name, maxCost, kind } = this.#bucket.policy;
    const { dueAtLow, dueAtHigh } = reservation.dueAt;
    throw refused({
      limiter: name,
      cost,
      maxCost,
      delayMs: reservation.delayMs,
      timeoutMs,
      isQueue: kind.isQueue,
      isTableFull: (dueAtLow | dueAtHigh) === 0,
    });
  }

  /**
   * Waits until `cost` tokens are there, in order of arrival for each key in this
   * thread. An abort rejects with the signal's reason and gives the tokens back.
   * @throws SluiceError, as a rejection, at once and without charging anything:
   * ERR_SLUICE_COST_ABOVE_BURST or ERR_SLUICE_NEVER if the tokens never come,
   * ERR_SLUICE_TIMEOUT if they do not come within `timeoutMs`,
   * ERR_SLUICE_QUEUE_FULL, ERR_SLUICE_TABLE_FULL, or ERR_SLUICE_TOO_MANY_WAITERS.
   * Later: ERR_SLUICE_TIMEOUT if the rate is lowered during the wait, and
   * ERR_SLUICE_CLOSED if the table is closed. The tokens go back then.
   */
  wait(cost = 1, options: WaitOptions = {}): Promise<void> {
    // Not async: a suspended function takes 300 bytes more for each waiter.
    try {
      return this.#wait(cost, options) ?? Promise.resolve();
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Undefined if there is nothing to wait for. */
  #wait(cost: number, options: WaitOptions): Promise<void> | undefined {
    checkCost(cost);
    const { signal, timeoutMs, maxWaiters } = checkWait(options);
    const nowMs = this.#clock.now();
    const waiting = maxWaiters === Infinity ? 0 : this.#waiters.count(this.#bucket);
    if (waiting >= maxWaiters) {
      if (this.#bucket.decide(this.#bucket.table.at.CONSUME, cost, nowMs)) return undefined;
      throw crowded(this.#bucket.policy.name, cost, waiting, maxWaiters);
    }
    const reservation = this.#granted(cost, timeoutMs, nowMs);
    if (reservation.delayMs > 0) {
      return this.#waiters.add(this.#bucket, cost, reservation, nowMs, nowMs + timeoutMs, signal);
    }
  }

  /**
   * Blocks this worker thread until `cost` tokens are there.
   * @throws SluiceError as `wait` rejects; ERR_SLUICE_MAIN_THREAD in the main thread,
   * whose timers would stop.
   */
  waitSync(cost = 1, options: WaitSyncOptions = {}): void {
    checkCost(cost);
    const timeoutMs = timeoutOf(options);
    checkMayBlock(this.#bucket.policy.name, cost);
    const nowMs = this.#clock.now();
    blockUntil(this.#bucket, cost, this.#granted(cost, timeoutMs, nowMs), nowMs, timeoutMs);
  }

  /** Gives `cost` tokens back, at most up to the burst. */
  refund(cost = 1): void {
    checkCost(cost);
    this.#bucket.refund(cost);
  }

  /** Takes `cost` tokens, there or not: the bucket may go into debt, which later calls wait out. */
  charge(cost = 1): void {
    checkCost(cost);
    const { table } = this.#bucket;
    this.#bucket.decide(table.at.CONSUME | table.at.DEBT, cost, table.clock.now());
  }

  /** Makes the bucket full, as if never used. */
  reset(): void {
    this.#bucket.setTokens(Infinity);
  }
}
