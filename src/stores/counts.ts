// Hits, counted in windows that begin with a key's first hit: what the stores
// of HTTP middleware do.
//
// It takes two buckets. A key's *window* is a bucket of one token that needs
// windowMs to fill again: whoever takes the token begins a window, and the
// virtual time at which that was, the bucket's word, names the window, the same
// in every thread. Its *count* is a bucket under the key and that name, in a
// sliding window with one slot, which forgets nothing within its length. So a new
// window counts in another bucket than the last one: no thread can take the one
// for the other, whenever it is stopped, and nobody has to clear anything.
//
// Each hit learns its own number, so exactly `limit` of them see one up to it.

import { Bucket } from "../engine/bucket/bucket.js";
import { checkInteger, checkOptions, MAX_COST, unexpected } from "../engine/errors.js";
import { policyOf } from "../engine/limiter/limiter.js";
import { Sluice } from "../engine/limiter/sluice.js";
import { every } from "../engine/policy/rate.js";

export interface StoreOptions {
  /** The table in which to count. */
  sluice: Sluice;
  /**
   * Names what is counted: stores of the same prefix, in all threads, share their
   * counts; those of different ones never do. 1 to 64 bytes of UTF-8.
   */
  prefix: string;
}

export function checkStoreOptions(options: StoreOptions): void {
  checkOptions(options);
  const { sluice, prefix } = options;
  if (!(sluice instanceof Sluice)) throw unexpected("sluice", "a Sluice", sluice, "object");
  if (typeof prefix !== "string" || prefix === "" || Buffer.byteLength(prefix) > 64) {
    throw unexpected("prefix", "a name of 1 to 64 bytes", prefix, "string");
  }
}

/** `key` within `scope`: no other scope and key give the same. */
export function scoped(scope: string, key: string): string {
  return `${scope.length}:${scope}${key}`;
}

/** Where a key stands in its window. */
export interface Count {
  /** Hits in the window, at most MOST_HITS. */
  hits: number;
  /** ms until the window ends, and all of them are forgotten. */
  endsInMs: number;
}

/** Hits beyond this are not told apart. */
export const MOST_HITS = MAX_COST;
/** Longest window: 366 days. */
export const MOST_MS = 366 * 86_400_000;
/** Farthest that `extend` can put a window's end, in windows. */
const MOST_WINDOWS = 100_000;

export class Hits {
  readonly #windowMs: number;
  readonly #window: Bucket["policy"];
  readonly #count: Bucket["policy"];

  /** Windows of `windowMs`, which `extend` can make `longestMs` long. Integers, up to 366 days. */
  constructor(sluice: Sluice, windowMs: number, longestMs = windowMs) {
    checkInteger("windowMs", windowMs, 1, MOST_MS);
    this.#windowMs = windowMs;
    this.#window = policyOf(
      sluice.tokenBucket(`store windows of ${windowMs} ms`, { rate: every(windowMs), burst: 1 }),
    )!;
    this.#count = policyOf(
      sluice.slidingWindow(`store counts of ${longestMs} ms`, { limit: MOST_HITS, windowMs: longestMs, slots: 1 }),
    )!;
  }

  /** Counts a hit. A table that is full and denies newcomers answers MOST_HITS, one that admits them 1. */
  hit(key: string): Count {
    const window = new Bucket(this.#window, key);
    for (;;) {
      const nowMs = this.#nowMs();
      const { allowed: isNew, retryAfterMs } = window.ask(true, 1, nowMs);
      const name = this.#nameOf(window, isNew);
      if (name === "") return { hits: isNew ? 1 : MOST_HITS, endsInMs: this.#windowMs };
      const endsInMs = isNew ? this.#windowMs : retryAfterMs;
      const { allowed, remaining } = this.#countOf(name, key).ask(true, 1, nowMs);
      // A thread that was stopped until the window had ended may have counted from nothing.
      if (this.#nowMs() - nowMs < endsInMs) {
        return { hits: allowed ? Math.max(1, MOST_HITS - remaining) : MOST_HITS, endsInMs };
      }
    }
  }

  /** Where the key stands; undefined outside of a window. */
  peek(key: string): Count | undefined {
    const running = this.#running(key);
    return running && { hits: this.#hitsOf(running.count), endsInMs: running.endsInMs };
  }

  /** Takes a hit back, if there is one in the present window. */
  forgive(key: string): void {
    this.#running(key)?.count.refund(1);
  }

  /** Ends the key's window: its next hit is the first of another. */
  forget(key: string): void {
    const running = this.#running(key);
    running?.window.setTokens(Infinity);
    running?.count.setTokens(Infinity);
  }

  /**
   * Makes the key's window end `forMs` from now (at most `longestMs`, or 100,000
   * windows), with `hits` in it. The hits are there before the window is, so that
   * no thread ever sees fewer.
   */
  extend(key: string, forMs: number, hits: number): Count {
    const nowMs = this.#nowMs();
    const { table, record, tokenShift } = this.#window;
    const endsInMs = Math.min(forMs, MOST_WINDOWS * this.#windowMs);
    // Words are multiples of 4 units; a whole number of those is set as it is.
    const fourthsOfToken = 2 ** (tokenShift - 2);
    const back = Math.round((1 - endsInMs / this.#windowMs) * fourthsOfToken);
    const begin = BigInt.asUintN(64, table.kernel.readingOf(record, nowMs)) - 4n * BigInt(back);
    const count = this.#countOf(this.#nameAt(begin), key);
    const missing = hits - this.#hitsOf(count);
    if (missing > 0) count.ask(true, missing, nowMs);
    new Bucket(this.#window, key).setTokens(back / fourthsOfToken, nowMs);
    return { hits, endsInMs };
  }

  #nowMs(): number {
    return this.#window.table.clock.now();
  }

  #running(key: string): { window: Bucket; count: Bucket; endsInMs: number } | undefined {
    const window = new Bucket(this.#window, key);
    const { allowed, retryAfterMs } = window.ask(false, 1, this.#nowMs());
    if (allowed) return undefined;
    return { window, count: this.#countOf(this.#nameOf(window, false), key), endsInMs: retryAfterMs };
  }

  /** The name of the window about which `window` was just asked: when its next token is there. Empty if the table was full. */
  #nameOf(window: Bucket, isNew: boolean): string {
    const { dueAtLow, dueAtHigh } = window.dueAt;
    if ((dueAtLow | dueAtHigh) === 0) return "";
    return isNew ? this.#nameAt((BigInt(dueAtHigh) << 32n) | BigInt(dueAtLow)) : `${dueAtHigh}.${dueAtLow}`;
  }

  /** The name of a window whose word is `begin`. */
  #nameAt(begin: bigint): string {
    const next = begin + (1n << BigInt(this.#window.tokenShift));
    return `${next >> 32n}.${next & 0xffffffffn}`;
  }

  #countOf(window: string, key: string): Bucket {
    return new Bucket(this.#count, scoped(window, key));
  }

  #hitsOf(count: Bucket): number {
    return MOST_HITS - count.ask(false, 0, this.#nowMs()).remaining;
  }
}
