// The store that express-rate-limit and hono-rate-limiter both ask for. Neither
// is imported: a store is what has these methods.

import { wallTimeIn } from "../engine/clock.js";
import { MAX_COST } from "../engine/errors.js";
import type { Limiter } from "../engine/limiter/limiter.js";
import { checkStoreOptions, type Count, Hits, scoped, type StoreOptions } from "./counts.js";

export interface ClientRateLimitInfo {
  /** Hits of the client in its window, this one too, at most 2^31-1. */
  totalHits: number;
  /** When its window ends, by the wall clock. */
  resetTime: ReturnType<typeof wallTimeIn>;
}

/**
 * Keeps the middleware's counts in a table, which all threads share. Made anew
 * for each limiter, with a prefix of its own, as that project asks:
 *
 *   rateLimit({ windowMs: 60_000, limit: 100, store: new SluiceStore({ sluice, prefix: 'api' }) })
 *
 * A client's window begins with its first hit. Counts go on beyond the limit.
 */
export class SluiceStore {
  /** Other stores of this prefix, in other threads, count the same keys. */
  readonly localKeys = false;
  readonly prefix: string;
  readonly #sluice: StoreOptions["sluice"];
  /** What it lacks of its burst is how often everything was reset. */
  readonly #generation: Limiter;
  #hits: Hits | undefined;

  /** Throws TypeError or RangeError for options that are wrong. */
  constructor(options: StoreOptions) {
    checkStoreOptions(options);
    this.prefix = options.prefix;
    this.#sluice = options.sluice;
    this.#generation = options.sluice.tokenBucket(`store resets of ${options.prefix}`, { rate: 0, burst: MAX_COST });
  }

  /** The middleware calls this once, with its own options. */
  init({ windowMs }: { windowMs: number }): void {
    this.#hits = new Hits(this.#sluice, windowMs);
  }

  /** Where a client stands; undefined if it has no window. */
  get(key: string): ClientRateLimitInfo | undefined {
    const count = this.#counts().peek(this.#scoped(key));
    return count && told(count);
  }

  /** Counts a hit. */
  increment(key: string): ClientRateLimitInfo {
    return told(this.#counts().hit(this.#scoped(key)));
  }

  /** Takes a hit back; never below 0, and never one of another window. */
  decrement(key: string): void {
    this.#counts().forgive(this.#scoped(key));
  }

  /** Forgets a client. */
  resetKey(key: string): void {
    this.#counts().forget(this.#scoped(key));
  }

  /** Forgets all clients of this prefix, in all threads, in constant time. */
  resetAll(): void {
    this.#generation.allow();
  }

  #scoped(key: string): string {
    return scoped(this.prefix, `${this.#generation.peek().remaining}:${key}`);
  }

  #counts(): Hits {
    if (!this.#hits) {
      throw new TypeError(
        "\"windowMs\" expected from the middleware, which calls init() with it; this store was given to none",
      );
    }
    return this.#hits;
  }
}

function told({ hits, endsInMs }: Count): ClientRateLimitInfo {
  return { totalHits: hits, resetTime: wallTimeIn(endsInMs) };
}
