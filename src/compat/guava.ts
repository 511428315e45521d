// Guava's RateLimiter, with its names and semantics, over a sluice table:
// https://guava.dev/releases/31.1-jre/api/docs/com/google/common/util/concurrent/RateLimiter.html
//
// A request never waits for its own permits: the next caller pays. Up to one
// second of unused permits is stored (SmoothBursty), or with a warm-up as many as
// it takes to get cold (SmoothWarmingUp). Timeouts are
// milliseconds; acquire answers in seconds slept, as Guava does. Guava cuts
// each charge to whole microseconds and so grants more than high rates allow;
// this one keeps the rate.

import { Bucket } from "../engine/bucket/bucket.js";
import { BucketReservation } from "../engine/bucket/reservation.js";
import { checkDuration, checkInteger, checkOptions, MAX_COST, SluiceError } from "../engine/errors.js";
import { type Home, settle } from "../engine/limiter/own-table.js";
import { kinds } from "../engine/policy/kinds.js";
import type { Policy } from "../engine/policy/policy.js";
import { checkRate } from "../engine/policy/rate.js";
import { blockUntil } from "../engine/waiting/sleep.js";
import { Waiters } from "../engine/waiting/waiters.js";

export type { Home };

const MAX_BURST_SECONDS = 1;

export interface RateLimiterOptions {
  /** Makes it warm up for so long, ms >= 0 (SmoothWarmingUp); left out, it is bursty. */
  warmupMs?: number;
  /** How much slower it is when cold, >= 1; 3 by default. */
  coldFactor?: number;
  /** Where threads share it, under a name. */
  home?: Home;
}

export class RateLimiter {
  readonly #policy: Policy;
  readonly #bucket: Bucket;
  readonly #waiters: Waiters;

  private constructor(policy: Policy) {
    this.#policy = policy;
    this.#bucket = new Bucket(policy, undefined);
    this.#waiters = new Waiters(policy);
  }

  /**
   * Permits per second, > 0; and, for a limiter that warms up, the warm-up in ms,
   * alone or among the options.
   */
  static create(permitsPerSecond: number, options: number | RateLimiterOptions = {}): RateLimiter {
    checkPermitsPerSecond(permitsPerSecond);
    if (typeof options === "number") return RateLimiter.create(permitsPerSecond, { warmupMs: options });
    checkOptions(options);
    const { warmupMs, coldFactor = 3, home } = options;
    if (warmupMs === undefined) {
      return new RateLimiter(
        settle(home, "guavaLimiter", { rate: permitsPerSecond, burst: MAX_BURST_SECONDS * permitsPerSecond, extra: 0 }),
      );
    }
    const { kind, numbers } = kinds.warmUp.read({ rate: permitsPerSecond, warmupMs, coldFactor });
    return new RateLimiter(settle(home, kind, numbers));
  }

  /** Permits per second. */
  getRate(): number {
    return this.#policy.rate;
  }

  /** Changes the rate. Stored permits change in proportion; a wait already owed keeps its time. */
  setRate(permitsPerSecond: number): void {
    checkPermitsPerSecond(permitsPerSecond);
    const nowMs = this.#now();
    if (!this.#policy.kind.hasBurst) {
      // Its state is in shares and times, which a new rate leaves as they are.
      this.#policy.setAt({ rate: permitsPerSecond }, nowMs);
      return;
    }
    const tokens = this.#bucket.tokens(nowMs);
    const share = permitsPerSecond / this.#policy.rate;
    this.#policy.setAt({ rate: permitsPerSecond, burst: MAX_BURST_SECONDS * permitsPerSecond }, nowMs);
    this.#bucket.setTokens(tokens * share, nowMs);
    this.#waiters.reconsider();
  }

  /** Waits for `permits` and resolves to the seconds it waited. An abort rejects and gives the permits back. */
  async acquire(permits = 1, { signal }: { signal?: AbortSignal } = {}): Promise<number> {
    signal?.throwIfAborted();
    const nowMs = this.#now();
    const reservation = this.#reserve(permits, Infinity, nowMs)!;
    await this.#wait(reservation, permits, nowMs, signal);
    return reservation.delayMs / 1000;
  }

  /** Blocks this worker thread for `permits`; the seconds it slept. */
  acquireSync(permits = 1): number {
    const nowMs = this.#now();
    const reservation = this.#reserve(permits, Infinity, nowMs)!;
    blockUntil(this.#bucket, permits, reservation, nowMs, Infinity);
    return reservation.delayMs / 1000;
  }

  /** Waits for `permits` if they can be had within `timeoutMs`; else resolves to false at once. */
  async tryAcquire(permits = 1, timeoutMs = 0, { signal }: { signal?: AbortSignal } = {}): Promise<boolean> {
    signal?.throwIfAborted();
    const nowMs = this.#now();
    const reservation = this.#reserve(permits, timeoutMs, nowMs);
    if (!reservation) return false;
    await this.#wait(reservation, permits, nowMs, signal);
    return true;
  }

  /** As `tryAcquire`, blocking this worker thread; without a timeout it never blocks and may run in the main thread. */
  tryAcquireSync(permits = 1, timeoutMs = 0): boolean {
    const nowMs = this.#now();
    const reservation = this.#reserve(permits, timeoutMs, nowMs);
    if (!reservation) return false;
    blockUntil(this.#bucket, permits, reservation, nowMs, Infinity);
    return true;
  }

  /** Takes `permits` and says how many ms to wait before using them; undefined if more than `maxWaitMs`. */
  reserve(permits = 1, maxWaitMs = Infinity): number | undefined {
    return this.#reserve(permits, maxWaitMs, this.#now())?.delayMs;
  }

  #reserve(permits: number, timeoutMs: number, nowMs: number): BucketReservation | undefined {
    checkInteger("permits", permits, 1, MAX_COST);
    checkDuration("timeoutMs", timeoutMs);
    this.#policy.keepWithinLife(nowMs);
    const granted = this.#bucket.decide(this.#policy.table.at.CONSUME, permits, nowMs, timeoutMs);
    const reservation = new BucketReservation(this.#bucket, permits, granted, nowMs);
    if (granted) return reservation;
    if (reservation.delayMs <= timeoutMs) {
      throw new SluiceError(
        "ERR_SLUICE_COST_ABOVE_BURST",
        `"permits" expected fewer than can be owed at once, got ${permits}`,
      );
    }
    return undefined;
  }

  async #wait(
    reservation: BucketReservation,
    permits: number,
    nowMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (reservation.delayMs > 0) await this.#waiters.add(this.#bucket, permits, reservation, nowMs, Infinity, signal);
  }

  #now(): number {
    return this.#policy.table.clock.now();
  }
}

function checkPermitsPerSecond(rate: unknown): void {
  if (rate === 0) throw new RangeError("\"permitsPerSecond\" expected a number > 0, got 0");
  checkRate(rate);
}
