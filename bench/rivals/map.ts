// What one would write for a rate limiter in one thread: a Map of token buckets,
// correct, in the quickest form we found (a closure over the Map, objects of one
// shape, one look-up, Date.now() as its clock). Unlike a table it is never full,
// keeps every key for ever, and serves one thread.

import type { Key, Rival } from "./rival.js";

interface Bucket {
  tokens: number;
  last: number;
}

export const rival: Rival = {
  name: "Map",
  what: "a Map of token buckets of our own; never full, forgets nothing, one thread",
  answers: "sync",
  readsClock: true,
  make({ rate, burst }) {
    const buckets = new Map<Key, Bucket>();
    const tokensPerMs = rate / 1000;
    const ask = (key: Key): boolean => {
      const now = Date.now();
      const bucket = buckets.get(key);
      if (bucket === undefined) {
        buckets.set(key, { tokens: burst - 1, last: now });
        return true;
      }
      const tokens = Math.min(burst, bucket.tokens + (now - bucket.last) * tokensPerMs);
      bucket.last = now;
      if (tokens < 1) {
        bucket.tokens = tokens;
        return false;
      }
      bucket.tokens = tokens - 1;
      return true;
    };
    return { ask, close() {} };
  },
};
