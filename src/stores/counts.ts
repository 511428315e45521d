// Requests counted in windows that begin with a key's first request: what the
// stores of HTTP middleware do.
//
// A window takes two buckets. The key's *window* is a bucket of one token that
// needs windowMs to fill again: the call that takes the token begins a window.
// The bucket's word, the virtual time of that call, names the window, and every
// thread reads the same name. The *count* is a bucket under the key and that name,
// in a sliding window with one slot, which forgets nothing within its length. A
// new window counts in another bucket than the last one, so no thread can take one
// for the other, wherever it is stopped, and no thread has to clear anything.
//
// Each request learns its own number, so exactly `limit` of them see one up to it.

import { Bucket } from "../engine/bucket/bucket.js";
import { checkInteger, MAX_COST, unexpected } from "../engine/errors.js";
import { policyOf } from "../engine/limiter/limiter.js";
import { Sluice } from "../engine/limiter/sluice.js";
import { checkOptions } from "../engine/options.js";
import { every } from "../engine/policy/rate.js";

/** Options of every store. */
export interface StoreOptions {
  /** The table in which to count. */
  sluice: Sluice;
  /**
   * Names what is counted: 1 to 64 bytes of UTF-8. Stores with the same prefix
   * share their counts, in all threads; stores with different prefixes never do.
   */
  prefix: string;
}

/** Throws TypeError or RangeError unless `options` are those of a store. */
export function checkStoreOptions(options: StoreOptions): void {
  checkOptions(options, ["sluice", "prefix"]);
  const { sluice, prefix } = options;
  if (!(sluice instanceof Sluice)) throw unexpected("sluice", "a Sluice", sluice, "object");
  if (typeof prefix !== "string" || prefix === "" || Buffer.byteLength(prefix) > 64) {
    throw unexpected("prefix", "a name of 1 to 64 bytes", prefix, "string");
  }
}

/** `key` within `scope`: no other scope and key give the same text. */
export function scoped(scope: string, key: string): string {
  return `${scope.length}:${scope}${key}`;
}

/** Where a key stands in its window. */
export interface WindowCount {
  /** Requests in the window, at most MAX_COUNT. */
  count: number;
  /** ms until the window ends and all of them are forgotten. */
  endsInMs: number;
}

/** Counts stop here. */
export const MAX_COUNT = MAX_COST;
/** Longest window: 366 days, ms. */
export const MAX_WINDOW_MS = 366 * 86_400_000;
/** Farthest that `extend` can put a window's end, in windows. */
const MAX_WINDOWS = 100_000;

/** Counts the requests of many keys, each in windows of its own. */
export class WindowCounts {
  readonly #windowMs: number;
  readonly #window: Bucket["policy"];
  readonly #count: Bucket["policy"];

  /** Windows of `windowMs`, which `extend` can make `longestMs` long. Both are integers, up to 366 days. */
  constructor(sluice: Sluice, windowMs: number, longestMs = windowMs) {
    checkInteger("windowMs", windowMs, 1, MAX_WINDOW_MS);
    this.#windowMs = windowMs;
    this.#window = policyOf(
      sluice.tokenBucket(`store windows of ${windowMs} ms`, { rate: every(windowMs), burst: 1 }),
    )!;
    this.#count = policyOf(
      sluice.slidingWindow(`store counts of ${longestMs} ms`, { limit: MAX_COUNT, windowMs: longestMs, slots: 1 }),
    )!;
  }

  /**
   * Counts a request. In a full table a new client counts as MAX_COUNT under `whenFull: 'deny'`,
   * and 1 under `'allow'`.
   */
  add(key: string): WindowCount {
    const window = new Bucket(this.#window, key);
    for (;;) {
      const nowMs = this.#nowMs();
      const { allowed: isNew, retryAfterMs } = window.ask(true, 1, nowMs);
      const name = this.#nameOf(window, isNew);
      if (name === "") return { count: isNew ? 1 : MAX_COUNT, endsInMs: this.#windowMs };
      const endsInMs = isNew ? this.#windowMs : retryAfterMs;
      const { allowed, remaining } = this.#counterOf(name, key).ask(true, 1, nowMs);
      // A thread that was stopped until the window had ended may have counted from 0: it counts again.
      if (this.#nowMs() - nowMs < endsInMs) {
        return { count: allowed ? Math.max(1, MAX_COUNT - remaining) : MAX_COUNT, endsInMs };
      }
    }
  }

  /** Where the key stands; undefined outside of a window. */
  peek(key: string): WindowCount | undefined {
    const running = this.#running(key);
    return running && { count: this.#in(running.counter), endsInMs: running.endsInMs };
  }

  /** Takes one request back, if the present window has one. */
  subtract(key: string): void {
    this.#running(key)?.counter.refund(1);
  }

  /** Ends the key's window: its next request is the first of another. */
  reset(key: string): void {
    const running = this.#running(key);
    running?.window.setTokens(Infinity);
    running?.counter.setTokens(Infinity);
  }

  /**
   * Makes the key's window end `forMs` from now (at most `longestMs`, or 100,000
   * windows), with `count` requests in it. The count is there before the window is,
   * so that no thread ever sees fewer.
   */
  extend(key: string, forMs: number, count: number): WindowCount {
    const nowMs = this.#nowMs();
    const { table, record, tokenShift } = this.#window;
    const endsInMs = Math.min(forMs, MAX_WINDOWS * this.#windowMs);
    // Words are multiples of 4 units; a whole number of those is set as it is.
    const fourthsOfToken = 2 ** (tokenShift - 2);
    const back = Math.round((1 - endsInMs / this.#windowMs) * fourthsOfToken);
    const begin = BigInt.asUintN(64, table.kernel.readingOf(record, nowMs)) - 4n * BigInt(back);
    const counter = this.#counterOf(this.#nameAt(begin), key);
    const missing = count - this.#in(counter);
    if (missing > 0) counter.ask(true, missing, nowMs);
    new Bucket(this.#window, key).setTokens(back / fourthsOfToken, nowMs);
    return { count, endsInMs };
  }

  #nowMs(): number {
    return this.#window.table.clock.now();
  }

  #running(key: string): { window: Bucket; counter: Bucket; endsInMs: number } | undefined {
    const window = new Bucket(this.#window, key);
    const { allowed, retryAfterMs } = window.ask(false, 1, this.#nowMs());
    if (allowed) return undefined;
    return { window, counter: this.#counterOf(this.#nameOf(window, false), key), endsInMs: retryAfterMs };
  }

  /**
   * The name of the window that `window` was just asked about: the time of its next
   * token. Empty if the table was full.
   */
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

  #counterOf(window: string, key: string): Bucket {
    return new Bucket(this.#count, scoped(window, key));
  }

  /** Requests in a counter. */
  #in(counter: Bucket): number {
    return MAX_COUNT - counter.ask(false, 0, this.#nowMs()).remaining;
  }
}
