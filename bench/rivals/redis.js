// Rivals that keep their counts in Redis. Each makes one limiter over many keys
// that is never used up, on a connected client that all share.

import { createHash } from "node:crypto";

const WINDOW_S = 60;
const MOST = 1_000_000_000;

const flexible = {
  name: "rate-limiter-flexible over Redis",
  package: "rate-limiter-flexible",
  what: "Redis; fixed window; a promise a call",
  clients: ["ioredis", "node-redis"],
  async make(client, library) {
    const { RateLimiterRedis } = await import("rate-limiter-flexible");
    const limiter = new RateLimiterRedis({
      storeClient: client,
      points: MOST,
      duration: WINDOW_S,
      useRedisPackage: library === "node-redis",
    });
    return async (key) => (await limiter.consume(key)).consumedPoints > 0;
  },
};

const store = {
  name: "rate-limit-redis",
  package: "rate-limit-redis",
  what: "Redis; fixed window; the store of express-rate-limit, without its middleware",
  clients: ["ioredis", "node-redis"],
  async make(client, library) {
    const { RedisStore } = await import("rate-limit-redis");
    const counts = new RedisStore({
      sendCommand: library === "ioredis"
        ? (...command) => client.call(...command)
        : (...command) => client.sendCommand(command),
    });
    await counts.init({ windowMs: WINDOW_S * 1000 });
    return async (key) => (await counts.increment(key)).totalHits <= MOST;
  },
};

/** Its own client speaks HTTP to its own service. Its scripts begin with a flag that only that service knows: they run here without that line. */
function upstashClient(client) {
  const shas = new Map();
  const sha1 = (text) => createHash("sha1").update(text).digest("hex");
  return {
    evalsha: (sha, keys, args) => client.evalsha(shas.get(sha) ?? sha, keys.length, ...keys, ...args),
    eval(source, keys, args) {
      const plain = source.replace(/^#!.*\n/, "");
      shas.set(sha1(source), sha1(plain));
      return client.eval(plain, keys.length, ...keys, ...args);
    },
  };
}

const upstash = (algorithm, of) => ({
  name: `@upstash/ratelimit, ${algorithm}`,
  package: "@upstash/ratelimit",
  what: `Redis; ${algorithm}; its scripts over ioredis, less their first line`,
  clients: ["ioredis"],
  async make(client) {
    const { Ratelimit } = await import("@upstash/ratelimit");
    const ratelimit = new Ratelimit({
      redis: upstashClient(client),
      limiter: of(Ratelimit),
      ephemeralCache: false,
      analytics: false,
      timeout: 0,
      prefix: `upstash:${algorithm}`,
    });
    return async (key) => (await ratelimit.limit(key)).success;
  },
});

/** `make(client, library)` resolves to what asks for one key. Its package is loaded only then. */
export const overRedis = [
  flexible,
  store,
  upstash("token bucket", (Ratelimit) => Ratelimit.tokenBucket(MOST, `${WINDOW_S} s`, MOST)),
  upstash("fixed window", (Ratelimit) => Ratelimit.fixedWindow(MOST, `${WINDOW_S} s`)),
];
