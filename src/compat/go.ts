// The limiter of golang.org/x/time/rate, with its names and semantics, over a
// sluice table: https://pkg.go.dev/golang.org/x/time/rate
//
// Times are milliseconds on the table's clock (`limiter.now()`), durations
// milliseconds, errors SluiceErrors. Where Go's limiter is at fault this one is
// not: time that goes backwards grants nothing, a second cancel does nothing,
// and a wait for what rate 0 will never bring fails instead of hanging. As Go
// does, it cuts a wait to whole nanoseconds, so it may act up to 1 ns early.

import { Bucket } from "../engine/bucket/bucket.js";
import { BucketReservation } from "../engine/bucket/reservation.js";
import { ownMs } from "../engine/clock.js";
import { checkCost, checkDuration, checkInteger, checkOptions, unexpected } from "../engine/errors.js";
import { KeyedLimiter } from "../engine/limiter/keyed-limiter.js";
import { type Home, settle } from "../engine/limiter/own-table.js";
import type { Policy } from "../engine/policy/policy.js";
import { checkBurst, checkRate } from "../engine/policy/rate.js";
import { Waiters } from "../engine/waiting/waiters.js";

export { every } from "../engine/policy/rate.js";
export type { Home };

/** The infinite rate: everything is allowed, whatever the burst. */
export const Inf = Infinity;
/** The delay of a reservation that can never act. */
export const InfDuration = Infinity;

export interface GoWaitOptions {
  /** Aborts the wait, as a context that is cancelled. */
  signal?: AbortSignal;
  /** The context's deadline, ms on the limiter's clock; a wait past it fails at once. */
  deadlineMs?: number;
}

/** A token bucket of `burst` tokens, refilled at `limit` tokens per second, full at first. */
export class Limiter {
  readonly #policy: Policy;
  readonly #bucket: Bucket;
  readonly #waiters: Waiters;
  readonly #waiting: KeyedLimiter;

  /** `limit`: tokens per second, or Inf; `burst`: tokens. At `home`, threads share it under its name. */
  constructor(limit: number, burst: number, home?: Home) {
    checkRate(limit);
    checkBurst(burst);
    this.#policy = settle(home, "goLimiter", { rate: limit, burst, extra: 0 });
    this.#bucket = new Bucket(this.#policy, undefined);
    this.#waiters = new Waiters(this.#policy);
    this.#waiting = new KeyedLimiter(this.#policy, this.#waiters, undefined);
  }

  /** ms on this limiter's clock. */
  now(): number {
    return this.#policy.table.clock.now();
  }

  limit(): number {
    return this.#policy.rate;
  }

  burst(): number {
    return this.#policy.burst;
  }

  allow(): boolean {
    return this.allowN(this.now(), 1);
  }

  /** Whether n events may happen at time `at`; takes their tokens if so. */
  allowN(at: number, n: number): boolean {
    this.#begin(at, n);
    return this.#bucket.decide(this.#policy.table.at.CONSUME, n, at);
  }

  reserve(): Reservation {
    return this.reserveN(this.now(), 1);
  }

  /** Takes n tokens, from the future if need be. */
  reserveN(at: number, n: number): Reservation {
    this.#begin(at, n);
    const { CONSUME, EVEN_NEVER } = this.#policy.table.at;
    const ok = this.#bucket.decide(CONSUME | EVEN_NEVER, n, at, Infinity);
    return new Reservation(this, new BucketReservation(this.#bucket, n, ok, at), at);
  }

  /** Waits for one token; see `waitN`. */
  wait(options: GoWaitOptions = {}): Promise<void> {
    return this.waitN(1, options);
  }

  /**
   * Waits until n events may happen. Rejects at once if n exceeds the burst, if
   * the wait would pass the deadline, or if the rate is 0 and the tokens are
   * gone; rejects with the signal's reason, tokens given back, when it aborts.
   */
  async waitN(n: number, options: GoWaitOptions = {}): Promise<void> {
    checkOptions(options);
    const { signal, deadlineMs = Infinity } = options;
    if (typeof deadlineMs !== "number" || Number.isNaN(deadlineMs)) {
      throw unexpected("deadlineMs", "a number of milliseconds on the limiter's clock", deadlineMs);
    }
    const at = this.now();
    this.#begin(at, n);
    await this.#waiting.wait(n, { ...(signal && { signal }), timeoutMs: Math.max(0, deadlineMs - at) });
  }

  tokens(): number {
    return this.tokensAt(this.now());
  }

  /** Tokens at time `at`, with their fraction; negative while reservations are ahead. */
  tokensAt(at: number): number {
    this.#begin(at, 0);
    return this.#bucket.tokens(at);
  }

  setLimit(limit: number): void {
    this.setLimitAt(this.now(), limit);
  }

  setLimitAt(at: number, limit: number): void {
    checkRate(limit);
    this.#begin(at, 0);
    this.#policy.setAt({ rate: limit }, at);
    this.#waiters.reconsider();
  }

  setBurst(burst: number): void {
    this.setBurstAt(this.now(), burst);
  }

  /** Tokens stay as they are, and refill up to the new burst. */
  setBurstAt(at: number, burst: number): void {
    checkBurst(burst);
    const tokens = this.tokensAt(at);
    this.#policy.setAt({ burst }, at);
    this.#bucket.setTokens(tokens, at);
    this.#waiters.reconsider();
  }

  #begin(at: number, n: number): void {
    if (typeof at !== "number" || !(at - at === 0)) {
      throw unexpected("at", "a finite time in milliseconds on the limiter's clock", at);
    }
    checkCost(n);
    this.#policy.keepWithinLife(at);
  }
}

/** What Go's Reserve returns. */
export class Reservation {
  readonly #limiter: Limiter;
  readonly #reservation: BucketReservation;
  readonly #dueAtMs: number;

  constructor(limiter: Limiter, reservation: BucketReservation, at: number) {
    this.#limiter = limiter;
    this.#reservation = reservation;
    this.#dueAtMs = at + Math.floor(reservation.delayMs * 1e6) / 1e6;
  }

  /** False if n exceeds the burst. */
  get ok(): boolean {
    return this.#reservation.granted;
  }

  /** ms to wait before acting; InfDuration if it cannot be granted. */
  delay(): number {
    return this.delayFrom(this.#limiter.now());
  }

  delayFrom(at: number): number {
    return this.ok ? Math.max(0, this.#dueAtMs - at) : InfDuration;
  }

  cancel(): void {
    this.cancelAt(this.#limiter.now());
  }

  /** Gives back what nobody has reserved behind it, unless its time is past. */
  cancelAt(at: number): void {
    this.#reservation.cancel(at);
  }

  [Symbol.dispose](): void {
    this.#reservation[Symbol.dispose]();
  }
}

export interface SometimesOptions {
  /** Runs the first so many calls. */
  first?: number;
  /** Runs every so manieth call. */
  every?: number;
  /** Runs when so many ms have passed since the last run. */
  intervalMs?: number;
}

/** Runs an action now and then; the first call always. Counts in this thread only. */
export class Sometimes {
  readonly #first: number;
  readonly #every: number;
  readonly #intervalMs: number;
  #count = 0;
  #lastMs = -Infinity;

  constructor({ first = 0, every = 0, intervalMs = 0 }: SometimesOptions = {}) {
    checkInteger("first", first, 0, Number.MAX_SAFE_INTEGER);
    checkInteger("every", every, 0, Number.MAX_SAFE_INTEGER);
    checkDuration("intervalMs", intervalMs);
    this.#first = first;
    this.#every = every;
    this.#intervalMs = intervalMs;
  }

  /** Calls `action` if it is its turn. */
  do(action: () => void): void {
    const nowMs = ownMs();
    const isDue = this.#count === 0
      || this.#count < this.#first
      || (this.#every > 0 && this.#count % this.#every === 0)
      || (this.#intervalMs > 0 && nowMs - this.#lastMs >= this.#intervalMs);
    this.#count++;
    if (!isDue) return;
    action();
    if (this.#intervalMs > 0) this.#lastMs = ownMs();
  }
}
