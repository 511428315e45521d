// All rivals. Those of `rivals` are called in our process, a decision at a time;
// those of `overRedis` in our process too, over a server of the question's own;
// those of `outside` are programs of their own that are told what to measure.

import { readFileSync } from "node:fs";
import { redisAbsent } from "../redis-server.js";
import { rival as bottleneck } from "./bottleneck.js";
import { rival as expressRateLimit } from "./express-rate-limit.js";
import { rival as fastRatelimit } from "./fast-ratelimit.js";
import { rival as fastifyRateLimit } from "./fastify-rate-limit.js";
import { rival as go } from "./go.js";
import { rival as guava } from "./guava.js";
import { rival as hitlimit } from "./hitlimit.js";
import { rival as honoRateLimiter } from "./hono-rate-limiter.js";
import { rival as limiter } from "./limiter.js";
import { rival as map } from "./map.js";
import { rival as nestThrottler } from "./nestjs-throttler.js";
import { rival as rateLimiterFlexible } from "./rate-limiter-flexible.js";
import { overRedis } from "./redis.js";
import { rival as sharedmap } from "./sharedmap.js";

/**
 * Its best settings, one limiter over many keys; a key over its limit answers
 * false and throws nothing. A rival without a `package` is our own code. What
 * one cannot bear is in `bears`: more keys, more calls in all, or more admitted
 * calls for one key would take it minutes.
 *
 * @typedef {{ name: string, package?: string, what: string, answers: 'sync' | 'promise', readsClock: boolean,
 *   bears?: { keys?: number, calls?: number, callsAKey?: number },
 *   make(options: { rate: number, burst: number, capacity: number }): { ask(key: string | number): boolean | Promise<boolean>, close(): void | Promise<void> } }} Rival
 */

/** @type {Rival[]} */
export const rivals = [
  map,
  rateLimiterFlexible,
  expressRateLimit,
  fastifyRateLimit,
  honoRateLimiter,
  nestThrottler,
  fastRatelimit,
  hitlimit,
  limiter,
  bottleneck,
  sharedmap,
];

export const outside = [go, guava];

export { overRedis };

/** Those of `rivals` that bear so much. */
export function bearing({ keys, calls, callsAKey }) {
  return rivals.filter(({ bears = {} }) =>
    !(keys > bears.keys) && !(calls > bears.calls) && !(callsAKey > bears.callsAKey)
  );
}

/** The rivals as they stand in the JSON: version and, if one cannot take part here, why. */
export function describeRivals() {
  const inside = rivals.map(describeInside);
  const absent = redisAbsent();
  const there = overRedis.map((
    rival,
  ) => (absent === undefined ? describeInside(rival) : { name: rival.name, what: rival.what, absent }));
  return [...inside, ...there, ...outside.map(describeOutside)];
}

function describeInside({ name, package: packageName, what }) {
  return { name, version: packageName ? versionOf(packageName) : "own", what };
}

function versionOf(packageName) {
  return JSON.parse(readFileSync(new URL(`../node_modules/${packageName}/package.json`, import.meta.url), "utf8"))
    .version;
}

function describeOutside({ name, what, version, absent }) {
  const reason = absent();
  return reason === undefined ? { name, version: version(), what } : { name, what, absent: reason };
}
