// Every method of the Guava face, on a clock moved by hand. What Guava itself
// answers, recorded call by call, is replayed in test/conformance; blocking waits
// are in test/threads.
//
// 5 permits per second, unless said otherwise: one every 200 ms, the first at once.

import type { ManualClock, Sluice } from "sluice";
import { RateLimiter, type RateLimiterOptions } from "sluice/guava";
import { describe, expect, it } from "vitest";
import { create } from "../tables.js";

function limiterOf(
  permitsPerSecond = 5,
  options: RateLimiterOptions = {},
): { clock: ManualClock; sluice: Sluice; limiter: RateLimiter } {
  const { sluice, clock } = create(0);
  const limiter = RateLimiter.create(permitsPerSecond, { ...options, home: { sluice, name: "guava" } });
  return { clock, sluice, limiter };
}

/** Runs the reactions of settled promises. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** When a promise ended, ms on the clock, and its value; undefined while it lasts. */
function endOf<Value>(promise: Promise<Value>, clock: ManualClock): { at?: number; value?: Value } {
  const end: { at?: number; value?: Value } = {};
  promise.then((value) => Object.assign(end, { at: clock.nowMs, value }), () => {});
  return end;
}

/** Moves the clock to each of these times. */
async function pass(clock: ManualClock, ...times: number[]): Promise<void> {
  for (const ms of times) {
    clock.set(ms);
    await settled();
  }
}

describe("create and getRate", () => {
  it("make a limiter of that rate, of one's own or shared under a name", () => {
    const { limiter, sluice } = limiterOf();
    expect(limiter.getRate()).toBe(5);
    const same = RateLimiter.create(5, { home: { sluice, name: "guava" } });
    expect(same.reserve(2)).toBe(0);
    expect(limiter.reserve()).toBe(400);
    expect(() => RateLimiter.create(6, { home: { sluice, name: "guava" } })).toThrow(
      expect.objectContaining({ code: "ERR_SLUICE_POLICY_EXISTS", limiter: "guava" }),
    );
    const [one, other] = [RateLimiter.create(1), RateLimiter.create(1)];
    expect([one.tryAcquireSync(), one.tryAcquireSync(), other.tryAcquireSync()]).toEqual([true, false, true]);
  });

  it("make one that warms up: cold at first, three times slower unless said otherwise", () => {
    const { sluice } = create(0);
    const home = { sluice, name: "warm" };
    expect([RateLimiter.create(1, { warmupMs: 4000, home }).reserve(2), RateLimiter.create(1, 4000).getRate()])
      .toEqual([0, 1]);
    // Of four stored permits, the first two cost 2.5 and 1.5 seconds.
    expect(RateLimiter.create(1, { warmupMs: 4000, home }).reserve()).toBe(4000);
    const slower = RateLimiter.create(1, { warmupMs: 4000, coldFactor: 1, home: { sluice, name: "even" } });
    expect([slower.reserve(2), slower.reserve()]).toEqual([0, 2000]);
  });

  it.each<[string, () => unknown, string]>([
    ["rate of 0", () => RateLimiter.create(0), "\"permitsPerSecond\" expected a number > 0, got 0"],
    ["rate below 0", () => RateLimiter.create(-1), "\"permitsPerSecond\" expected tokens per second"],
    ["warm-up", () => RateLimiter.create(1, -1), "\"warmupMs\" expected a number of milliseconds"],
    ["cold factor", () => RateLimiter.create(1, { warmupMs: 1, coldFactor: 0.5 }), "\"coldFactor\" expected a number"],
    ["cold factor alone", () => RateLimiter.create(1, { coldFactor: 2 }), "\"coldFactor\" expected a warmupMs besides"],
    ["new rate", () => RateLimiter.create(1).setRate(0), "\"permitsPerSecond\" expected a number > 0, got 0"],
    ["number of permits", () => RateLimiter.create(1).acquireSync(0), "\"permits\" expected an integer from 1"],
    ["timeout", () => RateLimiter.create(1).tryAcquireSync(1, -1), "\"timeoutMs\" expected a number of milliseconds"],
    ["longest wait", () => RateLimiter.create(1).reserve(1, NaN), "\"maxWaitMs\" expected a number of milliseconds"],
  ])("refuse a wrong %s", (_, call, message) => {
    expect(call).toThrow(message);
  });
});

describe("acquire", () => {
  it("never waits for its own permits: the next caller pays, in order", async () => {
    const { limiter, clock } = limiterOf();
    expect(await limiter.acquire(3)).toBe(0);
    const next = endOf(limiter.acquire(), clock);
    const last = endOf(limiter.acquire(2), clock);
    await pass(clock, 599, 600, 799, 800);
    expect([next, last]).toEqual([{ at: 600, value: 0.6 }, { at: 800, value: 0.8 }]);
  });

  it("takes what one second of idling has stored", async () => {
    const { limiter, clock } = limiterOf();
    clock.set(10_000);
    expect(await limiter.acquire(5)).toBe(0);
    expect(await limiter.acquire()).toBe(0);
    expect(limiter.reserve()).toBe(200);
  });

  it("rejects with the signal's reason, and the permits go back", async () => {
    const { limiter, clock } = limiterOf();
    await limiter.acquire();
    const abort = new AbortController();
    const reason = new Error("gave up");
    const aborted = limiter.acquire(4, { signal: abort.signal });
    abort.abort(reason);
    await expect(aborted).rejects.toBe(reason);
    await expect(limiter.acquire(1, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    await expect(limiter.acquire(1, { signal: {} as AbortSignal })).rejects.toThrow(
      "\"signal\" expected an AbortSignal",
    );
    clock.set(200);
    expect(limiter.reserve()).toBe(0);
  });

  it("rejects for wrong permits", async () => {
    await expect(limiterOf().limiter.acquire(0.5)).rejects.toThrow("\"permits\" expected an integer from 1");
  });
});

describe("tryAcquire", () => {
  it("takes permits that come within the timeout, and waits for them", async () => {
    const { limiter, clock } = limiterOf();
    expect(await limiter.tryAcquire()).toBe(true);
    expect(await limiter.tryAcquire()).toBe(false);
    expect(await limiter.tryAcquire(1, 199)).toBe(false);
    const inTime = endOf(limiter.tryAcquire(2, 200), clock);
    await pass(clock, 199, 200);
    expect(inTime).toEqual({ at: 200, value: true });
    expect(limiter.reserve()).toBe(400);
  });

  it("rejects with the signal's reason, and the permits go back", async () => {
    const { limiter, clock } = limiterOf();
    await limiter.tryAcquire();
    const abort = new AbortController();
    const reason = new Error("gave up");
    const aborted = limiter.tryAcquire(3, 1000, { signal: abort.signal });
    abort.abort(reason);
    await expect(aborted).rejects.toBe(reason);
    await expect(limiter.tryAcquire(1, 0, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    clock.set(200);
    expect(limiter.reserve()).toBe(0);
  });
});

describe("acquireSync and tryAcquireSync", () => {
  it("take permits that are there, in the main thread too", () => {
    const { limiter, clock } = limiterOf();
    expect(limiter.acquireSync(2)).toBe(0);
    expect([limiter.tryAcquireSync(), limiter.tryAcquireSync(1, 399)]).toEqual([false, false]);
    clock.set(400);
    expect(limiter.tryAcquireSync()).toBe(true);
  });

  it("do not block the main thread, and give the permits back", () => {
    const { limiter, clock } = limiterOf();
    expect(limiter.acquireSync()).toBe(0);
    for (const blocks of [() => limiter.acquireSync(3), () => limiter.tryAcquireSync(3, 1000)]) {
      expect(blocks).toThrow(
        expect.objectContaining({ code: "ERR_SLUICE_MAIN_THREAD", limiter: "guava", cost: 3 }),
      );
    }
    clock.set(200);
    expect(limiter.reserve()).toBe(0);
  });
});

describe("reserve", () => {
  it("returns the ms to wait, or undefined if that is too long, and takes nothing then", () => {
    const { limiter } = limiterOf();
    expect(limiter.reserve(4)).toBe(0);
    expect(limiter.reserve(1, 799)).toBeUndefined();
    expect([limiter.reserve(1, 800), limiter.reserve()]).toEqual([800, 1000]);
  });

  it("says that so much can never be owed", () => {
    const { limiter } = limiterOf(1e-9);
    expect(limiter.reserve()).toBe(0);
    expect(() => {
      for (let i = 0; i < 100; i++) limiter.reserve(2 ** 31 - 1);
    }).toThrow(expect.objectContaining({ code: "ERR_SLUICE_NEVER", limiter: "guava", cost: 2 ** 31 - 1 }));
  });
});

describe("setRate", () => {
  it("changes stored permits in proportion, and future ones", () => {
    const { limiter, clock } = limiterOf();
    clock.set(600);
    limiter.setRate(10);
    expect(limiter.getRate()).toBe(10);
    // Three of five were stored: six of ten, and one on credit.
    expect([limiter.reserve(7), limiter.reserve()]).toEqual([0, 100]);
  });

  it("leaves what is owed its time, and lets waiting calls sleep on", async () => {
    const { limiter, clock } = limiterOf();
    await limiter.acquire(5);
    const waiting = endOf(limiter.acquire(), clock);
    limiter.setRate(50);
    expect(limiter.reserve()).toBe(1200);
    await pass(clock, 100, 999, 1000);
    expect(waiting).toEqual({ at: 1000, value: 1 });
  });

  it("may be infinite, and back again is full", () => {
    const { limiter } = limiterOf(Infinity);
    expect([limiter.reserve(1_000_000), limiter.reserve()]).toEqual([0, 0]);
    limiter.setRate(5);
    expect([limiter.reserve(6), limiter.reserve()]).toEqual([0, 200]);
    limiter.setRate(Infinity);
    expect([limiter.getRate(), limiter.reserve(1_000_000)]).toEqual([Infinity, 0]);
  });

  it("changes a limiter that warms up, which keeps its temperature", async () => {
    const { limiter, clock } = limiterOf(1, { warmupMs: 4000 });
    expect(limiter.reserve()).toBe(0);
    const waiting = endOf(limiter.acquire(), clock);
    limiter.setRate(2);
    expect(limiter.getRate()).toBe(2);
    await pass(clock, 2499, 2500);
    expect(waiting).toMatchObject({ at: 2500, value: 2.5 });
  });
});
