// Limiters in Redis at the server's own time: through every client, what they
// leave in the database, waits, and what is refused at the door.

import { ManualClock, Sluice } from "sluice";
import { type RedisClient, type RedisLimiter, RedisSluice, type RedisSluiceOptions } from "sluice/redis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { announceSeed, seeded } from "../seed.js";
import { clients, type Handed } from "./clients.js";
import { redisBinary, RedisServer, until } from "./server.js";

let server: RedisServer;
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

let made = 0;
async function create(options: Partial<RedisSluiceOptions> = {}, name = "ioredis"): Promise<RedisSluice> {
  let { client } = options;
  if (!client) {
    const handed: Handed = await clients[name](server.port);
    client = handed.client;
    closers.push(handed.close);
  }
  const redis = RedisSluice.create({
    onFailure: "closed",
    deadlineMs: 5000,
    prefix: `test${made++}`,
    ...options,
    client,
  });
  closers.push(() => redis.close());
  return redis;
}

/** A bucket of one token that comes back only in an hour, and is used up. */
async function usedUp(redis: RedisSluice, key: string): Promise<RedisLimiter> {
  const limiter = redis.tokenBucket("hourly", { rate: 1 / 3600, burst: 1 });
  expect(await limiter.allow(key)).toBe(true);
  return limiter;
}

/** So long that no test meets the end of a window. */
const YEAR_MS = 366 * 86_400_000;

const each: Record<string, (redis: RedisSluice) => RedisLimiter> = {
  tokenBucket: (redis) => redis.tokenBucket("it", { rate: 3, burst: 5 }),
  "several limits": (redis) => redis.tokenBucket("it", { limits: [{ rate: 3, burst: 5 }, { rate: 1, burst: 50 }] }),
  "leakyBucket queue": (redis) => redis.leakyBucket("it", { rate: 3, queue: 5 }),
  fixedWindow: (redis) => redis.fixedWindow("it", { limit: 5, windowMs: YEAR_MS }),
  slidingWindow: (redis) => redis.slidingWindow("it", { limit: 5, windowMs: YEAR_MS }),
  "slidingWindow slots": (redis) => redis.slidingWindow("it", { limit: 5, windowMs: YEAR_MS, slots: 6 }),
  "slidingWindow log": (redis) => redis.slidingWindow("it", { limit: 5, windowMs: YEAR_MS, log: true }),
};

describe.skipIf(!redisBinary)("a limiter in Redis", () => {
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server?.close());

  describe.each(Object.keys(clients))("over %s", (client) => {
    it.each(Object.keys(each))("%s admits its allowance of many calls at once, and says so", async (kind) => {
      const redis = await create({}, client);
      const limiter = each[kind](redis);
      const most = kind === "leakyBucket queue" ? 1 : 5;
      const answers = await Promise.all(Array.from({ length: 50 }, () => limiter.consume("alice")));
      expect(answers.filter(({ allowed }) => allowed).length).toBe(most);
      expect(answers[0]).toEqual({
        allowed: true,
        limit: most,
        remaining: most - 1,
        retryAfterMs: 0,
        resetMs: expect.any(Number),
        degraded: false,
        ...(kind === "several limits" && { limitIndex: 0 }),
      });
      expect(answers[49]).toMatchObject({ allowed: false, remaining: 0, degraded: false });
      expect(redis.stats()).toMatchObject({
        allowed: most,
        denied: 50 - most,
        degraded: 0,
        failures: 0,
        reachable: true,
        limiters: { it: { allowed: most } },
      });
      const reservation = await limiter.reserve("alice");
      expect(reservation.granted).toBe(true);
      expect(reservation.delayMs).toBeGreaterThan(0);
      expect(await reservation.cancel()).toBe(true);
      await limiter.reset("alice");
      expect(await limiter.allow("alice")).toBe(true);
    });
  });

  it.each(Object.keys(each))(
    "%s leaves one key for each limit, which expires, and a refusal writes nothing",
    async (kind) => {
      const prefix = `left${made++}`;
      const redis = await create({ prefix });
      const limiter = each[kind](redis);
      while (await limiter.allow("alice"));
      const reply = await server.ask(`KEYS ${prefix}*`);
      const keys = reply.split("\r\n").filter((line) => line.startsWith(prefix));
      expect(keys.length).toBe(kind === "several limits" ? 2 : 1);
      for (const key of keys) {
        expect(key).toMatch(new RegExp(`^${prefix}:[a-z]\\d*\\{it:alice\\}(:\\d)?$`));
        expect(Number((await server.ask(`PTTL ${key}`)).slice(1))).toBeGreaterThan(0);
        if (!kind.startsWith("slidingWindow ")) expect(await server.ask(`GET ${key}`)).toMatch(/^\$\d+\r\n\d+\r\n$/);
      }
      const changes = async (): Promise<string> =>
        /rdb_changes_since_last_save:(\d+)/.exec(await server.ask("INFO persistence"))![1];
      const before = await changes();
      for (let i = 0; i < 10; i++) expect(await limiter.allow("alice")).toBe(false);
      await limiter.peek("alice");
      await limiter.allow("nobody", 0);
      expect(await changes()).toBe(before);
    },
  );

  it.each([
    "tokenBucket",
    "odd rate",
    "several limits",
    "fixedWindow",
    "slidingWindow",
    "slidingWindow slots",
    "slidingWindow log",
  ])("%s never lets a key go before it is as good as new, whatever was done to it", async (kind) => {
    const prefix = `ttl${made++}`;
    const redis = await create({ prefix });
    const limits = { limit: 1000, windowMs: 5000 };
    const limiter = ({
      tokenBucket: () => redis.tokenBucket("it", { rate: 100, burst: 1000 }),
      "odd rate": () => redis.tokenBucket("it", { rate: 99_999.7, burst: 1_000_000 }),
      "several limits": () =>
        redis.tokenBucket("it", { limits: [{ rate: 100, burst: 1000 }, { rate: 7, burst: 1000 }] }),
      fixedWindow: () => redis.fixedWindow("it", limits),
      slidingWindow: () => redis.slidingWindow("it", limits),
      "slidingWindow slots": () => redis.slidingWindow("it", { ...limits, slots: 5 }),
      "slidingWindow log": () => redis.slidingWindow("it", { ...limits, log: true }),
    } as Record<string, () => RedisLimiter>)[kind]();
    const next = seeded(announceSeed("times to live"));
    const scale = kind === "odd rate" ? 1000 : 1;
    let ahead: { cancel(): Promise<boolean> } | undefined;
    for (let i = 0; i < 200; i++) {
      const cost = next(60) * scale;
      const what = next(8);
      if (what < 4) await limiter.allow("alice", cost);
      else if (what === 4) ahead = await limiter.reserve("alice", cost);
      else if (what === 5) await ahead?.cancel();
      else if (what === 6) await limiter.charge("alice", cost);
      else await limiter.refund("alice", 4 * cost);
      const replies = (await server.ask(`KEYS ${prefix}*`)).split("\r\n").filter((line) => line.startsWith(prefix));
      const livesMs = await Promise.all(replies.map(async (key) => Number((await server.ask(`PTTL ${key}`)).slice(1))));
      const { resetMs } = await limiter.peek("alice");
      if (resetMs > 0) {
        expect(Math.max(0, ...livesMs) + 1, `after step ${i}, of kind ${what}`).toBeGreaterThanOrEqual(resetMs);
      }
      for (const ms of livesMs) expect(ms).not.toBe(-1);
    }
  });

  it("lets the key go when the bucket is full again", async () => {
    const prefix = `gone${made++}`;
    const redis = await create({ prefix });
    const limiter = redis.tokenBucket("it", { rate: 100, burst: 5 });
    await limiter.allow("alice", 5);
    expect(await server.ask(`EXISTS ${prefix}:b{it:alice}`)).toBe(":1\r\n");
    await until("the key is gone", async () => (await server.ask(`EXISTS ${prefix}:b{it:alice}`)) === ":0\r\n");
    expect(await limiter.peek("alice")).toMatchObject({ remaining: 5, resetMs: 0 });
  });

  it("is asked in one round trip a decision, and by the digest of its script", async () => {
    const calls: string[] = [];
    const handed = await clients.ioredis(server.port);
    closers.push(handed.close);
    const counted = new Proxy(handed.client, {
      get: (target, name) => {
        const value = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        calls.push(String(name));
        return value.bind(target);
      },
    });
    const redis = await create({ client: counted });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    await limiter.consume("alice");
    calls.length = 0;
    await limiter.consume("alice");
    await limiter.reserve("alice");
    await limiter.peek("alice");
    expect(calls).toEqual(["evalsha", "evalsha", "evalsha"]);
  });

  describe("waits", () => {
    it("in order, over two clients, and no sooner than the rate lets", async () => {
      const prefix = `wait${made++}`;
      const [one, two] = [await create({ prefix }), await create({ prefix }, "node-redis")];
      const limiters = [one, two].map((redis) => redis.leakyBucket("it", { rate: 20, queue: 20 }));
      await limiters[0].allow("alice");
      const began = performance.now();
      const order: number[] = [];
      const waits: Promise<unknown>[] = [];
      for (let i = 0; i < 10; i++) {
        const isGranted = one.stats().allowed + two.stats().allowed;
        waits.push(limiters[i % 2].wait("alice").then(() => order.push(i)));
        await until("Redis has granted a turn", () => one.stats().allowed + two.stats().allowed > isGranted);
      }
      await Promise.all(waits);
      expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
      expect(performance.now() - began).toBeGreaterThanOrEqual(480);
    });

    it("that are aborted give their turns to those behind, and the last turn back", async () => {
      const redis = await create();
      const limiter = await usedUp(redis, "alice");
      const controllers = Array.from({ length: 3 }, () => new AbortController());
      const waits = controllers.map(({ signal }) => limiter.wait("alice", 1, { signal }));
      await until("all three have a turn", () => redis.stats().allowed === 4);
      const atAll = (await limiter.peek("alice")).retryAfterMs;
      controllers[0].abort(new Error("the first gave up"));
      await expect(waits[0]).rejects.toThrow("the first gave up");
      await until("a turn came back", async () => (await limiter.peek("alice")).retryAfterMs < atAll - 3_000_000);
      controllers[2].abort(new Error("the last gave up"));
      await expect(waits[2]).rejects.toThrow("the last gave up");
      await until("another came back", async () => (await limiter.peek("alice")).retryAfterMs < atAll - 2 * 3_000_000);
      controllers[1].abort(new Error("the second gave up"));
      await expect(waits[1]).rejects.toThrow("the second gave up");
      await until("all came back", async () => (await limiter.peek("alice")).retryAfterMs <= 3_600_000);
    });

    it("that are aborted while Redis is asked give back what it grants", async () => {
      const redis = await create();
      const limiter = await usedUp(redis, "alice");
      const controller = new AbortController();
      const wait = limiter.wait("alice", 1, { signal: controller.signal });
      controller.abort(new Error("at once"));
      await expect(wait).rejects.toThrow("at once");
      expect((await limiter.peek("alice")).retryAfterMs).toBeLessThanOrEqual(3_600_000);
    });

    it("end when they are closed, and give their turns back", async () => {
      const prefix = `closed${made++}`;
      const redis = await create({ prefix });
      const limiter = await usedUp(redis, "alice");
      const waits = [limiter.wait("alice"), limiter.wait("alice")];
      for (const wait of waits) wait.catch(() => {});
      await until("both have a turn", () => redis.stats().allowed === 3);
      redis.close();
      for (const wait of waits) await expect(wait).rejects.toMatchObject({ code: "ERR_SLUICE_CLOSED" });
      await expect(limiter.allow("alice")).rejects.toMatchObject({ code: "ERR_SLUICE_CLOSED" });
      expect(() => redis.tokenBucket("more", { rate: 1, burst: 1 })).toThrow(
        expect.objectContaining({ code: "ERR_SLUICE_CLOSED" }),
      );
      const other = (await create({ prefix })).tokenBucket("hourly", { rate: 1 / 3600, burst: 1 });
      await until("both turns came back", async () => (await other.peek("alice")).retryAfterMs <= 3_600_000);
    });

    it("no more than maxWaiters, in one thread and for one key", async () => {
      const redis = await create();
      const limiter = await usedUp(redis, "alice");
      const { signal, abort } = ((controller = new AbortController()) => ({
        signal: controller.signal,
        abort: () => controller.abort(new Error("over")),
      }))();
      const waits = [1, 2].map(() => limiter.wait("alice", 1, { signal, maxWaiters: 2 }));
      for (const wait of waits) wait.catch(() => {});
      await expect(limiter.wait("alice", 1, { maxWaiters: 2 })).rejects.toMatchObject({
        code: "ERR_SLUICE_TOO_MANY_WAITERS",
      });
      expect(await limiter.wait("bob", 1, { maxWaiters: 2 })).toBeUndefined();
      abort();
      await expect(Promise.all(waits)).rejects.toThrow("over");
    });

    it("not at all in a queue that is full", async () => {
      const redis = await create();
      const limiter = redis.leakyBucket("it", { rate: 1, queue: 2 });
      await limiter.allow("alice");
      await Promise.all([limiter.reserve("alice"), limiter.reserve("alice")]);
      await expect(limiter.wait("alice")).rejects.toMatchObject({ code: "ERR_SLUICE_QUEUE_FULL" });
      await expect(limiter.wait("alice", 1, { timeoutMs: 1 })).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
    });
  });

  it("disposes of a reservation that was not used", async () => {
    const redis = await create();
    const limiter = await usedUp(redis, "alice");
    const before = (await limiter.peek("alice")).retryAfterMs;
    {
      await using ahead = await limiter.reserve("alice");
      expect(ahead.delayMs).toBeGreaterThan(0);
      expect((await limiter.peek("alice")).retryAfterMs).toBeGreaterThan(before);
    }
    expect((await limiter.peek("alice")).retryAfterMs).toBeLessThanOrEqual(before);
  });

  it("says by limitIndex which of several limits decided", async () => {
    const redis = await create();
    const limiter = redis.tokenBucket("it", { limits: [{ rate: 100, burst: 10 }, { rate: 0.001, burst: 3 }] });
    expect(await limiter.consume("alice")).toMatchObject({ allowed: true, limitIndex: 1, limit: 3, remaining: 2 });
    await limiter.allow("alice", 2);
    expect(await limiter.consume("alice")).toMatchObject({ allowed: false, limitIndex: 1, limit: 3, remaining: 0 });
    expect(await limiter.consume("bob", 11)).toMatchObject({ allowed: false, limitIndex: 0, retryAfterMs: Infinity });
  });
});

describe("RedisSluice.create", () => {
  const client: RedisClient = {
    evalsha: () => Promise.reject(new Error("not asked")),
    eval: () => Promise.reject(new Error("not asked")),
  };
  const sluice = Sluice.create({ capacity: 10, clock: new ManualClock() });
  const good = { client, onFailure: "open" } as const;

  it.each<[string, Record<string, unknown>, typeof RangeError | typeof TypeError]>([
    ["\"onFailure\" expected 'open', 'closed' or 'local', got undefined", { onFailure: undefined }, TypeError],
    ["\"onFailure\" expected 'open', 'closed' or 'local', got \"ajar\"", { onFailure: "ajar" }, RangeError],
    ["\"prefix\" expected", { prefix: "a{b" }, RangeError],
    ["\"prefix\" expected", { prefix: "x".repeat(25) }, RangeError],
    ["\"prefix\" expected", { prefix: 1 }, TypeError],
    ["\"deadlineMs\" expected an integer from 1 to 60000, got 0", { deadlineMs: 0 }, RangeError],
    ["\"deadlineMs\" expected", { deadlineMs: "5" }, TypeError],
    ["\"probeMs\" expected an integer from 1 to 600000, got NaN", { probeMs: NaN }, RangeError],
    ["\"local\" expected a Sluice, got an object", { local: {} }, TypeError],
    [
      "\"local\" expected the Sluice that decides under onFailure 'local', got undefined",
      { onFailure: "local" },
      TypeError,
    ],
    ["\"share\" expected a number above 0 and up to 1, got 0", { share: 0, local: sluice }, RangeError],
    ["\"share\" expected", { share: 1.1 }, RangeError],
    ["\"client\" expected", { client: {} }, TypeError],
    ["\"options\" has no option \"deadline\"; did you mean \"deadlineMs\"?", { deadline: 5 }, TypeError],
  ])("refuses %s", (message, wrong, type) => {
    const options = { ...good, ...wrong } as RedisSluiceOptions;
    expect(() => RedisSluice.create(options)).toThrow(type);
    expect(() => RedisSluice.create(options)).toThrow(message);
  });

  it("gives the same limiter for the same name and options, and none for others", () => {
    const redis = RedisSluice.create(good);
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    expect(redis.tokenBucket("it", { rate: 1, burst: 5 })).toBe(limiter);
    expect(limiter.name).toBe("it");
    expect(() => redis.tokenBucket("it", { rate: 2, burst: 5 })).toThrow(
      expect.objectContaining({ code: "ERR_SLUICE_POLICY_EXISTS" }),
    );
    expect(() => redis.fixedWindow("it", { limit: 5, windowMs: 1000 })).toThrow(
      expect.objectContaining({ code: "ERR_SLUICE_POLICY_EXISTS" }),
    );
  });

  it("refuses a missing key, and says where the bucket without one is", async () => {
    const redis = RedisSluice.create({ ...good, local: sluice });
    const missing = undefined as unknown as string;
    const message = "\"key\" expected a string, number, bigint or Uint8Array, got undefined; "
      + "the one bucket without a key is limiter.global";
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    for (const call of ["allow", "consume", "peek", "reserve", "wait", "refund", "charge", "reset"] as const) {
      await expect(limiter[call](missing), call).rejects.toThrow(new TypeError(message));
    }
    expect(() => limiter.key(missing)).toThrow(new TypeError(message));
    const leased = redis.leased("it", { rate: 1, burst: 5 });
    expect(() => leased.allow(missing)).toThrow(new TypeError(message));
    await expect(leased.consume(missing)).rejects.toThrow(new TypeError(message));
    await expect(leased.refund(missing)).rejects.toThrow(new TypeError(message));
  });

  it("refuses options that it does not know, of every limiter and call", async () => {
    const redis = RedisSluice.create({ ...good, local: sluice });
    const bucket = { rate: 1, burst: 5 };
    const window = { limit: 5, windowMs: 1000 };
    const wrong: [string, () => unknown][] = [
      ["shadow", () => redis.tokenBucket("it", { ...bucket, shadow: true } as never)],
      ["tiers", () => redis.tokenBucket("it", { ...bucket, tiers: {} } as never)],
      ["tiers", () => redis.leakyBucket("it", { ...bucket, tiers: {} } as never)],
      ["align", () => redis.fixedWindow("it", { ...window, align: "wall" } as never)],
      ["shadow", () => redis.slidingWindow("it", { ...window, shadow: true } as never)],
      ["lease", () => redis.leased("it", { ...bucket, lease: 1000 } as never)],
    ];
    for (const [option, define] of wrong) {
      expect(define, option).toThrow(TypeError);
      expect(define, option).toThrow(`"options" has no option "${option}"`);
    }
    const limiter = redis.tokenBucket("it", bucket);
    await expect(limiter.reserve("alice", 1, { maxWait: 1 } as never)).rejects.toThrow(
      "\"options\" has no option \"maxWait\"; did you mean \"maxWaitMs\"?",
    );
  });

  it("takes rates that refill within 20 years, and names of plain characters", () => {
    const redis = RedisSluice.create(good);
    for (const rate of [0, Infinity, 1e-9]) {
      expect(() => redis.tokenBucket("it", { rate, burst: 5 })).toThrow(
        "\"rate\" expected a finite number of tokens per second that refills the burst of 5 within 20 years",
      );
    }
    for (const rate of [NaN, -1, "1"]) {
      expect(() => redis.tokenBucket("it", { rate: rate as number, burst: 5 })).toThrow(
        "\"rate\" expected tokens per second",
      );
    }
    for (const name of ["", "a:b", "{a}", "a b", "x".repeat(49)]) {
      expect(() => redis.tokenBucket(name, { rate: 1, burst: 5 })).toThrow("\"name\" expected 1 to 48");
    }
    expect(() => redis.tokenBucket(1 as never, { rate: 1, burst: 5 })).toThrow(TypeError);
    expect(() => redis.tokenBucket("it", null as never)).toThrow("\"options\" expected an object, got null");
    expect(() => redis.slidingWindow("it", { limit: 5, windowMs: 1000, slots: 3, log: true })).toThrow(
      "\"slots\" and \"log\" exclude each other, got 3 and true",
    );
    expect(() => redis.slidingWindow("it", { limit: 5, windowMs: 0 })).toThrow("\"windowMs\" expected");
  });
});
