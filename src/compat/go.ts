// The limiter of golang.org/x/time/rate, with its names and semantics, over a
// sluice table: https://pkg.go.dev/golang.org/x/time/rate
//
// Times are milliseconds on the limiter's clock (`limiter.now()`), durations
// milliseconds, errors SluiceErrors. It does not share the faults of Go's limiter:
// time that goes backwards grants nothing, a second cancel does nothing, and a
// wait for tokens that rate 0 never brings fails instead of hanging. As Go does,
// it cuts a wait to whole nanoseconds, so it may act up to 1 ns early.

import { Bucket } from "../engine/bucket/bucket.js";
import { BucketReservation } from "../engine/bucket/reservation.js";
import { ownMs } from "../engine/clock.js";
import { checkCost, checkDuration, checkInteger, unexpected } from "../engine/errors.js";
import { checkSignal } from "../engine/limiter/call-options.js";
import { handleOf, type KeyedLimiter } from "../engine/limiter/keyed-limiter.js";
import { type Home, policyAt } from "../engine/limiter/own-table.js";
import { checkOptions } from "../engine/options.js";
import type { Policy } from "../engine/policy/policy.js";
import { checkBurst, checkRate } from "../engine/policy/rate.js";
import { Waiters } from "../engine/waiting/waiters.js";

export { every } from "../engine/policy/rate.js";
export type { Home };

/** The infinite rate: every event is allowed, even with a burst of 0. */
export const Inf = Infinity;
/** The delay of a reservation that is not granted, ms. */
export const InfDuration = Infinity;

/** Go's context: what ends a wait. */
export interface GoWaitOptions {
  /** Ends the wait, as a context that is cancelled: it rejects with the signal's reason. */
  signal?: AbortSignal;
  /** The context's deadline, ms on the limiter's clock; a wait past it fails at once. */
  deadlineMs?: number;
}

/** Makes what `reserve` returns. */
let reservationOf: (limiter: Limiter, reservation: BucketReservation, at: number) => Reservation;

/**
 * A token bucket of `burst` tokens, refilled at `limit` tokens per second, full at
 * first. Every method throws TypeError or RangeError for a wrong argument: `n` is
 * an integer from 0 to 2^31-1, `at` a finite number of ms on the limiter's clock.
 */
export class Limiter {
  readonly #policy: Policy;
  readonly #bucket: Bucket;
  readonly #waiters: Waiters;
  readonly #handle: KeyedLimiter;

  /**
   * `limit`: tokens per second, 0, 1e-9 to 3e9, or Inf; `burst`: an integer from 0
   * to 2^31-1 tokens. With a `home`, threads share the limiter under its name.
   * @throws SluiceError ERR_SLUICE_POLICY_EXISTS if `home` has that name with other limits.
   */
  constructor(limit: number, burst: number, home?: Home) {
    checkRate(limit, "limit");
    checkBurst(burst);
    this.#policy = policyAt(home, "goLimiter", { rate: limit, burst, extra: 0 });
    this.#bucket = new Bucket(this.#policy, undefined);
    this.#waiters = new Waiters(this.#policy);
    this.#handle = handleOf(this.#policy, this.#waiters, undefined);
  }

  /** ms on this limiter's clock. */
  now(): number {
    return this.#policy.table.clock.now();
  }

  /** Tokens per second. */
  limit(): number {
    return this.#policy.rate;
  }

  /** Most tokens at once. */
  burst(): number {
    return this.#policy.burst;
  }

  /** `allowN(now(), 1)`. */
  allow(): boolean {
    return this.allowN(this.now(), 1);
  }

  /** Whether n events may happen at time `at`; takes their tokens if so. */
  allowN(at: number, n: number): boolean {
    this.#begin(at, n);
    return this.#bucket.decide(this.#policy.table.at.CONSUME, n, at);
  }

  /** `reserveN(now(), 1)`. */
  reserve(): Reservation {
    return this.reserveN(this.now(), 1);
  }

  /**
   * Takes n tokens at time `at`, from the future if need be: act when `delay()` has passed. Not ok if n
   * exceeds the burst.
   */
  reserveN(at: number, n: number): Reservation {
    this.#begin(at, n);
    const { CONSUME, EVEN_NEVER } = this.#policy.table.at;
    const ok = this.#bucket.decide(CONSUME | EVEN_NEVER, n, at, Infinity);
    return reservationOf(this, new BucketReservation(this.#bucket, n, ok, at), at);
  }

  /** `waitN(1, options)`. */
  wait(options: GoWaitOptions = {}): Promise<void> {
    return this.waitN(1, options);
  }

  /**
   * Waits until n events may happen. If the signal aborts, the tokens go back.
   * @throws SluiceError, as a rejection, at once: ERR_SLUICE_COST_ABOVE_BURST if n
   * exceeds the burst, ERR_SLUICE_TIMEOUT if the wait would pass the deadline,
   * ERR_SLUICE_NEVER if the rate is 0 and the tokens are gone.
   */
  async waitN(n: number, options: GoWaitOptions = {}): Promise<void> {
    checkOptions(options, ["signal", "deadlineMs"]);
    const { signal, deadlineMs = Infinity } = options;
    if (typeof deadlineMs !== "number" || Number.isNaN(deadlineMs)) {
      throw unexpected("deadlineMs", "a number of milliseconds on the limiter's clock", deadlineMs);
    }
    checkSignal(signal);
    const at = this.now();
    this.#begin(at, n);
    await this.#handle.wait(n, { ...(signal && { signal }), timeoutMs: Math.max(0, deadlineMs - at) });
  }

  /** `tokensAt(now())`. */
  tokens(): number {
    return this.tokensAt(this.now());
  }

  /** Tokens at time `at`, with their fraction; negative while reservations are ahead. */
  tokensAt(at: number): number {
    this.#begin(at, 0);
    return this.#bucket.tokens(at);
  }

  /** Changes the rate for all threads from now on, tokens per second: 0, 1e-9 to 3e9, or Inf. Tokens stay as they are. */
  setLimit(limit: number): void {
    checkRate(limit, "limit");
    this.#begin(this.now(), 0);
    this.#policy.set({ rate: limit });
    this.#waiters.reconsider();
  }

  /** Changes the rate as of time `at`, tokens per second: 0, 1e-9 to 3e9, or Inf. Tokens stay as they are. */
  setLimitAt(at: number, limit: number): void {
    checkRate(limit, "limit");
    this.#begin(at, 0);
    this.#policy.setAt({ rate: limit }, at);
    this.#waiters.reconsider();
  }

  /** `setBurstAt(now(), burst)`. */
  setBurst(burst: number): void {
    this.setBurstAt(this.now(), burst);
  }

  /**
   * Changes the burst as of time `at`, an integer from 0 to 2^31-1. Tokens stay as they are, and refill
   * up to the new burst.
   */
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

/** A claim on tokens, as Go's Reserve returns it. */
export class Reservation {
  static {
    reservationOf = (limiter, reservation, at) => new Reservation(limiter, reservation, at);
  }

  readonly #limiter: Limiter;
  readonly #reservation: BucketReservation;
  readonly #dueAtMs: number;

  private constructor(limiter: Limiter, reservation: BucketReservation, at: number) {
    this.#limiter = limiter;
    this.#reservation = reservation;
    this.#dueAtMs = at + Math.floor(reservation.delayMs * 1e6) / 1e6;
  }

  /** False if n exceeds the burst; nothing was taken then. */
  get ok(): boolean {
    return this.#reservation.granted;
  }

  /** `delayFrom(limiter.now())`. */
  delay(): number {
    return this.delayFrom(this.#limiter.now());
  }

  /** ms from time `at` until the events may happen: 0 is at once, InfDuration if it is not ok or never due. */
  delayFrom(at: number): number {
    return this.ok ? Math.max(0, this.#dueAtMs - at) : InfDuration;
  }

  /** `cancelAt(limiter.now())`. */
  cancel(): void {
    this.cancelAt(this.#limiter.now());
  }

  /**
   * Gives back the tokens that no later reservation has built on, unless it is past due at time `at`.
   * Only the first call counts.
   */
  cancelAt(at: number): void {
    this.#reservation.cancel(at);
  }

  /** Cancels it if it is not yet due: `using reservation = limiter.reserve()`. */
  [Symbol.dispose](): void {
    this.#reservation[Symbol.dispose]();
  }
}

/** When `Sometimes` runs its action: in any of these cases. */
export interface SometimesOptions {
  /** In the first `first` calls, an integer >= 0. */
  first?: number;
  /** In every `every`-th call, an integer >= 0. */
  every?: number;
  /** When `intervalMs` have passed since the last run, ms >= 0. */
  intervalMs?: number;
}

/** Runs an action now and then; in the first call always. It counts the calls of this thread only. */
export class Sometimes {
  readonly #first: number;
  readonly #every: number;
  readonly #intervalMs: number;
  #count = 0;
  #lastMs = -Infinity;

  /** Without options it runs in the first call only. */
  constructor(options: SometimesOptions = {}) {
    checkOptions(options, ["first", "every", "intervalMs"]);
    const { first = 0, every = 0, intervalMs = 0 } = options;
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
