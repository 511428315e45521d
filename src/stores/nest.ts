// A storage for @nestjs/throttler. That package is not imported: a storage is any
// object with this method.

import { checkInteger } from "../engine/errors.js";
import { checkStoreOptions, MAX_WINDOW_MS, scoped, type StoreOptions, WindowCounts } from "./counts.js";

export type { StoreOptions };

/** Where a client stands. Times are in seconds, rounded up, as in the guard's headers. */
export interface ThrottlerRecord {
  /** Requests in the window, with the present one. */
  totalHits: number;
  /** Seconds until the window ends. */
  timeToExpire: number;
  isBlocked: boolean;
  /** Seconds until the block ends; 0 if there is none. */
  timeToBlockExpire: number;
}

/**
 * Keeps the throttlers' counts in a table that all threads share:
 *
 *   ThrottlerModule.forRoot({ throttlers, storage: new SluiceStorage({ sluice, prefix: 'api' }) })
 *
 * The first request beyond the limit begins the block: the window then lasts
 * `blockDuration` from that moment, and the next request after it begins another.
 */
export class SluiceStorage {
  readonly #options: StoreOptions;
  readonly #counts = new Map<string, WindowCounts>();

  /** @throws {TypeError | RangeError} if an option is wrong or unknown */
  constructor(options: StoreOptions) {
    checkStoreOptions(options);
    this.#options = options;
  }

  /**
   * Counts a request. `ttl` and `blockDuration` are integers, ms, up to 366 days; a
   * block of 0 lasts until the window ends. Rejects with a TypeError or RangeError
   * if one of them is wrong.
   */
  async increment(
    key: string,
    ttl: number,
    limit: number,
    blockDuration: number,
    throttlerName: string,
  ): Promise<ThrottlerRecord> {
    const counts = this.#countsOf(ttl, blockDuration);
    const name = scoped(this.#options.prefix, scoped(throttlerName, key));
    let { count, endsInMs } = counts.add(name);
    const isBlocked = count > limit;
    if (blockDuration > 0 && count === Math.floor(limit) + 1) {
      endsInMs = counts.extend(name, blockDuration, count).endsInMs;
    }
    const seconds = Math.ceil(endsInMs / 1000);
    return { totalHits: count, timeToExpire: seconds, isBlocked, timeToBlockExpire: isBlocked ? seconds : 0 };
  }

  #countsOf(ttl: number, blockDuration: number): WindowCounts {
    const name = `${ttl} ${blockDuration}`;
    let counts = this.#counts.get(name);
    if (!counts) {
      checkInteger("ttl", ttl, 1, MAX_WINDOW_MS);
      checkInteger("blockDuration", blockDuration, 0, MAX_WINDOW_MS);
      counts = new WindowCounts(this.#options.sluice, ttl, Math.max(ttl, blockDuration));
      this.#counts.set(name, counts);
    }
    return counts;
  }
}
