// One process's leases from a real Redis: what is asked and what is not, what
// goes back, and what happens when threads die or Redis does.

import { once } from "node:events";
import type { Worker } from "node:worker_threads";
import { type Key, Sluice } from "sluice";
import {
  type LeasedLimiter,
  type LeasedOptions,
  type RedisDecision,
  RedisSluice,
  type RedisSluiceOptions,
} from "sluice/redis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startWorker, sum } from "../threads/crew.js";
import { clients } from "./clients.js";
import { redisBinary, RedisServer, until } from "./server.js";

let server: RedisServer;
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Hardly any refill: a second brings less than a token. */
const SLOW: LeasedOptions = { rate: 0.1, burst: 1000 };

let made = 0;
interface Process {
  local: Sluice;
  redis: RedisSluice;
  prefix: string;
  limiter: LeasedLimiter;
}

async function start(
  limit: LeasedOptions = SLOW,
  options: Partial<RedisSluiceOptions> = {},
  library = "ioredis",
): Promise<Process> {
  const { client, close } = await clients[library](server.port);
  const local = Sluice.create({ capacity: 100 });
  const prefix = options.prefix ?? `lease${made++}`;
  const redis = RedisSluice.create({ client, onFailure: "closed", local, ...options, prefix });
  closers.push(close, () => local.close(), () => redis.close());
  return { local, redis, prefix, limiter: redis.leased("it", limit) };
}

/** What Redis has left of a key, as a limiter of its own sees it. */
async function leftInRedis(prefix: string, { rate, burst }: LeasedOptions, key?: Key): Promise<number> {
  const { client, close } = await clients.ioredis(server.port);
  const redis = RedisSluice.create({ client, onFailure: "closed", prefix, deadlineMs: 5000 });
  const limiter = redis.tokenBucket("it", { rate, burst });
  const { remaining } = await (key === undefined ? limiter.global.peek() : limiter.peek(key));
  await redis.close();
  await close();
  return remaining;
}

/** Scripts that Redis has run since it was last asked. */
async function calls(): Promise<number> {
  const stats = await server.ask("INFO commandstats");
  await server.ask("CONFIG RESETSTAT");
  return sum([...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].map(([, count]) => Number(count)));
}

const allowedOf = (decisions: readonly RedisDecision[]): number => decisions.filter(({ allowed }) => allowed).length;

describe.skipIf(!redisBinary)("a leased limiter", () => {
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server?.close());

  it.each(Object.keys(clients))("decides most calls without Redis, over %s", async (library) => {
    const { limiter } = await start(SLOW, { deadlineMs: 250 }, library);
    await calls();
    let allowed = 0;
    for (let i = 0; i < 500; i++) if ((await limiter.consume("alice")).allowed) allowed++;
    expect(allowed).toBe(500);
    const asked = await calls();
    expect(asked).toBeGreaterThan(0);
    expect(asked).toBeLessThan(20);
  });

  it("refuses the first call for a key, which asks, and admits the next at once", async () => {
    const { limiter } = await start();
    expect(limiter.allow("alice")).toBe(false);
    await until("the lease has come", () => limiter.stats().leases === 1);
    expect(limiter.allow("alice")).toBe(true);
    expect(limiter.stats()).toMatchObject({ allowed: 1, denied: 1 });
  });

  it("gives many waiters at once what Redis has, and no more", async () => {
    const { limiter } = await start({ rate: 0.1, burst: 100 });
    const decisions = await Promise.all(Array.from({ length: 200 }, () => limiter.consume("alice")));
    expect(allowedOf(decisions)).toBe(100);
    expect(limiter.stats()).toMatchObject({ allowed: 100, denied: 100, leased: 100 });
    expect(limiter.stats().leases).toBeLessThan(10);
    for (const { allowed, retryAfterMs } of decisions) if (!allowed) expect(retryAfterMs).toBeGreaterThan(0);
  });

  it("asks Redis for each decision where the limit is small, and keeps none for later", async () => {
    const limit = { rate: 0.1, burst: 5 };
    const { limiter, prefix } = await start(limit);
    const { limiter: other } = await start(limit, { prefix });
    await limiter.consume("other");
    await calls();
    for (let i = 0; i < 4; i++) expect((await [limiter, other][i % 2].consume("alice")).allowed).toBe(true);
    expect(await calls()).toBeGreaterThanOrEqual(4);
    expect(await leftInRedis(prefix, limit, "alice")).toBe(1);
    expect((await other.consume("alice")).allowed).toBe(true);
    expect(await limiter.consume("alice")).toMatchObject({ allowed: false, limit: 5, remaining: 0, degraded: false });
  });

  it("distinguishes the same keys as a table, and shares buckets with the strict limiter", async () => {
    const limit = { rate: 0.1, burst: 20 };
    const { limiter, redis } = await start(limit);
    const keys: Key[] = [
      "",
      "1",
      1,
      1n,
      Uint8Array.of(49),
      "ж",
      "\ud800",
      2n ** 70n,
      "x".repeat(1_000_000),
    ];
    const strict = redis.tokenBucket("it", limit);
    expect((await limiter.global.consume(10)).allowed).toBe(true);
    expect(await strict.global.consume(10)).toMatchObject({ allowed: true, remaining: 0 });
    for (const key of keys) {
      expect((await limiter.consume(key, 10)).allowed).toBe(true);
      expect(await strict.consume(key, 10), String(key).slice(0, 10)).toMatchObject({
        allowed: true,
        remaining: 0,
      });
      expect((await limiter.consume(key, 1)).allowed).toBe(false);
    }
  });

  it("takes costs above what is leased, and never those above the burst", async () => {
    const { limiter } = await start({ rate: 0.1, burst: 200_000 });
    expect(await limiter.consume("alice", 150_000)).toMatchObject({ allowed: true });
    expect(await limiter.consume("alice", 200_001)).toMatchObject({ allowed: false, retryAfterMs: Infinity });
    expect(limiter.allow("alice", 200_001)).toBe(false);
    expect((await limiter.consume("alice", 50_000)).allowed).toBe(true);
    expect(limiter.allow("alice", 0)).toBe(true);
  });

  it("gives back what is left when it is closed, and rejects later calls", async () => {
    const { limiter, redis, prefix } = await start();
    for (let i = 0; i < 100; i++) await limiter.consume("alice");
    await limiter.consume("bob");
    const { leased } = limiter.stats();
    expect(leased).toBeGreaterThan(101);
    await redis.close();
    expect(limiter.stats().returned).toBe(leased - 101);
    expect(await leftInRedis(prefix, SLOW, "alice")).toBe(900);
    expect(await leftInRedis(prefix, SLOW, "bob")).toBe(999);
    expect(() => limiter.allow("alice")).toThrow(expect.objectContaining({ code: "ERR_SLUICE_CLOSED" }));
    await expect(limiter.consume("alice")).rejects.toMatchObject({ code: "ERR_SLUICE_CLOSED" });
    expect(() => redis.leased("it", SLOW)).toThrow(expect.objectContaining({ code: "ERR_SLUICE_CLOSED" }));
  });

  it("gives back what comes while it is closed", async () => {
    const { limiter, redis, prefix } = await start();
    limiter.allow("alice", 10);
    await redis.close();
    expect(limiter.stats()).toMatchObject({ leases: 1, leased: 10, returned: 10 });
    expect(await leftInRedis(prefix, SLOW, "alice")).toBe(1000);
  });

  it("does not wait for a Redis that is gone when it is closed", async () => {
    const { limiter, redis } = await start(SLOW, { deadlineMs: 50 });
    for (let i = 0; i < 100; i++) await limiter.consume("alice");
    server.pause();
    try {
      await redis.close();
    } finally {
      server.resume();
    }
    expect(limiter.stats().returned).toBe(0);
  });

  it("refuses a new key for which the table has no room, and does not ask", async () => {
    const { client, close } = await clients.ioredis(server.port);
    const local = Sluice.create({ capacity: 1, whenFull: "deny" });
    const redis = RedisSluice.create({ client, onFailure: "closed", local, prefix: "full" });
    closers.push(close, () => local.close(), () => redis.close());
    const others = local.tokenBucket("others", { rate: 1e-9, burst: 1 });
    for (let i = 0; local.stats().fullDenied === 0; i++) others.allow(i);
    const limiter = redis.leased("it", SLOW);
    const decisions = await Promise.all(Array.from({ length: 500 }, (_, i) => limiter.consume(i)));
    expect(allowedOf(decisions)).toBeLessThan(500);
    const { allowed, denied, leases } = limiter.stats();
    expect([allowed, denied]).toEqual([allowedOf(decisions), 500 - allowedOf(decisions)]);
    expect(leases).toBe(allowed);
  });

  it("gives back what comes after its deadline", async () => {
    const { limiter, prefix } = await start(SLOW, { deadlineMs: 50 });
    expect((await limiter.consume("other")).allowed).toBe(true);
    server.pause();
    try {
      expect(await limiter.consume("alice", 10)).toMatchObject({ allowed: false, degraded: true, unavailable: true });
    } finally {
      server.resume();
    }
    await until("it went back", () => limiter.stats().returned === 10);
    expect(await leftInRedis(prefix, SLOW, "alice")).toBe(1000);
  });

  describe("of several threads", () => {
    const threads: Worker[] = [];
    afterEach(async () => {
      await Promise.all(threads.splice(0).map((thread) => thread.terminate()));
    });

    async function thread({ local, prefix }: Process): Promise<Worker> {
      const worker = startWorker(new URL("./lease-thread.worker.ts", import.meta.url), {
        handle: local.handle,
        port: server.port,
        prefix,
        limit: SLOW,
      });
      threads.push(worker);
      await once(worker, "message");
      return worker;
    }

    it("asks once for all of them, and each gets its answer", async () => {
      const main = await start();
      await main.limiter.consume("other");
      await Promise.all([thread(main), thread(main), thread(main)]);
      await calls();
      server.pause();
      const answers: Promise<RedisDecision>[] = threads.map((worker) =>
        new Promise((resolve) => worker.on("message", ({ decision }) => decision && resolve(decision)))
      );
      try {
        expect(main.limiter.allow("alice", 100)).toBe(false);
        for (const worker of threads) worker.postMessage("alice");
        await Promise.all(threads.map((worker) => once(worker, "message")));
        answers.push(main.limiter.consume("alice"));
        // Long enough for all to have asked, had they wanted to.
        await new Promise((resolve) => setTimeout(resolve, 100));
      } finally {
        server.resume();
      }
      expect(allowedOf(await Promise.all(answers))).toBe(4);
      expect(await calls()).toBe(1);
      expect(main.local.stats().limiters[`redis:${main.prefix}:it:leases`]).toMatchObject({
        allowed: 4 + 1,
        denied: 1,
      });
    });

    it("goes on when one is killed while it asks: what it asked for is lost, once its flag has lapsed", async () => {
      const main = await start();
      const worker = await thread(main);
      server.pause();
      let checked: Promise<RedisDecision>;
      try {
        worker.postMessage("alice");
        await once(worker, "message");
        await worker.terminate();
        checked = main.limiter.consume("alice");
        expect(main.limiter.allow("alice")).toBe(false);
        expect(main.limiter.stats().leases).toBe(0);
      } finally {
        server.resume();
      }
      expect((await checked).allowed).toBe(true);
      expect(main.limiter.stats().leases).toBe(1);
      expect(await leftInRedis(main.prefix, SLOW, "alice")).toBeGreaterThanOrEqual(1000 - 2);
    });
  });

  describe("without Redis", () => {
    it.each([["open", true], ["closed", false], ["local", true]] as const)(
      "decides as onFailure '%s' says, and leases again when Redis is back",
      { timeout: 30_000 },
      async (onFailure, passes) => {
        const own = await RedisServer.start();
        const { client, close } = await clients.ioredis(own.port);
        const local = Sluice.create({ capacity: 100 });
        const redis = RedisSluice.create({ client, onFailure, local, deadlineMs: 50, probeMs: 100 });
        const limiter = redis.leased("it", SLOW);
        try {
          expect(await limiter.consume("alice")).toMatchObject({ allowed: true, degraded: false });
          await own.kill();
          await until(
            "Redis is given up",
            async () => !redis.stats().reachable || ((await limiter.consume("bob")), false),
          );
          expect(await limiter.consume("bob", 7)).toMatchObject({
            allowed: passes,
            degraded: true,
            ...(onFailure === "closed" && { unavailable: true }),
          });
          expect(limiter.allow("carol")).toBe(passes);
          if (onFailure === "local") {
            expect(limiter.allow("carol", 1000)).toBe(false);
          }
          const { allowed, denied, degraded } = limiter.stats();
          expect(degraded).toBeGreaterThan(0);
          await own.restart();
          await until("Redis is asked again", async () => !(await limiter.consume("dave")).degraded);
          await until("it leases again", async () => (await limiter.consume("dave")).allowed);
          expect(limiter.stats().allowed + limiter.stats().denied).toBeGreaterThan(allowed + denied);
        } finally {
          await redis.close();
          await close();
          local.close();
          await own.close();
        }
      },
    );
  });

  describe("at the door", () => {
    it("says what is wrong with its options", async () => {
      const { redis } = await start();
      const wrong: [unknown, RegExp][] = [
        [undefined, /"options" expected an object, got undefined/],
        [{ burst: 5 }, /"rate" expected/],
        [{ rate: NaN, burst: 5 }, /"rate" expected/],
        [{ rate: 0, burst: 5 }, /"rate" expected/],
        [{ rate: Infinity, burst: 5 }, /"rate" expected/],
        [{ rate: 5, burst: -1 }, /"burst" expected/],
        [{ rate: 5, burst: 2 ** 53 }, /"burst" expected/],
        [{ rate: 5, burst: 5, leaseMs: 1.5 }, /"leaseMs" expected an integer from 810 to 600000, got 1.5/],
        [{ rate: 5, burst: 5, leaseMs: 809 }, /"leaseMs" expected an integer from 810 to 600000, got 809/],
        [{ rate: 5, burst: 5, leaseMs: "1000" }, /"leaseMs" expected/],
        [{ rate: 5, burst: 5, leaseMs: 600_001 }, /"leaseMs" expected/],
      ];
      for (const [options, message] of wrong) {
        expect(() => redis.leased("wrong", options as LeasedOptions)).toThrow(message);
      }
      expect(() => redis.leased("", SLOW)).toThrow(/"name" expected/);
      expect(() => redis.leased("__proto__", SLOW)).not.toThrow();
    });

    it("knows a name with its options, and needs a table", async () => {
      const { redis, limiter } = await start();
      expect(redis.leased("it", { ...SLOW })).toBe(limiter);
      expect(() => redis.leased("it", { ...SLOW, burst: 7 })).toThrow(
        expect.objectContaining({ code: "ERR_SLUICE_POLICY_EXISTS" }),
      );
      expect(() => redis.leased("it", { ...SLOW, leaseMs: 2000 })).toThrow(
        expect.objectContaining({ code: "ERR_SLUICE_POLICY_EXISTS" }),
      );
      const { client, close } = await clients.ioredis(server.port);
      closers.push(close);
      expect(() => RedisSluice.create({ client, onFailure: "closed" }).leased("it", SLOW)).toThrow(
        /"local" expected the Sluice that leased tokens go to/,
      );
    });

    it("refuses an invalid cost or key, and loses nothing by it", async () => {
      const { limiter } = await start();
      for (const cost of [-1, 1.5, NaN, Infinity, 2 ** 31, "1", null]) {
        expect(() => limiter.allow("alice", cost as number)).toThrow(/"cost" expected/);
        await expect(limiter.consume("alice", cost as number)).rejects.toThrow(/"cost" expected/);
      }
      for (const key of [NaN, Infinity, null, {}, [], true, Symbol("key")]) {
        expect(() => limiter.allow(key as Key)).toThrow(/"key" expected/);
        await expect(limiter.consume(key as Key)).rejects.toThrow(/"key" expected/);
      }
      expect(limiter.stats()).toMatchObject({ allowed: 0, denied: 0, leases: 0 });
    });
  });
});
