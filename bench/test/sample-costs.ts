// The entrants of the sample run (sample-run.ts), and what each costs.

import type { RivalEntry } from "../report/run.js";

export interface Cost {
  name: string;
  /** ns for a decision on a hot key, and how it grows with the number of keys. */
  ns: number;
  growth: number;
  bytes: number;
}

/** The rivals, with how much each costs. */
export const rivals: readonly (Cost & RivalEntry)[] = [
  {
    name: "Map",
    version: "own",
    what: "a Map of token buckets of our own; one thread",
    ns: 38,
    growth: 0.33,
    bytes: 131,
  },
  {
    name: "rate-limiter-flexible",
    version: "11.4.0",
    what: "memory; fixed window; a promise a call",
    ns: 610,
    growth: 0.22,
    bytes: 412,
  },
  { name: "limiter", version: "4.1.0", what: "a RateLimiter a key, in a Map", ns: 160, growth: 0.3, bytes: 388 },
  {
    name: "@upstash/ratelimit",
    version: "2.0.7",
    what: "ephemeral cache of its in-memory mode",
    ns: 2150,
    growth: 0.15,
    bytes: 530,
  },
  {
    name: "express-rate-limit MemoryStore",
    version: "8.7.5",
    what: "fixed window; a promise a call",
    ns: 480,
    growth: 0.25,
    bytes: 296,
  },
  {
    name: "@nestjs/throttler",
    version: "6.7.1",
    what: "its in-memory storage, a timer a hit",
    ns: 8200,
    growth: 0.2,
    bytes: 1340,
  },
  {
    name: "fast-ratelimit",
    version: "3.0.1",
    what: "fixed window; a timer a key, no clock",
    readsClock: false,
    ns: 34,
    growth: 0.31,
    bytes: 324,
  },
  {
    name: "Go x/time/rate",
    version: "go1.19.8",
    what: "Limiter.Allow; a locked map of limiters",
    ns: 121,
    growth: 0.19,
    bytes: 166,
  },
  {
    name: "Guava RateLimiter",
    version: "31.1, Java 17.0.17",
    what: "tryAcquire; a ConcurrentHashMap of limiters",
    ns: 46,
    growth: 0.24,
    bytes: 204,
  },
  {
    name: "sharedmap",
    what: "a Map in a SharedArrayBuffer, locks",
    absent: "sharedmap 1.2.0 does not run on Node 20: its Atomics.wait throws on the main thread",
    ns: 900,
    growth: 0.2,
    bytes: 88,
  },
];
/** Our series. */
export const ours: readonly Cost[] = [
  { name: "sluice allow(key)", ns: 29, growth: 0.15, bytes: 23 },
  { name: "sluice allowMany", ns: 24, growth: 0.09, bytes: 23 },
];
