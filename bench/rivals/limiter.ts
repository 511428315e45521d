// limiter: one of its token buckets for each key, in a Map, since it has no keys
// of its own. Its TokenBucket reads the clock once for a decision and takes any
// burst; its RateLimiter is the same with a counter and a second reading.

import { TokenBucket } from "limiter";
import type { Key, Rival } from "./rival.js";

export const rival: Rival = {
  name: "limiter",
  package: "limiter",
  what: "a Map of its TokenBuckets",
  answers: "sync",
  readsClock: true,
  make({ rate, burst }) {
    const buckets = new Map<Key, TokenBucket>();
    const ask = (key: Key): boolean => {
      let bucket = buckets.get(key);
      if (bucket === undefined) {
        bucket = new TokenBucket({ bucketSize: burst, tokensPerInterval: rate, interval: 1000 });
        // It is made empty; a key begins full, as in its own RateLimiter.
        bucket.content = burst;
        buckets.set(key, bucket);
      }
      return bucket.tryRemoveTokens(1);
    };
    return { ask, close: () => buckets.clear() };
  },
};
