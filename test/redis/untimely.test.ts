// What comes at a bad moment or in an odd shape: a client that throws, answers
// integers as strings, or is cut off right after the end; a table that is closed
// under a call; aborts without a reason.

import { Redis as Ioredis } from "ioredis";
import { ManualClock, Sluice } from "sluice";
import { type IoredisClient, RedisSluice } from "sluice/redis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { clients } from "./clients.js";
import { redisBinary, RedisServer, until } from "./server.js";

const unhandled: unknown[] = [];
const onUnhandled = (error: unknown): void => void unhandled.push(error);
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));
beforeEach(() => void process.on("unhandledRejection", onUnhandled));
afterEach(async () => {
  await turn();
  process.off("unhandledRejection", onUnhandled);
  expect(unhandled.splice(0)).toEqual([]);
});

/** A client for the two calls that are made of it. */
function stub(evalsha: () => Promise<unknown>, evaluate = evalsha): IoredisClient {
  return { evalsha, eval: evaluate };
}

describe("a client", () => {
  it("that throws when it is asked for the source of a script is as good as one that rejects", async () => {
    const client = stub(
      () => Promise.reject(new Error("NOSCRIPT No matching script.")),
      () => {
        throw new Error("the client is closed");
      },
    );
    const redis = RedisSluice.create({ client, onFailure: "open" });
    expect(await redis.tokenBucket("it", { rate: 1, burst: 5 }).consume("alice")).toMatchObject({
      allowed: true,
      degraded: true,
    });
    expect(redis.stats().lastFailure).toMatchObject({ message: "the client is closed" });
  });

  it.each([
    ["strings", ["-4000000", ["0", "750000", "750000"], "1000000"]],
    ["bigints", [-4_000_000n, [0n, 750_000n, 750_000n], 1_000_000n]],
  ])("that answers integers as %s is understood", async (_, [bucket, window, need]) => {
    let answer: unknown;
    const redis = RedisSluice.create({ client: stub(() => Promise.resolve(answer)), onFailure: "closed" });
    answer = bucket;
    expect(await redis.tokenBucket("bucket", { rate: 1, burst: 5 }).consume("alice")).toEqual({
      allowed: true,
      limit: 5,
      remaining: 4,
      retryAfterMs: 0,
      resetMs: 1000,
      degraded: false,
    });
    answer = window;
    expect(await redis.fixedWindow("window", { limit: 2, windowMs: 1000 }).consume("alice")).toEqual({
      allowed: false,
      limit: 2,
      remaining: 0,
      retryAfterMs: 750,
      resetMs: 750,
      degraded: false,
    });
    answer = need;
    expect(await redis.tokenBucket("bucket", { rate: 1, burst: 5 }).peek("alice", 2)).toEqual({
      allowed: false,
      limit: 5,
      remaining: 1,
      retryAfterMs: 1000,
      resetMs: 4000,
      degraded: false,
    });
  });
});

describe("a probe", () => {
  it("that is answered with an error about its key finds Redis well", async () => {
    const clock = new ManualClock(0);
    const local = Sluice.create({ capacity: 100, clock });
    let message = "connect ECONNREFUSED";
    const redis = RedisSluice.create({
      client: stub(() => Promise.reject(new Error(message))),
      onFailure: "open",
      local,
    });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    for (let i = 0; i < 4; i++) await limiter.consume("alice");
    expect(redis.stats().reachable).toBe(false);
    message = "WRONGTYPE Operation against a key holding the wrong kind of value";
    clock.advance(1000);
    expect(await limiter.consume("alice")).toMatchObject({ degraded: true });
    expect(redis.stats().reachable).toBe(true);
    local.close();
  });

  it.each([
    "ERR Error running script (call to f_0123): @user_script:39: @user_script: 39: -OOM command not allowed when used memory > maxmemory.",
    "ERR Error running script (call to f_0123): @user_script:39: @user_script: 39: -READONLY You can't write against a read only replica.",
    "ERR The user executing the script can't run this command or subcommand script: 0123, on @user_script:39.",
  ])("is due after a few refusals of the server, also if they come as an error of the script: %s", async (message) => {
    const local = Sluice.create({ capacity: 100, clock: new ManualClock(0) });
    const redis = RedisSluice.create({
      client: stub(() => Promise.reject(new Error(message))),
      onFailure: "open",
      local,
    });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    for (let i = 0; i < 4; i++) await limiter.consume("alice");
    expect(redis.stats()).toMatchObject({ reachable: false, failures: 4 });
    local.close();
  });

  it("that is answered after its table has been closed rejects, and nothing else happens", async () => {
    const clock = new ManualClock(0);
    const local = Sluice.create({ capacity: 100, clock });
    let answer = (): Promise<unknown> => Promise.reject(new Error("connect ECONNREFUSED"));
    const redis = RedisSluice.create({ client: stub(() => answer()), onFailure: "open", local });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
    for (let i = 0; i < 4; i++) await limiter.consume("alice");
    clock.advance(1000);
    let reply!: (value: unknown) => void;
    answer = () => new Promise((resolve) => (reply = resolve));
    const probe = limiter.consume("alice");
    local.close();
    reply(-4e6);
    await expect(probe).rejects.toMatchObject({ code: "ERR_SLUICE_CLOSED" });
  });
});

describe("a wait in the table that stands in", () => {
  it("ends when the limiter is closed, and takes nothing", async () => {
    const clock = new ManualClock(0);
    const local = Sluice.create({ capacity: 100, clock });
    const redis = RedisSluice.create({
      client: stub(() => Promise.reject(new Error("connect ECONNREFUSED"))),
      onFailure: "local",
      local,
    });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 1 });
    expect(await limiter.allow("alice")).toBe(true);
    const waits = Promise.allSettled([
      limiter.wait("alice"),
      limiter.wait("alice", 1, { signal: new AbortController().signal }),
    ]);
    await turn();
    await redis.close();
    expect(await waits).toMatchObject([{ reason: { code: "ERR_SLUICE_CLOSED" } }, {
      reason: { code: "ERR_SLUICE_CLOSED" },
    }]);
    clock.advance(1000);
    const again = RedisSluice.create({
      client: stub(() => Promise.reject(new Error("connect ECONNREFUSED"))),
      onFailure: "local",
      local,
    });
    expect(await again.tokenBucket("it", { rate: 1, burst: 1 }).allow("alice")).toBe(true);
    local.close();
  });
});

describe("a deadline", () => {
  it("leaves no timer behind when the answer has come, or an error", async () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
    const before = timers();
    for (const answer of [() => Promise.resolve(-4e6), () => Promise.reject(new Error("connect ECONNREFUSED"))]) {
      const redis = RedisSluice.create({ client: stub(answer), onFailure: "open" });
      const limiter = redis.tokenBucket("it", { rate: 1, burst: 5 });
      const decisions = Array.from({ length: 20 }, () => limiter.consume("alice"));
      expect(timers()).toBeGreaterThan(before);
      await Promise.all(decisions);
      expect(timers()).toBe(before);
    }
  });
});

describe.skipIf(!redisBinary)("with a real server", () => {
  let server: RedisServer;
  let client: Ioredis;
  let made = 0;
  beforeAll(async () => {
    server = await RedisServer.start();
    client = new Ioredis({ port: server.port }).on("error", () => {});
  });
  afterAll(async () => {
    client?.disconnect();
    await server?.close();
  });
  const create = (handed: IoredisClient = client, prefix = `untimely${made++}`, local?: Sluice): RedisSluice =>
    RedisSluice.create({ client: handed, onFailure: "closed", deadlineMs: 5000, prefix, ...(local && { local }) });
  const hourly = { rate: 1 / 3600, burst: 1 };

  it.each([0, "", null, false])("a wait that is aborted for the reason %j rejects with it", async (reason) => {
    const limiter = create().tokenBucket("it", hourly);
    await limiter.allow("alice");
    const controller = new AbortController();
    const wait = limiter.wait("alice", 1, { signal: controller.signal });
    await until("it has a turn", async () => (await limiter.peek("alice")).retryAfterMs > 3_600_000);
    await turn();
    controller.abort(reason);
    await expect(wait).rejects.toBe(reason);
  });

  it("a wait that is aborted while Redis grants it at once gives that back", async () => {
    const limiter = create().tokenBucket("it", { rate: 1 / 3600, burst: 5 });
    const controller = new AbortController();
    const wait = limiter.wait("alice", 2, { signal: controller.signal });
    controller.abort(new Error("too late"));
    await expect(wait).rejects.toThrow("too late");
    expect((await limiter.peek("alice")).remaining).toBe(5);
  });

  it.each([["knows", 2], ["is still to hear of", 1]])(
    "a wait that %s its turn has given it back when close() has resolved, even if the client is cut off then",
    async (what, count) => {
      const own = new Ioredis({ port: server.port });
      // What is sent takes a while, as it does on a network.
      const evalsha = async (...args: Parameters<IoredisClient["evalsha"]>): Promise<unknown> =>
        turn().then(() => own.evalsha(...args));
      const prefix = `untimely${made++}`;
      const redis = create({ evalsha, eval: (...args) => own.eval(...args) }, prefix);
      const limiter = redis.tokenBucket("it", hourly);
      await limiter.allow("alice");
      const waits = Promise.allSettled(Array.from({ length: count }, () => limiter.wait("alice")));
      if (what === "knows") await until("they have their turns", () => redis.stats().allowed === 1 + count);
      await redis.close();
      own.disconnect();
      for (const { status } of await waits) expect(status).toBe("rejected");
      expect((await create(client, prefix).tokenBucket("it", hourly).peek("alice")).retryAfterMs).toBeLessThanOrEqual(
        3_600_000,
      );
    },
  );

  it("a wait that is aborted after its table has been closed rejects, and nothing else happens", async () => {
    const local = Sluice.create({ capacity: 100 });
    const redis = create(client, `untimely${made++}`, local);
    const limiter = redis.tokenBucket("it", hourly);
    await limiter.allow("alice");
    const controller = new AbortController();
    const wait = limiter.wait("alice", 1, { signal: controller.signal });
    await until("it has a turn", () => redis.stats().allowed === 2);
    await turn();
    local.close();
    controller.abort(new Error("over"));
    await expect(wait).rejects.toThrow("over");
  });

  it("a cost above the burst is answered as it would be looked at, however large it is", async () => {
    const redis = create();
    const buckets = {
      hourly: redis.tokenBucket("it", { rate: 1 / 3600, burst: 4 }),
      odd: redis.tokenBucket("odd", { rate: 7e-6, burst: 4 }),
      fast: redis.tokenBucket("fast", { rate: 3e9, burst: 2 ** 31 - 2 }),
    };
    for (const limiter of Object.values(buckets)) {
      await limiter.allow("alice", 3);
      const { remaining } = await limiter.peek("alice");
      for (const cost of [5, 2 ** 31 - 1]) {
        const answer = await limiter.consume("alice", cost);
        if (cost > answer.limit) expect(answer).toMatchObject({ allowed: false, retryAfterMs: Infinity });
        if (limiter !== buckets.fast) expect(answer.remaining).toBe(remaining);
        if (limiter !== buckets.fast) expect(answer.resetMs).toBeGreaterThan(1000);
      }
    }
  });

  it("a window of another length under the same name is another one, and refuses nothing for the first", async () => {
    const prefix = `untimely${made++}`;
    const kinds = [
      (redis: RedisSluice, windowMs: number) => redis.fixedWindow("it", { limit: 5, windowMs }),
      (redis: RedisSluice, windowMs: number) => redis.slidingWindow("it", { limit: 5, windowMs }),
      (redis: RedisSluice, windowMs: number) => redis.slidingWindow("it", { limit: 5, windowMs, slots: 5 }),
    ];
    for (const make of kinds) {
      const short = make(create(client, prefix), 60_000);
      const long = make(create(client, prefix), 24 * 3_600_000);
      expect(await short.consume("alice")).toMatchObject({ allowed: true });
      expect(await long.consume("alice")).toMatchObject({ allowed: true });
      expect(await short.consume("alice")).toMatchObject({ allowed: true });
    }
  });
});

describe.skipIf(!redisBinary)("a server that refuses", () => {
  const refusals: Record<string, { begin: string; end: string; says: RegExp }> = {
    "since it is full": { begin: "CONFIG SET maxmemory 1", end: "CONFIG SET maxmemory 0", says: /OOM|used memory/ },
    "since it is a replica": {
      begin: "REPLICAOF 127.0.0.1 1",
      end: "REPLICAOF NO ONE",
      says: /READONLY|ReadOnly|read only/i,
    },
    "since its key is of another type": {
      begin: "HSET refuses:b{it:alice} a 1",
      end: "DEL refuses:b{it:alice}",
      says: /WRONGTYPE|wrong kind of value/,
    },
    "since the client may not write": {
      begin: "ACL SETUSER default -set",
      end: "ACL SETUSER default +set",
      says: /can't run this command|permissions/,
    },
  };
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server?.close());

  describe.each(Object.keys(clients))("over %s", (name) => {
    it.each(Object.keys(refusals))("%s, is done without meanwhile, and asked again by itself", async (why) => {
      const { begin, end, says } = refusals[why];
      const { client, close } = await clients[name](server.port);
      const local = Sluice.create({ capacity: 100 });
      const redis = RedisSluice.create({
        client,
        onFailure: "open",
        deadlineMs: 1000,
        probeMs: 50,
        prefix: "refuses",
        local,
      });
      const limiter = redis.tokenBucket("it", { rate: 1, burst: 1_000_000 });
      const leased = redis.leased("it", { rate: 1, burst: 1_000_000, leaseMs: 10_000 });
      try {
        await server.ask(begin);
        for (let i = 0; i < 10; i++) {
          expect(await limiter.consume("alice")).toMatchObject({ allowed: true, degraded: true });
          expect(await leased.consume("alice")).toMatchObject({ allowed: true, degraded: true });
        }
        expect(String((redis.stats().lastFailure as Error).message)).toMatch(says);
        await server.ask(end);
        await until(
          "it is asked again",
          async () => !(await limiter.consume("alice")).degraded && !(await leased.consume("alice")).degraded,
        );
      } finally {
        await server.ask(end);
        await server.ask("DEL refuses:b{it:alice}");
        await redis.close();
        await close();
        local.close();
      }
    });
  });
});
