// All rivals. Those of `rivals` are called in our process, a decision at a time.
// Those of `overRedis` run in our process too, over a server that the question
// starts. Those of `outside` are programs in other languages.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { rival as go } from "../outside/go.js";
import { rival as guava } from "../outside/guava.js";
import { benchFolder } from "../paths.js";
import type { RivalEntry } from "../report/run.js";
import { rival as bottleneck } from "./bottleneck.js";
import { rival as expressRateLimit } from "./express-rate-limit.js";
import { rival as fastRatelimit } from "./fast-ratelimit.js";
import { rival as fastifyRateLimit } from "./fastify-rate-limit.js";
import { rival as hitlimit } from "./hitlimit.js";
import { rival as honoRateLimiter } from "./hono-rate-limiter.js";
import { rival as limiter } from "./limiter.js";
import { rival as map } from "./map.js";
import { rival as nestThrottler } from "./nestjs-throttler.js";
import { rival as rateLimiterFlexible } from "./rate-limiter-flexible.js";
import { redisAbsent } from "./redis-server.js";
import { overRedis } from "./redis.js";
import type { Limits, OutsideRival, Rival } from "./rival.js";
import { rival as sharedmap } from "./sharedmap.js";

export const rivals: Rival[] = [
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

export const outside: OutsideRival[] = [go, guava];

export { overRedis };

/** The rivals that can take this much. */
export function withinLimits({ keys, calls, callsAKey }: Required<Limits>): Rival[] {
  return rivals.filter(({ limits = {} }) =>
    keys <= (limits.keys ?? Infinity) && calls <= (limits.calls ?? Infinity)
    && callsAKey <= (limits.callsAKey ?? Infinity)
  );
}

/** The rivals as the report names them: with the version, or with the reason why one is absent. */
export function describeRivals(): RivalEntry[] {
  const absent = redisAbsent();
  return [
    ...rivals.map(({ readsClock, ...rival }) => ({ ...describeInside(rival), ...(readsClock ? {} : { readsClock }) })),
    ...overRedis.map((rival) => (absent === undefined ? describeInside(rival) : { ...nameOf(rival), absent })),
    ...outside.map(describeOutside),
  ];
}

function nameOf({ name, what }: { name: string; what: string }): RivalEntry {
  return { name, what };
}

function describeInside(rival: Pick<Rival, "name" | "package" | "what">): RivalEntry {
  return { ...nameOf(rival), version: rival.package === undefined ? "own" : versionOf(rival.package) };
}

function versionOf(packageName: string): string {
  const text = readFileSync(join(benchFolder, "node_modules", packageName, "package.json"), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

function describeOutside(rival: OutsideRival): RivalEntry {
  const absent = rival.absent();
  return { ...nameOf(rival), ...(absent === undefined ? { version: rival.version() } : { absent }) };
}
