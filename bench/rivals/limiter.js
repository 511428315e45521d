// limiter: one of its token buckets for each key, in a Map, since it knows no
// keys. Its TokenBucket reads the clock once for a decision and takes any
// burst; its RateLimiter is the same with a counter and a second reading.

import { TokenBucket } from "limiter";

export const rival = {
  name: "limiter",
  package: "limiter",
  what: "a Map of its TokenBuckets",
  answers: "sync",
  readsClock: true,
  make({ rate, burst }) {
    const buckets = new Map();
    const ask = (key) => {
      let bucket = buckets.get(key);
      if (bucket === undefined) {
        bucket = new TokenBucket({ bucketSize: burst, tokensPerInterval: rate, interval: 1000 });
        // Made empty; full is how a key begins, as in its own RateLimiter.
        bucket.content = burst;
        buckets.set(key, bucket);
      }
      return bucket.tryRemoveTokens(1);
    };
    return { ask, close: () => buckets.clear() };
  },
};
