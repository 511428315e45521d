// A limiter of every kind, so generous that no call is refused here.

import { perDay } from "sluice";

const PLENTY = 2 ** 31 - 1;
const DAY_MS = 86_400_000;
/** The sliding window counter's largest limit for a day. */
const MOST_A_DAY = 2 ** 23 - 1;

/** What the others are compared with. */
export const REFERENCE = "tokenBucket";
const bucket = { rate: perDay(1), burst: PLENTY };

const definitions = {
  [REFERENCE]: ["word", (sluice, name) => sluice.tokenBucket(name, bucket)],
  "leakyBucket, meter": ["word", (sluice, name) => sluice.leakyBucket(name, bucket)],
  "leakyBucket, queue": ["word", (sluice, name) => sluice.leakyBucket(name, { ...bucket, queue: 100 })],
  fixedWindow: ["word", (sluice, name) => sluice.fixedWindow(name, { limit: PLENTY, windowMs: DAY_MS })],
  "slidingWindow, counter": [
    "word",
    (sluice, name) => sluice.slidingWindow(name, { limit: MOST_A_DAY, windowMs: DAY_MS }),
  ],
  "slidingWindow, 10 slots": [
    "line",
    (sluice, name) => sluice.slidingWindow(name, { limit: PLENTY, windowMs: DAY_MS, slots: 10 }),
  ],
  "tokenBucket, 2 limits": ["line", (sluice, name) => sluice.tokenBucket(name, { limits: [bucket, bucket] })],
  // The next caller pays, so a cost must take no time that one could see.
  warmUp: ["line", (sluice, name) => sluice.warmUp(name, { rate: 3e9, warmupMs: 1 })],
};

export const kindNames = Object.keys(definitions);

/** 'word' or 'line': where the kind's state lies. */
export function placeOf(kind) {
  return definitions[kind][0];
}

/** The limiter of a kind in this table; the same in every thread. */
export function limiterOf(sluice, kind) {
  return definitions[kind][1](sluice, kind);
}
