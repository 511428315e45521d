// One contract for limiters of a table and for those in Redis: the same cases,
// run against both, at a clock that is moved by hand.

import { type Decision, type Key, type Limiter, ManualClock, Sluice } from "sluice";
import { type RedisLimiter, RedisSluice } from "sluice/redis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { TimedClient } from "./server-time.js";
import { redisBinary, RedisServer } from "./server.js";

type Either = Limiter | RedisLimiter;
interface Maker {
  tokenBucket: (
    name: string,
    options: { rate: number; burst: number } | { limits: { rate: number; burst: number }[] },
  ) => Either;
  leakyBucket: (name: string, options: { rate: number; burst?: number; queue?: number }) => Either;
  fixedWindow: (name: string, options: { limit: number; windowMs: number }) => Either;
  slidingWindow: (name: string, options: { limit: number; windowMs: number; slots?: number; log?: boolean }) => Either;
}

interface Place {
  limiters: Maker;
  /** Moves the clock on, ms, in whole microseconds. */
  pass: (ms: number) => void;
  close: () => void;
}

let server: RedisServer | undefined;
beforeAll(async () => {
  if (redisBinary) server = await RedisServer.start();
});
afterAll(() => server?.close());

const us = (ms: number): number => Math.round(ms * 1000);

function inTable(): Place {
  const clock = new ManualClock(1000);
  const sluice = Sluice.create({ capacity: 1000, clock });
  return {
    limiters: sluice as unknown as Maker,
    pass: (ms) => clock.set((us(clock.nowMs) + us(ms)) / 1000),
    close: () => sluice.close(),
  };
}

let places = 0;
function inRedis(): Place {
  const client = new TimedClient(server!.port);
  const redis = RedisSluice.create({ client, onFailure: "closed", prefix: `contract${places++}`, deadlineMs: 10_000 });
  return {
    limiters: redis as unknown as Maker,
    pass: (ms) => (client.nowUs += us(ms)),
    close: () => {
      redis.close();
      client.close();
    },
  };
}

interface Kind {
  kind: string;
  make: (limiters: Maker, most: number, name?: string) => Either;
  /** How many calls it admits at one moment, of `most`. */
  atOnce: (most: number) => number;
  /** Whether what is reserved ahead and cancelled leaves no trace. */
  conserves: boolean;
  isOfRedisAlone?: boolean;
}
const all = (most: number): number => most;
const kinds: Kind[] = [
  {
    kind: "tokenBucket",
    make: (limiters, most, name = "it") => limiters.tokenBucket(name, { rate: most, burst: most }),
    atOnce: all,
    conserves: true,
  },
  {
    kind: "several limits",
    make: (limiters, most, name = "it") =>
      limiters.tokenBucket(name, { limits: [{ rate: 2 * most, burst: 2 * most }, { rate: most, burst: most }] }),
    atOnce: all,
    conserves: true,
  },
  {
    kind: "leakyBucket, a meter",
    make: (limiters, most, name = "it") => limiters.leakyBucket(name, { rate: most, burst: most }),
    atOnce: all,
    conserves: true,
  },
  {
    kind: "leakyBucket, a queue",
    make: (limiters, most, name = "it") => limiters.leakyBucket(name, { rate: most, queue: 1_000_000 }),
    atOnce: () => 1,
    conserves: true,
  },
  {
    kind: "fixedWindow",
    make: (limiters, most, name = "it") => limiters.fixedWindow(name, { limit: most, windowMs: 1000 }),
    atOnce: all,
    conserves: true,
  },
  {
    kind: "slidingWindow",
    make: (limiters, most, name = "it") => limiters.slidingWindow(name, { limit: most, windowMs: 1000 }),
    atOnce: all,
    conserves: false,
  },
  {
    kind: "slidingWindow with slots",
    make: (limiters, most, name = "it") => limiters.slidingWindow(name, { limit: most, windowMs: 1000, slots: 4 }),
    atOnce: all,
    conserves: false,
  },
  {
    kind: "slidingWindow with a log",
    make: (limiters, most, name = "it") => limiters.slidingWindow(name, { limit: most, windowMs: 1000, log: true }),
    atOnce: all,
    conserves: true,
    isOfRedisAlone: true,
  },
];

const KEYS: Key[] = [
  "alice",
  "",
  "7",
  7,
  7n,
  10n ** 20n,
  Uint8Array.of(7),
  "š",
  "\ud800",
  "\udfff",
  "a}b",
  "a{b}c",
  "__proto__",
  "x".repeat(1_000_000),
  "x".repeat(1_000_001),
];

async function drain(limiter: Either, key: Key): Promise<number> {
  let admitted = 0;
  while (await limiter.allow(key)) admitted++;
  return admitted;
}

/** What both say. */
function plain({ allowed, limit, remaining, retryAfterMs, resetMs, limitIndex }: Decision): Decision {
  return { allowed, limit, remaining, retryAfterMs, resetMs, ...(limitIndex !== undefined && { limitIndex }) };
}

const cases = [inTable, inRedis].flatMap((place) =>
  kinds.filter(({ isOfRedisAlone }) => !isOfRedisAlone || place === inRedis).map((kind) => ({
    ...kind,
    place,
    where: place === inTable ? "in a table" : "in Redis",
  }))
);

describe.each(redisBinary ? cases : cases.filter(({ place }) => place === inTable))(
  "$kind, $where",
  ({ make, atOnce, conserves, place }) => {
    let limiters: Maker;
    let pass: (ms: number) => void;
    let close: () => void;
    beforeEach(() => ({ limiters, pass, close } = place()));
    afterEach(() => close());

    it("admits its allowance at once for each key, whatever kind of key, and refuses from then on", async () => {
      const limiter = make(limiters, 5);
      for (const key of KEYS) {
        expect(await drain(limiter, key), String(key).slice(0, 20)).toBe(atOnce(5));
        expect(await limiter.allow(key)).toBe(false);
      }
    });

    it("answers the same by allow, consume, peek and reserve", async () => {
      const ways: ((limiter: Either, key: Key) => Promise<boolean>)[] = [
        async (limiter, key) => limiter.allow(key),
        async (limiter, key) => (await limiter.consume(key)).allowed,
        async (limiter, key) => (await limiter.reserve(key, 1, { maxWaitMs: 0 })).granted,
      ];
      const limiter = make(limiters, 4);
      let admitted = 0;
      for (let step = 0; step < 60; step++) {
        const wanted = (await limiter.peek(0)).allowed;
        if (wanted) admitted++;
        expect(await Promise.all(ways.map((way, i) => way(limiter, i))), `step ${step}`).toEqual(
          ways.map(() => wanted),
        );
        pass(step % 7 === 0 ? 1000 : 60);
      }
      expect(admitted).toBeGreaterThan(10);
      expect(admitted).toBeLessThan(60);
    });

    it("changes nothing by a peek, by a refusal or by a cost of 0", async () => {
      const limiter = make(limiters, 5);
      await limiter.peek("never");
      expect(await limiter.allow("never", 0)).toBe(true);
      await limiter.reserve("never", 0);
      expect(await limiter.allow("never", 6)).toBe(false);
      expect(plain(await limiter.peek("never"))).toEqual(plain(await limiter.peek("never seen")));
      await drain(limiter, "key");
      const before = await limiter.peek("key");
      for (let i = 0; i < 5; i++) {
        await limiter.allow("key");
        await limiter.consume("key");
        await limiter.peek("key", 3);
        expect((await limiter.reserve("key", 1, { maxWaitMs: 0 })).granted).toBe(false);
      }
      expect(await limiter.peek("key")).toEqual(before);
    });

    it("says that a cost above the burst can never be had", async () => {
      const limiter = make(limiters, 5);
      expect(await limiter.consume("key", 11)).toMatchObject({ allowed: false, retryAfterMs: Infinity });
      expect(await limiter.reserve("key", 11)).toMatchObject({ granted: false, delayMs: Infinity });
      await expect(limiter.wait("key", 11)).rejects.toMatchObject({ code: "ERR_SLUICE_COST_ABOVE_BURST" });
    });

    it("admits at retryAfterMs, not a microsecond before, and is as good as new at resetMs", async () => {
      const limiter = make(limiters, 5);
      pass(123);
      await drain(limiter, "key");
      const { allowed, retryAfterMs, resetMs, remaining } = await limiter.peek("key");
      expect({ allowed, remaining }).toEqual({ allowed: false, remaining: 0 });
      expect(retryAfterMs).toBeGreaterThan(0);
      const whole = Math.ceil(us(retryAfterMs)) / 1000;
      pass(whole - 0.001);
      expect((await limiter.peek("key")).allowed).toBe(false);
      pass(0.001);
      expect((await limiter.peek("key")).allowed).toBe(true);
      pass(resetMs - whole);
      expect(plain(await limiter.peek("key"))).toEqual(plain(await limiter.peek("never seen")));
      expect((await limiter.peek("key")).resetMs).toBe(0);
    });

    it("grants a reservation that acts at once or later, and gives it back by a cancel, once", async () => {
      const limiter = make(limiters, 5);
      expect(await limiter.reserve("key")).toMatchObject({ granted: true, delayMs: 0 });
      await drain(limiter, "key");
      const before = await limiter.peek("key");
      const ahead = await limiter.reserve("key");
      expect(ahead.granted).toBe(true);
      expect(ahead.delayMs).toBe(before.retryAfterMs);
      expect((await limiter.peek("key")).retryAfterMs).toBeGreaterThanOrEqual(before.retryAfterMs);
      expect(await ahead.cancel()).toBe(true);
      expect(await ahead.cancel()).toBe(false);
      if (conserves) expect(await limiter.peek("key")).toEqual(before);
      pass(ahead.delayMs);
      expect((await limiter.peek("key")).allowed).toBe(true);
      const late = await limiter.reserve("late");
      pass(0.001);
      expect(await late.cancel()).toBe(false);
      await drain(limiter, "long gone");
      const gone = await limiter.reserve("long gone");
      pass(gone.delayMs + 0.001);
      expect(await gone.cancel()).toBe(false);
    });

    it("keeps the turns of those behind a reservation that is cancelled", async () => {
      const limiter = make(limiters, 1);
      await drain(limiter, "key");
      const [first, second] = [await limiter.reserve("key"), await limiter.reserve("key")];
      expect(second.delayMs).toBeGreaterThan(first.delayMs);
      await first.cancel();
      const third = await limiter.reserve("key");
      expect(third.delayMs).toBeGreaterThan(second.delayMs);
    });

    it("gives a refund back, no more than was used, and makes a key new by a reset", async () => {
      const limiter = make(limiters, 5);
      await drain(limiter, "key");
      await limiter.refund("key");
      expect(await limiter.allow("key")).toBe(true);
      expect(await limiter.allow("key")).toBe(false);
      await limiter.refund("key", 1_000_000);
      expect(await drain(limiter, "key")).toBe(atOnce(5));
      await limiter.charge("key", 3);
      await limiter.reset("key");
      expect(plain(await limiter.peek("key"))).toEqual(plain(await limiter.peek("never seen")));
      expect(await drain(limiter, "key")).toBe(atOnce(5));
      await limiter.reset("never seen");
      await limiter.refund("never seen", 5);
      expect((await limiter.peek("never seen")).resetMs).toBe(0);
    });

    it("goes into debt by a charge, which later calls wait out", async () => {
      const limiter = make(limiters, 5);
      await limiter.charge("key", 12);
      const { allowed, remaining, retryAfterMs } = await limiter.peek("key");
      expect({ allowed, remaining }).toEqual({ allowed: false, remaining: 0 });
      expect(retryAfterMs).toBeGreaterThanOrEqual(1000);
      pass(Math.ceil(us(retryAfterMs)) / 1000);
      expect(await limiter.allow("key")).toBe(true);
    });

    it("survives the largest debt there is", async () => {
      const limiter = make(limiters, 5);
      for (let i = 0; i < 3; i++) await limiter.charge("key", 2 ** 31 - 1);
      expect((await limiter.consume("key")).allowed).toBe(false);
      await limiter.reset("key");
      expect((await limiter.consume("key")).allowed).toBe(true);
    });

    it("adds nothing when time goes backwards", async () => {
      const limiter = make(limiters, 5);
      pass(5000);
      await drain(limiter, "key");
      pass(-100);
      expect(await limiter.allow("key")).toBe(false);
    });

    it("has one bucket without a key, and it is nobody else's", async () => {
      const limiter = make(limiters, 5);
      let admitted = 0;
      while (await limiter.global.allow()) admitted++;
      expect(admitted).toBe(atOnce(5));
      for (const key of ["", "undefined", 0]) expect(await limiter.allow(key), String(key)).toBe(true);
      await limiter.global.reset();
      expect(await limiter.global.allow()).toBe(true);
    });

    it("refuses wrong arguments with the documented error, and takes nothing for them", async () => {
      const limiter = make(limiters, 5);
      for (const cost of [-1, 0.5, NaN, Infinity, 2 ** 31, 2 ** 53]) {
        for (const call of ["allow", "consume", "peek", "reserve", "wait", "refund", "charge"] as const) {
          await expect((async () => limiter[call]("key", cost))()).rejects.toThrow(RangeError);
          await expect((async () => limiter[call]("key", cost))()).rejects.toThrow(
            "\"cost\" expected an integer from 0 to 2147483647, got",
          );
        }
      }
      await expect((async () => limiter.consume("key", "1" as never))()).rejects.toThrow(TypeError);
      for (const key of [null, true, {}, [], Symbol("s"), () => 1, new Float64Array(1)]) {
        await expect(
          (async () => limiter.consume(key as never))(),
        ).rejects.toThrow(TypeError);
      }
      for (const key of [NaN, Infinity, -Infinity]) {
        await expect((async () => limiter.consume(key))()).rejects.toThrow(
          RangeError,
        );
      }
      for (const ms of [-1, NaN, "1"]) {
        await expect((async () => limiter.reserve("key", 1, { maxWaitMs: ms as number }))()).rejects.toThrow(
          "\"maxWaitMs\" expected",
        );
        await expect(limiter.wait("key", 1, { timeoutMs: ms as number })).rejects.toThrow("\"timeoutMs\" expected");
      }
      await expect(limiter.wait("key", 1, { signal: {} as never })).rejects.toThrow(
        "\"signal\" expected an AbortSignal",
      );
      expect((await limiter.peek("key")).resetMs).toBe(0);
    });

    it("charges nothing for waits that cannot be", async () => {
      const limiter = make(limiters, 5);
      await drain(limiter, "key");
      const before = await limiter.peek("key");
      await expect(limiter.wait("key", 1, { signal: AbortSignal.abort(new Error("gave up")) })).rejects.toThrow(
        "gave up",
      );
      await expect(limiter.wait("key", 1, { timeoutMs: 1 })).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
      await expect(limiter.wait("key", 1, { maxWaiters: 0 })).rejects.toMatchObject({
        code: "ERR_SLUICE_TOO_MANY_WAITERS",
      });
      expect(await limiter.peek("key")).toEqual(before);
    });
  },
);
