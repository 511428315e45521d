// What every limiter promises, of whatever kind and wherever its buckets are: in
// a table, in Redis, or in a model. One source of cases, run against all. They
// await every answer, so that an answer may also be a promise.

import type { Decision, Key, WaitOptions } from "sluice";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

type Answer<Value> = Value | Promise<Value>;

export interface AnyReservation {
  readonly granted: boolean;
  readonly delayMs: number;
  cancel(): Answer<boolean>;
}

/** A limiter's one bucket without a key. */
export interface AnyBucket {
  allow(cost?: number): Answer<boolean>;
  consume(cost?: number): Answer<Decision>;
  peek(cost?: number): Answer<Decision>;
  reset(): Answer<unknown>;
}

export interface AnyLimiter {
  readonly limits: readonly { rate: number; burst: number }[];
  readonly global: AnyBucket;
  allow(key: Key, cost?: number): Answer<boolean>;
  consume(key: Key, cost?: number): Answer<Decision>;
  peek(key: Key, cost?: number): Answer<Decision>;
  reserve(key: Key, cost?: number, options?: { maxWaitMs?: number }): Answer<AnyReservation>;
  refund(key: Key, cost?: number): Answer<unknown>;
  charge(key: Key, cost?: number): Answer<unknown>;
  reset(key: Key): Answer<unknown>;
}

export interface WaitingLimiter extends AnyLimiter {
  wait(key: Key, cost?: number, options?: WaitOptions): Promise<void>;
}

/** Makes limiters, by name. */
export interface Makers<Each extends AnyLimiter = AnyLimiter> {
  tokenBucket(
    name: string,
    options: { rate: number; burst: number } | { limits: readonly { rate: number; burst: number }[] },
  ): Each;
  leakyBucket(name: string, options: { rate: number; burst?: number; queue?: number }): Each;
  fixedWindow(name: string, options: { limit: number; windowMs: number }): Each;
  slidingWindow(name: string, options: { limit: number; windowMs: number; slots?: number; log?: boolean }): Each;
  warmUp?(name: string, options: { rate: number; warmupMs: number }): Each;
}

/** Where limiters are, and the clock that they follow. */
export interface Place<Each extends AnyLimiter = AnyLimiter> {
  makers: Makers<Each>;
  /** The clock's smallest step, ms. */
  stepMs: number;
  /** Moves the clock by ms, rounded to whole steps. */
  pass(ms: number): void;
  close(): void;
}

export interface Kind {
  kind: string;
  /** A limiter that admits `most` calls at once, `most` a second. */
  make: <Each extends AnyLimiter>(makers: Makers<Each>, most: number, name?: string) => Each;
  /** How many calls it admits at one moment, of `most`. */
  atOnce: (most: number) => number;
  /** Whether what is reserved ahead and cancelled leaves no trace. */
  conserves: boolean;
  /** Whether a cost can be too large ever to be admitted. */
  hasBurst: boolean;
}

const all = (most: number): number => most;
const one = (): number => 1;

export const kinds = {
  tokenBucket: {
    kind: "tokenBucket",
    make: (makers, most, name = "it") => makers.tokenBucket(name, { rate: most, burst: most }),
    atOnce: all,
    conserves: true,
    hasBurst: true,
  },
  limits: {
    kind: "several limits",
    make: (makers, most, name = "it") =>
      makers.tokenBucket(name, { limits: [{ rate: 2 * most, burst: 2 * most }, { rate: most, burst: most }] }),
    atOnce: all,
    conserves: true,
    hasBurst: true,
  },
  meter: {
    kind: "leakyBucket, a meter",
    make: (makers, most, name = "it") => makers.leakyBucket(name, { rate: most, burst: most }),
    atOnce: all,
    conserves: true,
    hasBurst: true,
  },
  queue: {
    kind: "leakyBucket, a queue",
    make: (makers, most, name = "it") => makers.leakyBucket(name, { rate: most, queue: 1_000_000 }),
    atOnce: one,
    conserves: true,
    hasBurst: true,
  },
  fixedWindow: {
    kind: "fixedWindow",
    make: (makers, most, name = "it") => makers.fixedWindow(name, { limit: most, windowMs: 1000 }),
    atOnce: all,
    conserves: true,
    hasBurst: true,
  },
  slidingWindow: {
    kind: "slidingWindow",
    make: (makers, most, name = "it") => makers.slidingWindow(name, { limit: most, windowMs: 1000 }),
    atOnce: all,
    conserves: false,
    hasBurst: true,
  },
  slots: {
    kind: "slidingWindow with slots",
    make: (makers, most, name = "it") => makers.slidingWindow(name, { limit: most, windowMs: 1000, slots: 4 }),
    atOnce: all,
    conserves: false,
    hasBurst: true,
  },
  log: {
    kind: "slidingWindow with a log",
    make: (makers, most, name = "it") => makers.slidingWindow(name, { limit: most, windowMs: 1000, log: true }),
    atOnce: all,
    conserves: true,
    hasBurst: true,
  },
  warmUp: {
    kind: "warmUp",
    make: (makers, most, name = "it") => makers.warmUp!(name, { rate: most, warmupMs: 0 }),
    atOnce: one,
    conserves: true,
    hasBurst: false,
  },
} satisfies Record<string, Kind>;

const { log, warmUp, ...everywhere } = kinds;
/** The kinds that a table, Redis and the models have. */
export const commonKinds: readonly Kind[] = Object.values(everywhere);
export const tableKinds: readonly Kind[] = [...commonKinds, warmUp];
export const redisKinds: readonly Kind[] = [...commonKinds, log];

export const KEYS: readonly Key[] = [
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
  "undefined",
  "x".repeat(1_000_000),
  "x".repeat(1_000_001),
];

/** How often a key is admitted at one moment. */
async function drain(limiter: AnyLimiter, key: Key): Promise<number> {
  let admitted = 0;
  while (await limiter.allow(key)) admitted++;
  return admitted;
}

/** What every limiter says, in a table or in Redis. */
function plain({ allowed, limit, remaining, retryAfterMs, resetMs, limitIndex }: Decision): Decision {
  return { allowed, limit, remaining, retryAfterMs, resetMs, ...(limitIndex !== undefined && { limitIndex }) };
}

/** A stage for each test: a fresh place, closed at its end. */
function stage<Each extends AnyLimiter>(open: () => Place<Each>): { readonly place: Place<Each> } {
  const on = { place: undefined as unknown as Place<Each> };
  beforeEach(() => {
    on.place = open();
  });
  afterEach(() => on.place.close());
  return on;
}

/** The decisions of every limiter. */
export function decides(open: () => Place, ofKinds: readonly Kind[]): void {
  describe.each(ofKinds)("$kind", ({ make, atOnce, conserves, hasBurst }) => {
    const on = stage(open);
    const making = (most: number): AnyLimiter => make(on.place.makers, most);
    const pass = (ms: number): void => on.place.pass(ms);
    const whole = (ms: number): number =>
      Math.ceil(Math.round(1e7 * ms) / Math.round(1e7 * on.place.stepMs)) * on.place.stepMs;

    it("admits its allowance at once for each key, whatever kind of key, and refuses from then on", async () => {
      const limiter = making(5);
      for (const key of KEYS) {
        expect(await drain(limiter, key), String(key).slice(0, 20)).toBe(atOnce(5));
        expect(await limiter.allow(key)).toBe(false);
      }
    });

    it("has one bucket without a key, which no key shares", async () => {
      const limiter = making(5);
      let admitted = 0;
      while (await limiter.global.allow()) admitted++;
      expect(admitted).toBe(atOnce(5));
      for (const key of ["", "undefined", "global", 0]) expect(await limiter.allow(key), String(key)).toBe(true);
      expect((await limiter.global.consume()).allowed).toBe(false);
      await limiter.global.reset();
      expect((await limiter.global.peek()).allowed).toBe(true);
      expect(await limiter.global.allow()).toBe(true);
    });

    it("answers the same by allow, consume, peek and reserve", async () => {
      const ways: ((limiter: AnyLimiter, key: Key) => Promise<boolean>)[] = [
        async (limiter, key) => limiter.allow(key),
        async (limiter, key) => (await limiter.consume(key)).allowed,
        async (limiter, key) => (await limiter.reserve(key, 1, { maxWaitMs: 0 })).granted,
      ];
      const limiter = making(4);
      let admitted = 0;
      for (let step = 0; step < 60; step++) {
        const wanted = (await limiter.peek(0)).allowed;
        if (wanted) admitted++;
        const answers = await Promise.all(ways.map((way, i) => way(limiter, i)));
        expect(answers, `step ${step}`).toEqual(ways.map(() => wanted));
        pass(step % 7 === 0 ? 1000 : 60);
      }
      expect(admitted).toBeGreaterThan(10);
      expect(admitted).toBeLessThan(60);
    });

    it("changes nothing by a peek, by a refusal or by a cost of 0", async () => {
      const limiter = making(5);
      await limiter.peek("never");
      expect(await limiter.allow("never", 0)).toBe(true);
      await limiter.reserve("never", 0);
      if (hasBurst) expect(await limiter.allow("never", 6)).toBe(false);
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

    it.runIf(hasBurst)("says that a cost above the burst can never be had", async () => {
      const limiter = making(5);
      expect(await limiter.consume("key", 11)).toMatchObject({ allowed: false, retryAfterMs: Infinity });
      expect(await limiter.peek("key", 11)).toMatchObject({ allowed: false, retryAfterMs: Infinity });
      expect(await limiter.reserve("key", 11)).toMatchObject({ granted: false, delayMs: Infinity });
    });

    it("says its limits, and with each decision the burst that it is under and what is left of it", async () => {
      const limiter = making(5);
      const bursts = limiter.limits.map(({ burst }) => burst);
      if (hasBurst) expect(Math.min(...bursts)).toBe(atOnce(5));
      for (const { rate } of limiter.limits) expect(rate).toBeGreaterThanOrEqual(5);
      for (let left = atOnce(5) - 1; left >= 0; left--) {
        const { allowed, limit, remaining, retryAfterMs, resetMs } = await limiter.consume("key");
        expect({ allowed, remaining, retryAfterMs }).toEqual({ allowed: true, remaining: left, retryAfterMs: 0 });
        expect(bursts).toContain(limit);
        expect(resetMs).toBeGreaterThan(0);
      }
    });

    it("admits at retryAfterMs, not a step of the clock before, and is as good as new at resetMs", async () => {
      const limiter = making(5);
      pass(123);
      await drain(limiter, "key");
      const { allowed, retryAfterMs, resetMs, remaining } = await limiter.peek("key");
      expect({ allowed, remaining }).toEqual({ allowed: false, remaining: 0 });
      expect(retryAfterMs).toBeGreaterThan(0);
      pass(whole(retryAfterMs) - on.place.stepMs);
      expect((await limiter.peek("key")).allowed).toBe(false);
      pass(on.place.stepMs);
      expect((await limiter.peek("key")).allowed).toBe(true);
      pass(whole(resetMs) - whole(retryAfterMs));
      expect(plain(await limiter.peek("key"))).toEqual(plain(await limiter.peek("never seen")));
      expect((await limiter.peek("key")).resetMs).toBe(0);
    });

    it("grants a reservation that is due at once or later, and gives it back by a cancel, once", async () => {
      const limiter = making(5);
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
      pass(whole(ahead.delayMs));
      expect((await limiter.peek("key")).allowed).toBe(true);
    });

    it("gives back nothing by a cancel after a reservation was due", async () => {
      const limiter = making(5);
      const late = await limiter.reserve("late");
      pass(on.place.stepMs);
      expect(await late.cancel()).toBe(false);
      await drain(limiter, "long gone");
      const gone = await limiter.reserve("long gone");
      pass(whole(gone.delayMs) + on.place.stepMs);
      expect(await gone.cancel()).toBe(false);
    });

    it("keeps the turns of those behind a reservation that is cancelled", async () => {
      const limiter = making(1);
      await drain(limiter, "key");
      const [first, second] = [await limiter.reserve("key"), await limiter.reserve("key")];
      expect(second.delayMs).toBeGreaterThan(first.delayMs);
      await first.cancel();
      const third = await limiter.reserve("key");
      expect(third.delayMs).toBeGreaterThan(second.delayMs);
    });

    it.runIf(hasBurst && atOnce(5) > 1)("admits no more by the cancel of a reservation before another", async () => {
      const limiter = making(5);
      await drain(limiter, "key");
      const [first, second] = [await limiter.reserve("key", 4), await limiter.reserve("key", 2)];
      await first.cancel();
      pass(whole(second.delayMs));
      expect(await drain(limiter, "key")).toBeLessThanOrEqual(3);
    });

    it("gives a refund back, no more than was used, and makes a key new by a reset", async () => {
      const limiter = making(5);
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
      const limiter = making(5);
      await limiter.charge("key", 12);
      const { allowed, remaining, retryAfterMs } = await limiter.peek("key");
      expect({ allowed, remaining }).toEqual({ allowed: false, remaining: 0 });
      expect(retryAfterMs).toBeGreaterThanOrEqual(1000);
      pass(whole(retryAfterMs));
      expect(await limiter.allow("key")).toBe(true);
    });

    it("adds nothing when time goes backwards", async () => {
      const limiter = making(5);
      pass(5000);
      await drain(limiter, "key");
      pass(-100);
      expect(await limiter.allow("key")).toBe(false);
    });
  });
}

/** The waits of every limiter that has them. */
export function waits(open: () => Place<WaitingLimiter>, ofKinds: readonly Kind[]): void {
  describe.each(ofKinds)("$kind", ({ make, hasBurst }) => {
    const on = stage(open);

    it("ends waits in the order of arrival", async () => {
      const limiter = make(on.place.makers, 20);
      await drain(limiter, "key");
      const order: number[] = [];
      const waiting = [0, 1, 2, 3, 4].map((n) => limiter.wait("key").then(() => order.push(n)));
      // Where a clock of Redis is moved, the waits still sleep by this thread's own.
      for (let i = 0; i < 400 && order.length < 5; i++) {
        on.place.pass(20);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      await Promise.all(waiting);
      expect(order).toEqual([0, 1, 2, 3, 4]);
    });

    it("charges nothing for a wait that cannot be", async () => {
      const limiter = make(on.place.makers, 5);
      await drain(limiter, "key");
      const before = await limiter.peek("key");
      await expect(limiter.wait("key", 1, { signal: AbortSignal.abort(new Error("gave up")) })).rejects.toThrow(
        "gave up",
      );
      await expect(limiter.wait("key", 1, { timeoutMs: 1 })).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
      await expect(limiter.wait("key", 1, { maxWaiters: 0 })).rejects.toMatchObject({
        code: "ERR_SLUICE_TOO_MANY_WAITERS",
      });
      if (hasBurst) {
        await expect(limiter.wait("key", 11)).rejects.toMatchObject({ code: "ERR_SLUICE_COST_ABOVE_BURST" });
      }
      expect(await limiter.peek("key")).toEqual(before);
    });

    it("gives the tokens of an aborted wait back", async () => {
      const limiter = make(on.place.makers, 5);
      await drain(limiter, "key");
      const { retryAfterMs } = await limiter.peek("key");
      const abort = new AbortController();
      const waiting = limiter.wait("key", 1, { signal: abort.signal });
      await new Promise((resolve) => setTimeout(resolve, 5));
      abort.abort(new Error("gave up"));
      await expect(waiting).rejects.toThrow("gave up");
      on.place.pass(Math.ceil(retryAfterMs));
      expect(await limiter.allow("key")).toBe(true);
    });
  });
}

/** The bounds of every limiter: the largest numbers, and what no call takes. */
export function keepsBounds(open: () => Place<WaitingLimiter>, ofKinds: readonly Kind[]): void {
  describe.each(ofKinds)("$kind", ({ make }) => {
    const on = stage(open);

    it("survives the largest debt there is", async () => {
      const limiter = make(on.place.makers, 5);
      for (let i = 0; i < 3; i++) await limiter.charge("key", 2 ** 31 - 1);
      expect((await limiter.consume("key")).allowed).toBe(false);
      await limiter.reset("key");
      expect((await limiter.consume("key")).allowed).toBe(true);
    });

    it("refuses wrong arguments with the documented error, and takes nothing for them", async () => {
      const limiter = make(on.place.makers, 5);
      const rejection = async (call: () => unknown): Promise<unknown> => {
        try {
          await call();
        } catch (error) {
          return error;
        }
        return expect.fail(`no error by ${call}`);
      };
      for (const cost of [-1, 0.5, NaN, Infinity, 2 ** 31, 2 ** 53]) {
        for (const method of ["allow", "consume", "peek", "reserve", "wait", "refund", "charge"] as const) {
          const error = await rejection(() => limiter[method]("key", cost));
          expect(error).toBeInstanceOf(RangeError);
          expect((error as Error).message).toContain("\"cost\" expected an integer from 0 to 2147483647, got");
        }
      }
      expect(await rejection(() => limiter.consume("key", "1" as never))).toBeInstanceOf(TypeError);
      for (const key of [null, true, {}, [], Symbol("s"), () => 1, new Float64Array(1)]) {
        expect(await rejection(() => limiter.consume(key as never))).toBeInstanceOf(TypeError);
      }
      for (const key of [NaN, Infinity, -Infinity]) {
        expect(await rejection(() => limiter.consume(key))).toBeInstanceOf(RangeError);
      }
      for (const ms of [-1, NaN, "1"] as number[]) {
        const messageOf = async (call: () => unknown): Promise<string> => ((await rejection(call)) as Error).message;
        expect(await messageOf(() => limiter.reserve("key", 1, { maxWaitMs: ms }))).toContain("\"maxWaitMs\" expected");
        expect(await messageOf(() => limiter.wait("key", 1, { timeoutMs: ms }))).toContain("\"timeoutMs\" expected");
      }
      await expect(limiter.wait("key", 1, { signal: {} as never })).rejects.toThrow(
        "\"signal\" expected an AbortSignal",
      );
      expect((await limiter.peek("key")).resetMs).toBe(0);
    });
  });
}
