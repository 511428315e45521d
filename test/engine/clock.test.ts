// Clocks: the manual one moves when it is set, the precise one with monotonic
// time only.

import { performance } from "node:perf_hooks";
import { type Limiter, ManualClock, Sluice } from "sluice";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ClockCell } from "../../src/engine/clock-cell.js";
import { Clock, monotonicNs } from "../../src/engine/clock.js";

describe("a manual clock", () => {
  it("stands still until it is moved", () => {
    expect(new ManualClock().nowMs).toBe(0);
    const clock = new ManualClock(12.5);
    expect(clock.nowMs).toBe(12.5);
    clock.advance(1.25);
    expect(clock.nowMs).toBe(13.75);
    clock.advance(0);
    expect(clock.nowMs).toBe(13.75);
    clock.set(3);
    expect(clock.nowMs).toBe(3);
    clock.set(0);
    expect(clock.nowMs).toBe(0);
  });

  it("distinguishes nanoseconds", () => {
    const clock = new ManualClock();
    const limiter = Sluice.create({ capacity: 10, clock, maxThreads: 1 }).tokenBucket("test", { rate: 1e9, burst: 1 });
    for (let ns = 0; ns < 100; ns++) {
      clock.set(ns / 1e6);
      expect(limiter.allow("k"), `${ns} ns`).toBe(true);
      expect(limiter.allow("k"), `${ns} ns`).toBe(false);
    }
  });

  it.each([0, 1, 1e6, 86_400_000 * 365, 1e12])("may start at %d ms, and time passes from there", (startMs) => {
    const clock = new ManualClock(startMs);
    const limiter = Sluice.create({ capacity: 10, clock, maxThreads: 1 }).tokenBucket("test", { rate: 10, burst: 1 });
    expect(limiter.allow("k")).toBe(true);
    clock.advance(99);
    expect(limiter.allow("k")).toBe(false);
    clock.advance(1);
    expect(limiter.allow("k")).toBe(true);
  });

  it("drives several tables, except those that were closed", () => {
    const clock = new ManualClock();
    const sluices = [1, 2, 3].map(() => Sluice.create({ capacity: 10, clock, maxThreads: 1 }));
    const limiters = sluices.map((sluice) => sluice.tokenBucket("test", { rate: 10, burst: 1 }));
    for (const limiter of limiters) expect([limiter.allow("k"), limiter.allow("k")]).toEqual([true, false]);
    sluices[1].close();
    clock.set(100);
    expect(limiters[0].allow("k")).toBe(true);
    expect(limiters[2].allow("k")).toBe(true);
  });

  /** Every call that could grant something, on an empty bucket. */
  const calls: Record<string, (limiter: Limiter) => boolean> = {
    allow: (limiter) => limiter.allow("k"),
    "allow of a handle": (limiter) => limiter.key("k").allow(),
    consume: (limiter) => limiter.consume("k").allowed,
    peek: (limiter) => limiter.peek("k").allowed,
    allowMany: (limiter) => limiter.allowMany(["k"])[0] === 1,
    reserve: (limiter) => limiter.reserve("k", 1, { maxWaitMs: 0 }).granted,
  };

  it.each(Object.entries(calls))("that goes back grants nothing: %s", (_, call) => {
    for (const backMs of [0, 1, 4999, 5000, 9999.999999]) {
      const clock = new ManualClock(5000);
      const limiter = Sluice.create({ capacity: 10, clock, maxThreads: 1 }).tokenBucket("test", { rate: 10, burst: 3 });
      clock.set(10_000);
      expect(limiter.allow("k", 3)).toBe(true);
      clock.set(backMs);
      expect(call(limiter), `at ${backMs} ms`).toBe(false);
      limiter.setRate(10);
      limiter.setBurst(3);
      expect(call(limiter), `at ${backMs} ms, set anew`).toBe(false);
      clock.set(10_000);
      expect(call(limiter), `at ${backMs} ms and forth`).toBe(false);
      clock.set(10_100);
      expect(call(limiter), `at ${backMs} ms and on`).toBe(true);
    }
  });

  it("that goes back and forth thousands of times grants the same as one that only goes forward", () => {
    const clock = new ManualClock();
    const limiter = Sluice.create({ capacity: 10, clock, maxThreads: 1 }).tokenBucket("test", { rate: 1000, burst: 5 });
    let admitted = 0;
    let latestMs = 0;
    for (let i = 0; i < 5000; i++) {
      // A step on, two leaps back.
      const ms = Math.max(0, Math.floor(i / 3) - (i % 3) * ((i * 7919) % 500));
      clock.set(ms);
      latestMs = Math.max(latestMs, ms);
      while (limiter.allow("k")) admitted++;
      expect(admitted).toBeLessThanOrEqual(5 + latestMs);
    }
    expect(admitted).toBe(5 + latestMs);
  });

  it("means the same to every call, at any time", () => {
    for (const ms of [1e10, 9e11, 2e12, 9.3e12, 1e13, 1e15, 1e100, 1e300, Number.MAX_VALUE]) {
      for (const [name, call] of Object.entries(calls)) {
        const clock = new ManualClock();
        const limiter = Sluice.create({ capacity: 10, clock, maxThreads: 1 }).tokenBucket("test", {
          rate: 10,
          burst: 3,
        });
        limiter.allow("k", 3);
        clock.set(ms);
        expect(clock.nowMs).toBe(ms);
        expect(call(limiter), `${name} at ${ms} ms`).toBe(true);
        clock.set(0);
        expect(call(limiter), `${name} at ${ms} ms and back`).toBe(false);
      }
    }
  });

  it("lets a limiter be made and changed at any time", () => {
    for (const ms of [1e12, 9.3e12, 1e15, 1e300, Number.MAX_VALUE]) {
      const clock = new ManualClock(ms);
      const limiter = Sluice.create({ capacity: 10, clock, maxThreads: 1 }).tokenBucket("test", { rate: 10, burst: 3 });
      expect(limiter.allow("k", 3), `${ms} ms`).toBe(true);
      expect(limiter.allow("k"), `${ms} ms`).toBe(false);
      limiter.setRate(20);
      limiter.setBurst(5);
      expect(limiter.allow("k"), `${ms} ms`).toBe(false);
    }
  });
});

describe("the precise clock", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  it.each([-3_600_000, 3_600_000, -1e12, 1e12])("ignores a wall clock that is moved by %d ms", (by) => {
    const limiter = Sluice.create({ capacity: 10, maxThreads: 1 }).tokenBucket("test", { rate: 1 / 86_400, burst: 2 });
    expect(limiter.allow("k", 2)).toBe(true);
    const before = limiter.peek("k").retryAfterMs;
    const now = Date.now();
    vi.spyOn(Date, "now").mockImplementation(() => now + by);
    expect(limiter.allow("k")).toBe(false);
    vi.useFakeTimers({ toFake: ["Date"], now: now + by });
    expect(Date.now()).toBe(now + by);
    expect(limiter.allow("k")).toBe(false);
    expect(limiter.key("k").allow()).toBe(false);
    const { retryAfterMs } = limiter.peek("k");
    expect(retryAfterMs).toBeLessThanOrEqual(before);
    expect(retryAfterMs).toBeGreaterThan(before - 60_000);
    limiter.setRate(1 / 43_200);
    expect(limiter.allow("k")).toBe(false);
    // A table made meanwhile counts the same.
    const other = Sluice.create({ capacity: 10, maxThreads: 1 }).tokenBucket("test", { rate: 1 / 86_400, burst: 1 });
    expect([other.allow("k"), other.allow("k")]).toEqual([true, false]);
  });

  it("counts the time that passes on the monotonic clock", () => {
    let nowMs = 1000;
    vi.spyOn(performance, "now").mockImplementation(() => nowMs);
    vi.spyOn(process.hrtime, "bigint").mockImplementation(() => BigInt(Math.round(nowMs * 1e6)) + 123_456_789n);
    const limiter = Sluice.create({ capacity: 10, maxThreads: 1 }).tokenBucket("test", { rate: 10, burst: 1 });
    expect(limiter.allow("k")).toBe(true);
    nowMs += 99.9;
    expect(limiter.allow("k")).toBe(false);
    nowMs += 0.1001;
    expect(limiter.allow("k")).toBe(true);
    nowMs -= 500;
    expect(limiter.allow("k")).toBe(false);
    nowMs += 600;
    expect(limiter.allow("k")).toBe(true);
  });

  it("reads the same in every attached thread, to some microseconds, and does not go back", () => {
    const cell = new ClockCell(new SharedArrayBuffer(16), 0, 8);
    const epochNs = monotonicNs();
    const [a, b] = [new Clock("precise", epochNs, cell), new Clock("precise", epochNs, cell)];
    for (let i = 0; i < 1000; i++) {
      const before = a.now();
      const between = b.now();
      const after = a.now();
      expect(between).toBeGreaterThan(before - 0.02);
      expect(between).toBeLessThan(after + 0.02);
      expect(after).toBeGreaterThanOrEqual(before);
      expect(a.mark()).toBeGreaterThanOrEqual(after);
    }
  });
});
