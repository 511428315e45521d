// The scripts of 'take', with the limits in their text, against those of 'peek' on the
// same words: at the ends of the ranges of limits, costs and times, with a limiter of
// other options under the same name, and with a server whose clock is set back.

import fc from "fast-check";
import { type RedisLimiter, RedisSluice } from "sluice/redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { announceSeed } from "../seed.js";
import { TimedClient } from "./server-time.js";
import { redisBinary, RedisServer } from "./server.js";

const MOST = 2 ** 31 - 1;
const YEAR_MS = 366 * 86_400_000;
const numbers = fc.constantFrom(1, 2, 7, 1000, 123_457, MOST);

type Make = (redis: RedisSluice, name: string) => RedisLimiter;
interface Limits {
  most: number;
  /** Of what time is measured by, microseconds. */
  unitUs: number;
  make: Make;
}
const windows = fc.tuple(numbers, fc.constantFrom(1, 7, 1000, 60_000, 86_400_000, YEAR_MS));
const kinds: Record<string, fc.Arbitrary<Limits>> = {
  "a token bucket": fc
    .tuple(numbers, fc.constantFrom(1e-9, 1e-7, 0.001, 1 / 3, 1, 7, 999.99, 1e6, 1e9 / 7, 3e9))
    .filter(([burst, rate]) => burst / rate < 20 * 365 * 86_400)
    .map(([burst, rate]) => ({
      most: burst,
      unitUs: Math.ceil(1e6 / rate),
      make: (redis, name) => redis.tokenBucket(name, { rate, burst }),
    })),
  "a fixed window": windows.map(([limit, windowMs]) => ({
    most: limit,
    unitUs: windowMs * 1000,
    make: (redis, name) => redis.fixedWindow(name, { limit, windowMs }),
  })),
  "the two-window counter": windows.map(([limit, windowMs]) => ({
    most: limit,
    unitUs: windowMs * 1000,
    make: (redis, name) => redis.slidingWindow(name, { limit, windowMs }),
  })),
};

const steps = fc.array(
  fc.record({
    do: fc.constantFrom(
      "consume",
      "consume",
      "consume",
      "charge",
      "refund",
      "reserve",
      "other",
      "pass",
      "pass",
      "set back",
    ),
    part: fc.constantFrom(0, 1e-9, 0.01, 0.3, 0.5, 1, 1.01, 1e9),
    units: fc.constantFrom(1e-6, 0.01, 0.5, 1, 1.7, 3),
  }),
  { maxLength: 30 },
);

describe.skipIf(!redisBinary)("the script of take", () => {
  let server: RedisServer;
  let client: TimedClient;
  let made = 0;
  beforeAll(async () => {
    server = await RedisServer.start();
    client = new TimedClient(server.port, 1_234_567);
  });
  afterAll(async () => {
    client?.close();
    await server?.close();
  });

  it.each(Object.keys(kinds))(
    "of %s answers as peek does, and takes the same",
    { timeout: 60_000 },
    async (kind) => {
      const startUs = client.nowUs;
      const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 10_000 });
      const others = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 10_000 });
      let granted = 0;
      let refused = 0;
      await fc.assert(
        fc.asyncProperty(kinds[kind], kinds[kind], steps, async ({ most, unitUs, make }, { make: makeOther }, todo) => {
          client.nowUs = startUs;
          const name = `it${made++}`;
          const limiter = make(redis, name);
          const other = makeOther(others, name);
          for (const step of todo) {
            const cost = Math.min(MOST, Math.max(1, Math.floor(most * step.part)));
            const byUs = Math.ceil(Math.min(unitUs * step.units, YEAR_MS * 1000));
            if (step.do === "pass") client.nowUs += byUs;
            else if (step.do === "set back") client.nowUs = Math.max(startUs, client.nowUs - byUs);
            else if (step.do === "other") await other.consume("key", cost);
            else if (step.do !== "consume") await limiter[step.do]("key", cost);
            else {
              const before = await limiter.peek("key", cost);
              const answer = await limiter.consume("key", cost);
              const after = await limiter.peek("key", 0);
              if (answer.allowed) granted++;
              else refused++;
              if (!answer.allowed) expect(answer).toEqual(before);
              expect(answer).toMatchObject({
                allowed: before.allowed,
                remaining: before.remaining - (before.allowed ? cost : 0),
                resetMs: after.resetMs,
              });
              expect(after.remaining).toBe(answer.remaining);
            }
          }
        }),
        { seed: announceSeed(`take of ${kind}`), numRuns: 250 },
      );
      expect(redis.stats().failures + others.stats().failures).toBe(0);
      expect(Math.min(granted, refused)).toBeGreaterThan(50);
    },
  );
});
