// sharedmap: buckets of many threads in a shared map of strings. Its get and its
// set are safe by themselves, but a decision needs both, so it holds the lock of
// the whole map; the map has no single call that would do. A bucket is one
// number, the time at which it would be full again (GCRA), which is the least to
// read and to write.

import SharedMap from "sharedmap";
import type { Key, Policy, Rival } from "./rival.js";

/** Characters of a key and of a number. A text needs one more place than it has characters. */
const KEY_SIZE = 16;
const VALUE_SIZE = 24;
/** Places a key: a map that is nearly full takes long to find a free place. */
const ROOM = 1.5;
const LOCKED = { lockExclusive: true };

/** A map as it arrives in another thread: without its methods. */
export type SentMap = SharedMap;

export function sharedMapFor(capacity: number): SharedMap {
  return new SharedMap(Math.ceil(ROOM * capacity), KEY_SIZE, VALUE_SIZE);
}

/** Asks the buckets in `map`, which another thread may have made and sent. */
export function bucketsIn(map: SentMap, { rate, burst }: Policy): (key: Key) => boolean {
  Object.setPrototypeOf(map, SharedMap.prototype as object);
  const stepMs = 1000 / rate;
  // A thousandth of a token is left for rounding.
  const mostMs = (burst + 0.001) * stepMs;
  return (key) => {
    const text = `${key}`;
    map.lockExclusive();
    try {
      const nowMs = Date.now();
      const fullMs = Math.max(nowMs, Number(map.get(text, LOCKED) ?? 0)) + stepMs;
      if (fullMs - nowMs > mostMs) return false;
      map.set(text, fullMs, LOCKED);
      return true;
    } finally {
      map.unlockExclusive();
    }
  };
}

export const rival: Rival = {
  name: "sharedmap",
  package: "sharedmap",
  what: "token buckets in a map that threads share; its lock around each decision; keys of up to 15 characters",
  answers: "sync",
  readsClock: true,
  limits: { keys: 100_000 },
  make: ({ capacity, ...policy }) => ({ ask: bucketsIn(sharedMapFor(capacity), policy), close() {} }),
};
