// sharedmap: buckets of many threads in a shared map of strings. Its get and
// its set are each safe, but a bucket takes both, one after the other, so each
// decision holds the lock of the whole map; no call of the map's own would do.
// A bucket is one number, the time at which it would be full again (GCRA),
// which is the least to read and to write.

import SharedMap from "sharedmap";

/** Characters of a key and of a number: a text needs one more place than it has. */
const KEY_SIZE = 16;
const VALUE_SIZE = 24;
/** Places a key: a map that is nearly full looks long for a free place. */
const ROOM = 1.5;
const HELD = { lockExclusive: true };

export const sharedMapFor = (capacity) => new SharedMap(Math.ceil(ROOM * capacity), KEY_SIZE, VALUE_SIZE);

/** Asks the buckets in `map`, which another thread may have made and sent. */
export function bucketsIn(map, { rate, burst }) {
  Object.setPrototypeOf(map, SharedMap.prototype);
  const stepMs = 1000 / rate;
  // A thousandth of a token is left to rounding.
  const mostMs = (burst + 0.001) * stepMs;
  return (key) => {
    const text = `${key}`;
    map.lockExclusive();
    try {
      const nowMs = Date.now();
      const fullMs = Math.max(nowMs, Number(map.get(text, HELD) ?? 0)) + stepMs;
      if (fullMs - nowMs > mostMs) return false;
      map.set(text, fullMs, HELD);
      return true;
    } finally {
      map.unlockExclusive();
    }
  };
}

export const rival = {
  name: "sharedmap",
  package: "sharedmap",
  what: "token buckets in a map that threads share; its lock around each decision; keys of up to 15 characters",
  answers: "sync",
  readsClock: true,
  bears: { keys: 100_000 },
  make: ({ capacity, ...policy }) => ({ ask: bucketsIn(sharedMapFor(capacity), policy), close() {} }),
};
