// The store that express-rate-limit and hono-rate-limiter both take. Neither is
// imported: a store is any object with these methods.

import { wallTimeIn } from "../engine/clock.js";
import { MAX_COST } from "../engine/errors.js";
import type { KeyedLimiter } from "../engine/limiter/keyed-limiter.js";
import { checkStoreOptions, scoped, type StoreOptions, type WindowCount, WindowCounts } from "./counts.js";

/** Where a client stands, as the middleware reads it. */
export interface ClientRateLimitInfo {
  /** Requests of the client in its window, with the present one: 0 to 2^31-1. */
  totalHits: number;
  /** When its window ends, by the wall clock. */
  resetTime: Date;
}

/**
 * Keeps the middleware's counts in a table that all threads share. Make one for
 * each limiter, with a prefix of its own, as the middleware requires:
 *
 *   rateLimit({ windowMs: 60_000, limit: 100, store: new SluiceStore({ sluice, prefix: 'api' }) })
 *
 * A client's window begins with its first request. Counts go on beyond the limit.
 */
export class SluiceStore {
  /** False: stores with this prefix in other threads count the same keys. */
  readonly localKeys = false;
  /** The prefix of the options. */
  readonly prefix: string;
  readonly #sluice: StoreOptions["sluice"];
  /** A bucket that never refills: the tokens that are gone are the number of resets. */
  readonly #resets: KeyedLimiter;
  #counts: WindowCounts | undefined;

  /** @throws {TypeError | RangeError} if an option is wrong or unknown */
  constructor(options: StoreOptions) {
    checkStoreOptions(options);
    this.prefix = options.prefix;
    this.#sluice = options.sluice;
    this.#resets = options.sluice.tokenBucket(`store resets of ${this.prefix}`, { rate: 0, burst: MAX_COST }).global;
  }

  /**
   * The middleware calls this once, with its own options. `windowMs` is an integer, 1 ms to 366 days.
   * @throws {TypeError | RangeError} for any other windowMs
   */
  init({ windowMs }: { windowMs: number }): void {
    this.#counts = new WindowCounts(this.#sluice, windowMs);
  }

  /** Where a client stands; undefined if it is in no window. */
  get(key: string): ClientRateLimitInfo | undefined {
    const count = this.#initialised().peek(this.#scoped(key));
    return count && infoOf(count);
  }

  /** Counts a request. */
  increment(key: string): ClientRateLimitInfo {
    return infoOf(this.#initialised().add(this.#scoped(key)));
  }

  /** Takes one request back; never below 0, and never one of another window. */
  decrement(key: string): void {
    this.#initialised().subtract(this.#scoped(key));
  }

  /** Forgets a client. */
  resetKey(key: string): void {
    this.#initialised().reset(this.#scoped(key));
  }

  /** Forgets all clients of this prefix, in all threads, in constant time. */
  resetAll(): void {
    this.#resets.allow();
  }

  #scoped(key: string): string {
    return scoped(this.prefix, `${this.#resets.peek().remaining}:${key}`);
  }

  #initialised(): WindowCounts {
    if (!this.#counts) {
      throw new TypeError("\"windowMs\" expected from init(), which the middleware calls, got no call of init()");
    }
    return this.#counts;
  }
}

function infoOf({ count, endsInMs }: WindowCount): ClientRateLimitInfo {
  return { totalHits: count, resetTime: wallTimeIn(endsInMs) };
}
