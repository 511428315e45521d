// The contract of a limiter, run against the kinds of Redis at a server's clock that is moved by hand.

import { type RedisLimiter, RedisSluice } from "sluice/redis";
import { afterAll, beforeAll, describe } from "vitest";
import { decides, keepsBounds, type Place, redisKinds, waits } from "../contract.js";
import { TimedClient } from "./server-time.js";
import { redisBinary, RedisServer } from "./server.js";

let server: RedisServer | undefined;
beforeAll(async () => {
  if (redisBinary) server = await RedisServer.start();
});
afterAll(() => server?.close());

let places = 0;
function inRedis(): Place<RedisLimiter> {
  const client = new TimedClient(server!.port);
  const redis = RedisSluice.create({ client, onFailure: "closed", prefix: `contract${places++}`, deadlineMs: 10_000 });
  return {
    makers: redis,
    stepMs: 1e-3,
    pass: (ms) => (client.nowUs += Math.round(ms * 1000)),
    close: () => {
      redis.close();
      client.close();
    },
  };
}

describe.skipIf(!redisBinary)("a limiter in Redis", () => {
  decides(inRedis, redisKinds);
  waits(inRedis, redisKinds);
  keepsBounds(inRedis, redisKinds);
});
