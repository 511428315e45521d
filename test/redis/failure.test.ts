// Redis that does not answer: killed, paused, restarted, or replaced by a client
// that fails as the test says. In all cases every call ends, no rejection is left
// unhandled, and the failure ends by itself.

import { ManualClock, Sluice } from "sluice";
import { type IoredisClient, type OnFailure, type RedisDecision, RedisSluice } from "sluice/redis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { bucket } from "../../src/redis/scripts/bucket.js";
import { Scripts } from "../../src/redis/scripts/script.js";
import { Crew, sum } from "../threads/crew.js";
import { clients } from "./clients.js";
import type { FailureJobs } from "./failure.worker.js";
import { redisBinary, RedisServer, until } from "./server.js";

const unhandled: unknown[] = [];
const onUnhandled = (error: unknown): void => void unhandled.push(error);
const closers: (() => unknown)[] = [];
beforeEach(() => void process.on("unhandledRejection", onUnhandled));
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
  await new Promise((resolve) => setTimeout(resolve, 20));
  process.off("unhandledRejection", onUnhandled);
  expect(unhandled.splice(0)).toEqual([]);
});

function table(clock?: ManualClock): Sluice {
  const sluice = Sluice.create({ capacity: 1000, ...(clock && { clock }) });
  closers.push(() => sluice.close());
  return sluice;
}

/** The operations of a bucket whose scripts are shared by all buckets; `take` has one for each limiter. */
const ofBucket = new Scripts(bucket([{ rate: 1, burst: 5 }], Infinity));
const operations = new Map(
  (["peek", "reserve", "give", "charge", "cancel"] as const).map((
    operation,
  ) => [ofBucket.of(operation).sha, operation]),
);

/** A client that answers as `reply` says. */
class StubClient implements IoredisClient {
  asked: string[] = [];
  constructor(public reply: (operation: string) => Promise<unknown>) {}

  evalsha(sha: string): Promise<unknown> {
    const operation = operations.get(sha) ?? "take";
    this.asked.push(operation);
    return this.reply(operation);
  }

  eval(): Promise<unknown> {
    return Promise.reject(new Error("not asked"));
  }
}

const refused = (): Promise<unknown> => Promise.reject(new Error("connect ECONNREFUSED"));
const granted = (): Promise<unknown> => Promise.resolve(-4e6);

describe("while Redis cannot be asked", () => {
  it("open admits, and says that it is degraded", async () => {
    const redis = RedisSluice.create({ client: new StubClient(refused), onFailure: "open" });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    expect(await limiter.consume("alice")).toEqual({
      allowed: true,
      limit: 5,
      remaining: 5,
      retryAfterMs: 0,
      resetMs: 0,
      degraded: true,
    });
    expect(await limiter.consume("alice", 6)).toMatchObject({ allowed: false, retryAfterMs: Infinity, degraded: true });
    expect(await limiter.reserve("alice")).toMatchObject({ granted: true, delayMs: 0, degraded: true });
    expect(await limiter.wait("alice")).toBeUndefined();
    await expect(limiter.wait("alice", 6)).rejects.toMatchObject({ code: "ERR_SLUICE_COST_ABOVE_BURST" });
    expect([await limiter.refund("alice"), await limiter.charge("alice"), await limiter.reset("alice")]).toEqual([
      false,
      false,
      false,
    ]);
    expect(redis.stats()).toMatchObject({ allowed: 3, denied: 2, degraded: 4, reachable: false });
  });

  it("closed refuses, and says that it is unavailable", async () => {
    const redis = RedisSluice.create({ client: new StubClient(refused), onFailure: "closed", probeMs: 2000 });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    expect(await limiter.consume("alice")).toEqual({
      allowed: false,
      limit: 5,
      remaining: 0,
      retryAfterMs: 2000,
      resetMs: 2000,
      degraded: true,
      unavailable: true,
    });
    expect(await limiter.reserve("alice")).toMatchObject({ granted: false, degraded: true });
    await expect(limiter.wait("alice")).rejects.toMatchObject({
      code: "ERR_SLUICE_UNAVAILABLE",
      message: "unavailable: Redis did not decide about \"it\": connect ECONNREFUSED",
      limiter: "it",
      cost: 1,
      retryAfterMs: 2000,
    });
  });

  it("local decides in the table of this process, with its share of the limit", async () => {
    const clock = new ManualClock(0);
    const redis = RedisSluice.create({
      client: new StubClient(refused),
      onFailure: "local",
      local: table(clock),
      share: 0.5,
    });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 6 });
    expect(await limiter.consume("alice", 3)).toEqual({
      allowed: true,
      limit: 3,
      remaining: 0,
      retryAfterMs: 0,
      resetMs: 6000,
      degraded: true,
    });
    expect(await limiter.consume("alice")).toEqual({
      allowed: false,
      limit: 3,
      remaining: 0,
      retryAfterMs: 2000,
      resetMs: 6000,
      degraded: true,
    });
    const ahead = await limiter.reserve("alice");
    expect(ahead).toMatchObject({ granted: true, delayMs: 2000, degraded: true });
    expect(await ahead.cancel()).toBe(true);
    const wait = limiter.wait("alice");
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(2000);
    await wait;
    await limiter.reset("alice");
    expect((await limiter.peek("alice")).remaining).toBe(3);
    await limiter.charge("alice", 2);
    expect((await limiter.peek("alice")).remaining).toBe(1);
    await limiter.refund("alice", 1);
    expect((await limiter.peek("alice")).remaining).toBe(2);
  });

  it("local has a stand-in for every kind, with a share of at least 1", async () => {
    const redis = RedisSluice.create({
      client: new StubClient(refused),
      onFailure: "local",
      local: table(new ManualClock(0)),
      share: 0.01,
    });
    const limiters = [
      redis.tokenBucket("b", { rate: 10, burst: 10 }),
      redis.tokenBucket("several", { limits: [{ rate: 10, burst: 10 }, { rate: 1, burst: 100 }] }),
      redis.leakyBucket("meter", { rate: 10, burst: 10 }),
      redis.leakyBucket("queue", { rate: 10, queue: 10 }),
      redis.fixedWindow("fixed", { limit: 10, windowMs: 1000 }),
      redis.slidingWindow("counter", { limit: 10, windowMs: 1000 }),
      redis.slidingWindow("slots", { limit: 10, windowMs: 1000, slots: 4 }),
      redis.slidingWindow("log", { limit: 10, windowMs: 1000, log: true }),
    ];
    for (const limiter of limiters) {
      expect(await limiter.consume("alice"), limiter.name).toMatchObject({ allowed: true, degraded: true });
      expect(await limiter.consume("alice"), limiter.name).toMatchObject({ allowed: false, degraded: true });
    }
  });
});

describe("the breaker", () => {
  it("asks once an interval after the fourth failure, and always after the first answer", async () => {
    const clock = new ManualClock(0);
    const client = new StubClient(refused);
    const redis = RedisSluice.create({ client, onFailure: "open", local: table(clock), probeMs: 1000 });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    for (let i = 0; i < 20; i++) await limiter.allow("alice");
    expect(client.asked.length).toBe(4);
    expect(redis.stats()).toMatchObject({ reachable: false, failures: 4, skipped: 16, degraded: 20 });
    clock.advance(999.999);
    await limiter.allow("alice");
    expect(client.asked.length).toBe(4);
    for (let interval = 1; interval <= 5; interval++) {
      clock.set(interval * 1000);
      for (let i = 0; i < 20; i++) await limiter.allow("alice");
      expect(client.asked.length).toBe(4 + interval);
    }
    client.reply = granted;
    expect(await limiter.consume("alice")).toMatchObject({ degraded: true });
    clock.advance(1000);
    expect(await limiter.consume("alice")).toMatchObject({ degraded: false, remaining: 4 });
    expect(redis.stats().reachable).toBe(true);
    for (let i = 0; i < 20; i++) expect(await limiter.consume("alice")).toMatchObject({ degraded: false });
  });

  it("is not opened by a failure now and then, nor by errors about one key", async () => {
    const clock = new ManualClock(0);
    const client = new StubClient(granted);
    const redis = RedisSluice.create({ client, onFailure: "open", local: table(clock), probeMs: 1000 });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    for (let i = 0; i < 50; i++) {
      client.reply = refused;
      expect(await limiter.consume("alice")).toMatchObject({ degraded: true });
      client.reply = granted;
      expect(await limiter.consume("alice")).toMatchObject({ degraded: false });
      clock.advance(1000);
    }
    client.reply = () => Promise.reject(new Error("WRONGTYPE Operation against a key holding the wrong kind of value"));
    for (let i = 0; i < 50; i++) expect(await limiter.consume("alice")).toMatchObject({ degraded: true });
    client.reply = granted;
    expect(await limiter.consume("alice")).toMatchObject({ degraded: false });
  });

  it("lets one thread of the process ask, once an interval", async () => {
    const clock = new ManualClock(0);
    const sluice = table(clock);
    const threads = 4;
    const calls = 20_000;
    const crews = Crew.of<FailureJobs>(new URL("./failure.worker.ts", import.meta.url));
    const hire = async () => (await crews(threads, "decides", sluice.handle, { prefix: "crew", calls })).work();
    const first = await hire();
    // Each thread may have one call under way when the fourth failure is counted.
    expect(sum(first.map(({ asked }) => asked))).toBeGreaterThanOrEqual(4);
    expect(sum(first.map(({ asked }) => asked))).toBeLessThanOrEqual(3 + threads);
    let rounds = 1;
    for (; rounds < 4 || (sluice.stats().contended === 0 && rounds < 20); rounds++) {
      clock.advance(1000);
      expect(sum((await hire()).map(({ asked }) => asked))).toBe(1);
    }
    // Meanwhile their stand-in counted every call.
    expect(sluice.stats().limiters["redis:crew:it"].allowed).toBe(rounds * threads * calls);
    expect(sluice.stats().contended).toBeGreaterThan(0);
  });
});

describe("an answer that comes late", () => {
  function slow(): { client: StubClient; answer: (reply: unknown) => void } {
    const answers: ((reply: unknown) => void)[] = [];
    const client = new StubClient(() => new Promise((resolve) => answers.push(resolve)));
    return { client, answer: (reply) => answers.shift()!(reply) };
  }
  const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

  it.each<[OnFailure, string[]]>([["closed", ["take", "give"]], ["open", ["take"]]])(
    "under %s is given back if its caller was refused meanwhile",
    async (onFailure, asked) => {
      const { client, answer } = slow();
      const redis = RedisSluice.create({ client, onFailure, deadlineMs: 20 });
      const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
      expect(await limiter.consume("alice")).toMatchObject({ degraded: true, allowed: onFailure === "open" });
      answer(-4e6);
      await settled();
      expect(client.asked).toEqual(asked);
      expect(redis.stats()).toMatchObject({ late: 1, gaveBack: asked.length - 1 });
    },
  );

  it("is not given back if it refused too", async () => {
    const { client, answer } = slow();
    const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 20 });
    await redis.tokenBucket("it", { rate: 1, burst: 5 }).consume("alice");
    answer(1e6);
    await settled();
    expect(client.asked).toEqual(["take"]);
  });

  it("cancels a turn that is still to come", async () => {
    const { client, answer } = slow();
    const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 20 });
    expect(await redis.tokenBucket("it", { rate: 1, burst: 5 }).reserve("alice")).toMatchObject({ granted: false });
    answer([1, 5000, "1 2 3"]);
    await settled();
    expect(client.asked).toEqual(["reserve", "cancel"]);
  });

  it("does no harm if it is an error, or comes after the end", async () => {
    const fails: ((error: Error) => void)[] = [];
    const client = new StubClient(() => new Promise((_, reject) => fails.push(reject)));
    const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 20 });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    await limiter.consume("alice");
    fails[0](new Error("Connection is closed."));
    const { client: other, answer } = slow();
    const ended = RedisSluice.create({ client: other, onFailure: "closed", deadlineMs: 20 });
    await ended.tokenBucket("it", { rate: 1, burst: 5 }).consume("alice");
    ended.close();
    answer(-4e6);
    await settled();
  });
});

describe.skipIf(!redisBinary)("a real server", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server?.close());

  describe.each(Object.keys(clients))("over %s", (name) => {
    /** Decides 20 at a time until `stop` is called. */
    function load(redis: RedisSluice): { seen: RedisDecision[]; stop: () => Promise<void> } {
      const limiter = redis.tokenBucket("load", { rate: 1_000_000, burst: 1_000_000 });
      const seen: RedisDecision[] = [];
      let isOver = false;
      const workers = Array.from({ length: 20 }, async () => {
        while (!isOver) {
          seen.push(await limiter.consume("alice"));
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
      });
      return {
        seen,
        stop: async () => {
          isOver = true;
          await Promise.all(workers);
        },
      };
    }

    async function create(onFailure: OnFailure): Promise<RedisSluice> {
      const { client, close } = await clients[name](server.port);
      closers.push(close);
      const redis = RedisSluice.create({
        client,
        onFailure,
        local: table(),
        deadlineMs: 100,
        probeMs: 50,
        prefix: "real",
      });
      closers.push(() => redis.close());
      return redis;
    }

    it("that is killed under load is replaced by the fallback, and asked again when it is back, empty", async () => {
      const redis = await create("local");
      const { seen, stop } = load(redis);
      try {
        await until("Redis decides", () => seen.length > 100);
        expect(seen.every(({ degraded }) => !degraded)).toBe(true);
        await server.kill();
        const killed = seen.length;
        await until("the fallback decides", () => seen.slice(killed).filter(({ degraded }) => degraded).length > 100);
        expect(redis.stats().reachable).toBe(false);
        await server.restart();
        await until("Redis decides again", () => seen.at(-1)!.degraded === false);
        const back = seen.length;
        await until("it goes on", () => seen.length > back + 100);
        expect(seen.slice(-50).every(({ degraded }) => !degraded)).toBe(true);
        expect(redis.stats().reachable).toBe(true);
      } finally {
        await stop();
      }
    });

    it("that is paused delays each call by its deadline at most, and is asked again when it goes on", async () => {
      const redis = await create("closed");
      const { seen, stop } = load(redis);
      try {
        await until("Redis decides", () => seen.length > 100);
        server.pause();
        await until("the fallback decides", () => seen.filter(({ unavailable }) => unavailable).length > 100);
        server.resume();
        await until("Redis decides again", () => seen.at(-1)!.degraded === false);
      } finally {
        server.resume();
        await stop();
      }
    });
  });

  it("that is paused gets back what it gave to calls that had been given up", async () => {
    const { client, close } = await clients.ioredis(server.port);
    closers.push(close);
    const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 50, prefix: "late" });
    const limiter = redis.tokenBucket("it", { rate: 1e-4, burst: 10 });
    expect(await limiter.consume("alice")).toMatchObject({ allowed: true, remaining: 9 });
    // A script that the server did not know would have to be sent again, and is not once it is given up.
    expect((await limiter.peek("alice")).remaining).toBe(9);
    await limiter.reserve("alice", 0);
    server.pause();
    try {
      expect(await limiter.consume("alice", 2)).toMatchObject({ allowed: false, unavailable: true });
      const wait = limiter.wait("alice", 3);
      await expect(wait).rejects.toMatchObject({ code: "ERR_SLUICE_UNAVAILABLE" });
    } finally {
      server.resume();
    }
    await until("both came back", () => redis.stats().gaveBack === 2);
    await until("the bucket is as it was", async () => (await limiter.peek("alice")).remaining === 9);
  });

  it("survives this thread's own pauses: an answer that is there to be read is not late", async () => {
    const { client, close } = await clients.ioredis(server.port);
    closers.push(close);
    const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 50, prefix: "stall" });
    const limiter = redis.tokenBucket("it", { rate: 1000, burst: 1000 });
    await limiter.consume("alice");
    for (let i = 0; i < 5; i++) {
      const decision = limiter.consume("alice");
      // The request leaves first.
      await new Promise((resolve) => setImmediate(resolve));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
      expect(await decision).toMatchObject({ allowed: true, degraded: false });
    }
  });
});
