// Guava's RateLimiter, with its names and semantics, over a sluice table:
// https://guava.dev/releases/31.1-jre/api/docs/com/google/common/util/concurrent/RateLimiter.html
//
// A request never waits for its own permits: the next caller pays. Up to one
// second of unused permits is stored (SmoothBursty), or with a warm-up as many as
// it takes to get cold (SmoothWarmingUp). Timeouts are milliseconds; `acquire`
// answers in seconds slept, as Guava does. Guava cuts each charge to whole
// microseconds and so grants more than high rates allow; this one keeps the rate.

import { Bucket, type DueAt } from "../engine/bucket/bucket.js";
import { BucketReservation } from "../engine/bucket/reservation.js";
import { checkDuration, checkInteger, MAX_COST } from "../engine/errors.js";
import { checkSignal } from "../engine/limiter/call-options.js";
import { type Home, policyAt } from "../engine/limiter/own-table.js";
import { checkOptions } from "../engine/options.js";
import { kinds } from "../engine/policy/kinds.js";
import type { Policy } from "../engine/policy/policy.js";
import { checkRate } from "../engine/policy/rate.js";
import { refused } from "../engine/waiting/refusal.js";
import { blockUntil, sleepUntil } from "../engine/waiting/sleep.js";

export type { Home };

/** The permits that one second of idling stores; at an infinite rate none is ever owed, and any number will do. */
function maxStored(permitsPerSecond: number): number {
  return permitsPerSecond === Infinity ? 1 : permitsPerSecond;
}

/** A due time of which only the moment is known: as in Guava, a new rate wakes no sleeper. */
const FIXED: DueAt = { dueAtLow: 0, dueAtHigh: 0, scale: -Infinity, taken: undefined };

/** Options of `RateLimiter.create`. */
export interface RateLimiterOptions {
  /** How long it warms up, ms from 0 to 366 days (SmoothWarmingUp); without it, it is bursty. */
  warmupMs?: number;
  /** How much slower it is when cold, 1 to 1e6; 3 by default. Only with `warmupMs`. */
  coldFactor?: number;
  /** Where threads share it, under a name. */
  home?: Home;
}

/** Options of `acquire` and `tryAcquire`. */
export interface AcquireOptions {
  /** Ends the wait: it rejects with the signal's reason, and the permits go back. */
  signal?: AbortSignal;
}

/**
 * Guava's RateLimiter. Permits are integers from 1 to 2^31-1, 1 by default. Every
 * method throws TypeError or RangeError for a wrong argument.
 */
export class RateLimiter {
  readonly #policy: Policy;
  readonly #bucket: Bucket;

  private constructor(policy: Policy) {
    this.#policy = policy;
    this.#bucket = new Bucket(policy, undefined);
  }

  /**
   * Makes a limiter of `permitsPerSecond`: 1e-9 to 3e9, or Infinity. For one that
   * warms up, the warm-up in ms follows, alone or among the options.
   * @throws SluiceError ERR_SLUICE_POLICY_EXISTS if `home` has that name with other limits.
   */
  static create(permitsPerSecond: number, options: number | RateLimiterOptions = {}): RateLimiter {
    checkPermitsPerSecond(permitsPerSecond);
    if (typeof options === "number") return RateLimiter.create(permitsPerSecond, { warmupMs: options });
    checkOptions(options, ["warmupMs", "coldFactor", "home"]);
    const { warmupMs, coldFactor, home } = options;
    if (warmupMs !== undefined) {
      const { kind, numbers } = kinds.warmUp.read({
        rate: permitsPerSecond,
        warmupMs,
        ...(coldFactor !== undefined && { coldFactor }),
      });
      return new RateLimiter(policyAt(home, kind, numbers));
    }
    if (coldFactor !== undefined) throw new TypeError("\"coldFactor\" expected a warmupMs besides, got none");
    const burst = maxStored(permitsPerSecond);
    return new RateLimiter(policyAt(home, "guavaLimiter", { rate: permitsPerSecond, burst, extra: 0 }));
  }

  /** Permits per second. */
  getRate(): number {
    return this.#policy.rate;
  }

  /**
   * Changes the rate: 1e-9 to 3e9 permits per second, or Infinity. Stored permits change in proportion;
   * what is owed keeps its time.
   */
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
    this.#policy.setAt({ rate: permitsPerSecond, burst: maxStored(permitsPerSecond) }, nowMs);
    // After an infinite rate it is full, as Guava's is.
    this.#bucket.setTokens(share > 0 ? tokens * share : Infinity, nowMs);
  }

  /** Waits for `permits` and resolves to the seconds it waited. */
  async acquire(permits = 1, options: AcquireOptions = {}): Promise<number> {
    const signal = signalOf(options);
    const nowMs = this.#now();
    const reservation = this.#reserve(permits, Infinity, nowMs)!;
    await this.#wait(reservation, nowMs, signal);
    return reservation.delayMs / 1000;
  }

  /**
   * Blocks this worker thread until it has `permits` and returns the seconds it slept.
   * @throws SluiceError ERR_SLUICE_MAIN_THREAD if it would have to sleep in the main
   * thread; the permits go back then.
   */
  acquireSync(permits = 1): number {
    const nowMs = this.#now();
    const reservation = this.#reserve(permits, Infinity, nowMs)!;
    this.#block(reservation, permits, nowMs);
    return reservation.delayMs / 1000;
  }

  /**
   * Waits for `permits` and resolves to true if they come within `timeoutMs` (ms >= 0); else resolves to
   * false at once and takes none.
   */
  async tryAcquire(permits = 1, timeoutMs = 0, options: AcquireOptions = {}): Promise<boolean> {
    const signal = signalOf(options);
    const nowMs = this.#now();
    const reservation = this.#reserve(permits, timeoutMs, nowMs);
    if (!reservation) return false;
    await this.#wait(reservation, nowMs, signal);
    return true;
  }

  /**
   * As `tryAcquire`, blocking this worker thread. Without a timeout it never blocks.
   * @throws SluiceError ERR_SLUICE_MAIN_THREAD as `acquireSync`.
   */
  tryAcquireSync(permits = 1, timeoutMs = 0): boolean {
    const nowMs = this.#now();
    const reservation = this.#reserve(permits, timeoutMs, nowMs);
    if (!reservation) return false;
    this.#block(reservation, permits, nowMs);
    return true;
  }

  /**
   * Takes `permits` and returns the ms to wait before using them; undefined, and none taken, if that is
   * more than `maxWaitMs` (ms >= 0).
   */
  reserve(permits = 1, maxWaitMs = Infinity): number | undefined {
    return this.#reserve(permits, maxWaitMs, this.#now(), "maxWaitMs")?.delayMs;
  }

  #reserve(permits: number, timeoutMs: number, nowMs: number, option = "timeoutMs"): BucketReservation | undefined {
    checkInteger("permits", permits, 1, MAX_COST);
    checkDuration(option, timeoutMs);
    this.#policy.keepWithinLife(nowMs);
    const granted = this.#bucket.decide(this.#policy.table.at.CONSUME, permits, nowMs, timeoutMs);
    const reservation = new BucketReservation(this.#bucket, permits, granted, nowMs);
    if (granted) return reservation;
    // Refused although in time: so much cannot be owed at once.
    const { delayMs } = reservation;
    if (delayMs <= timeoutMs) {
      const { name } = this.#policy;
      throw refused({ limiter: name, cost: permits, maxCost: MAX_COST, delayMs, timeoutMs: Infinity, isQueue: false });
    }
    return undefined;
  }

  async #wait(reservation: BucketReservation, nowMs: number, signal: AbortSignal | undefined): Promise<void> {
    if (reservation.delayMs === 0) return;
    const { table } = this.#policy;
    const giveBack = (): boolean => reservation.cancel();
    const stopListening = table.onClose(giveBack);
    signal?.addEventListener("abort", giveBack, { once: true });
    try {
      await sleepUntil(table, nowMs + reservation.delayMs, signal);
    } finally {
      stopListening();
      signal?.removeEventListener("abort", giveBack);
    }
  }

  #block(reservation: BucketReservation, permits: number, nowMs: number): void {
    try {
      blockUntil(this.#bucket, permits, { dueAt: FIXED, delayMs: reservation.delayMs }, nowMs, Infinity);
    } catch (error) {
      reservation.cancel(nowMs);
      throw error;
    }
  }

  #now(): number {
    return this.#policy.table.clock.now();
  }
}

function signalOf(options: AcquireOptions): AbortSignal | undefined {
  checkOptions(options, ["signal"]);
  const { signal } = options;
  checkSignal(signal);
  return signal;
}

function checkPermitsPerSecond(rate: unknown): void {
  if (rate === 0) throw new RangeError("\"permitsPerSecond\" expected a number > 0, got 0");
  checkRate(rate, "permitsPerSecond");
}
