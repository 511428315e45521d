// Rivals that keep their counts in Redis. Each makes one limiter over many keys
// that is never used up, on a connected client that all of them share.

import type { Redis } from "ioredis";
import { createHash } from "node:crypto";
import type { RedisClientType } from "redis";
import type { ClientLibrary } from "./rival.js";

/** A connected client of one of the libraries. */
export type Client = Redis | RedisClientType;

type AskRedis = (key: string) => Promise<boolean>;

export interface RedisRival {
  name: string;
  package: string;
  what: string;
  clients: ClientLibrary[];
  /** Loads the package, and makes its limiter. */
  make(client: Client, library: ClientLibrary): Promise<AskRedis>;
}

const WINDOW_S = 60;
const PLENTY = 1_000_000_000;

const flexible: RedisRival = {
  name: "rate-limiter-flexible over Redis",
  package: "rate-limiter-flexible",
  what: "Redis; fixed window; a promise a call",
  clients: ["ioredis", "node-redis"],
  async make(client, library) {
    const { RateLimiterRedis } = await import("rate-limiter-flexible");
    const limiter = new RateLimiterRedis({
      storeClient: client,
      points: PLENTY,
      duration: WINDOW_S,
      useRedisPackage: library === "node-redis",
    });
    return async (key) => (await limiter.consume(key)).consumedPoints > 0;
  },
};

const store: RedisRival = {
  name: "rate-limit-redis",
  package: "rate-limit-redis",
  what: "Redis; fixed window; the store of express-rate-limit, without its middleware",
  clients: ["ioredis", "node-redis"],
  async make(client, library) {
    const { RedisStore } = await import("rate-limit-redis");
    type SendCommand = ConstructorParameters<typeof RedisStore>[0] & { sendCommand: unknown };
    const sendCommand = library === "ioredis"
      ? (command: string, ...args: string[]) => (client as Redis).call(command, ...args)
      : (...command: string[]) => (client as RedisClientType).sendCommand(command);
    const counts = new RedisStore({ sendCommand } as SendCommand);
    await counts.init({ windowMs: WINDOW_S * 1000 } as Parameters<typeof counts.init>[0]);
    return async (key) => (await counts.increment(key)).totalHits <= PLENTY;
  },
};

type Upstash = typeof import("@upstash/ratelimit").Ratelimit;
type UpstashOptions = ConstructorParameters<Upstash>[0];

/**
 * Its own client speaks HTTP to its own service. Its scripts begin with a flag
 * that only this service knows, so here they run without that line.
 */
function upstashClient(client: Redis): UpstashOptions["redis"] {
  const shas = new Map<string, string>();
  const sha1 = (text: string): string => createHash("sha1").update(text).digest("hex");
  return {
    evalsha: (sha: string, keys: string[], args: string[]) =>
      client.evalsha(shas.get(sha) ?? sha, keys.length, ...keys, ...args),
    eval(source: string, keys: string[], args: string[]) {
      const plain = source.replace(/^#!.*\n/, "");
      shas.set(sha1(source), sha1(plain));
      return client.eval(plain, keys.length, ...keys, ...args);
    },
  } as unknown as UpstashOptions["redis"];
}

const upstash = (algorithm: string, limiterOf: (Ratelimit: Upstash) => UpstashOptions["limiter"]): RedisRival => ({
  name: `@upstash/ratelimit, ${algorithm}`,
  package: "@upstash/ratelimit",
  what: `Redis; ${algorithm}; its scripts over ioredis, without their first line`,
  clients: ["ioredis"],
  async make(client) {
    const { Ratelimit } = await import("@upstash/ratelimit");
    const ratelimit = new Ratelimit({
      redis: upstashClient(client as Redis),
      limiter: limiterOf(Ratelimit),
      ephemeralCache: false,
      analytics: false,
      timeout: 0,
      prefix: `upstash:${algorithm}`,
    });
    return async (key) => (await ratelimit.limit(key)).success;
  },
});

export const overRedis: RedisRival[] = [
  flexible,
  store,
  upstash("token bucket", (Ratelimit) => Ratelimit.tokenBucket(PLENTY, `${WINDOW_S} s`, PLENTY)),
  upstash("fixed window", (Ratelimit) => Ratelimit.fixedWindow(PLENTY, `${WINDOW_S} s`)),
];
