// A storage for @nestjs/throttler, which is not imported: a storage is what has
// this method.

import { checkInteger } from "../engine/errors.js";
import { checkStoreOptions, Hits, MOST_MS, scoped, type StoreOptions } from "./counts.js";

export type { StoreOptions };

/** Times are in seconds, rounded up, as the guard's headers have them. */
export interface ThrottlerRecord {
  /** Hits in the window, this one too. */
  totalHits: number;
  /** Until the window ends. */
  timeToExpire: number;
  isBlocked: boolean;
  /** Until the block ends; 0 if there is none. */
  timeToBlockExpire: number;
}

/**
 * Keeps the throttlers' counts in a table, which all threads share:
 *
 *   ThrottlerModule.forRoot({ throttlers, storage: new SluiceStorage({ sluice, prefix: 'api' }) })
 *
 * The first hit beyond the limit begins the block: the window then lasts
 * `blockDuration` from there, and what comes after it is the first hit of another.
 */
export class SluiceStorage {
  readonly #options: StoreOptions;
  readonly #hits = new Map<string, Hits>();

  /** Throws TypeError or RangeError for options that are wrong. */
  constructor(options: StoreOptions) {
    checkStoreOptions(options);
    this.#options = options;
  }

  /** Counts a hit. `ttl` and `blockDuration` are ms, integers; a block of 0 lasts until the window ends. */
  async increment(
    key: string,
    ttl: number,
    limit: number,
    blockDuration: number,
    throttlerName: string,
  ): Promise<ThrottlerRecord> {
    const counts = this.#counts(ttl, blockDuration);
    const name = scoped(this.#options.prefix, scoped(throttlerName, key));
    let { hits, endsInMs } = counts.hit(name);
    const isBlocked = hits > limit;
    if (blockDuration > 0 && hits === Math.floor(limit) + 1) {
      endsInMs = counts.extend(name, blockDuration, hits).endsInMs;
    }
    const seconds = Math.ceil(endsInMs / 1000);
    return { totalHits: hits, timeToExpire: seconds, isBlocked, timeToBlockExpire: isBlocked ? seconds : 0 };
  }

  #counts(ttl: number, blockDuration: number): Hits {
    const name = `${ttl} ${blockDuration}`;
    let hits = this.#hits.get(name);
    if (!hits) {
      checkInteger("ttl", ttl, 1, MOST_MS);
      checkInteger("blockDuration", blockDuration, 0, MOST_MS);
      hits = new Hits(this.#options.sluice, ttl, Math.max(ttl, blockDuration));
      this.#hits.set(name, hits);
    }
    return hits;
  }
}
