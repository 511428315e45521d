// Waiting: in order, to the nanosecond, and giving back what is no longer needed.
// Rate 10/s and a burst of 1 unless said otherwise: a token every 100 ms.

import { getEventListeners } from "node:events";
import { performance } from "node:perf_hooks";
import { type Limiter, ManualClock, Sluice } from "sluice";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
// A second copy of the library stands for another thread.
import { Sluice as OtherSluice } from "../../../src/engine/limiter/sluice.js";

function limiterOf(rate = 10, burst = 1): { clock: ManualClock; limiter: Limiter; sluice: Sluice } {
  const clock = new ManualClock();
  const sluice = Sluice.create({ capacity: 1000, clock, maxThreads: 3 });
  return { clock, sluice, limiter: sluice.tokenBucket("test", { rate, burst }) };
}

/** Runs the reactions of settled promises. */
const heard = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** How promises end, in the order in which they do. */
class Log {
  readonly entries: string[] = [];

  add(name: string | number, promise: Promise<void>): void {
    promise.then(
      () => this.entries.push(`${name}`),
      (error: unknown) => this.entries.push(`${name}: ${(error as { code?: string })?.code ?? error}`),
    );
  }

  async take(): Promise<string[]> {
    await heard();
    return this.entries.splice(0);
  }
}

const codeOf = (code: string): unknown => expect.objectContaining({ code });

describe("a wait", () => {
  it("ends at once if the tokens are there, and else when they come, not a nanosecond before", async () => {
    const { clock, limiter } = limiterOf();
    const log = new Log();
    log.add("now", limiter.wait("k"));
    expect(await log.take()).toEqual(["now"]);
    log.add("later", limiter.wait("k"));
    clock.set(99.999999);
    expect(await log.take()).toEqual([]);
    clock.set(100);
    expect(await log.take()).toEqual(["later"]);
    log.add("global", limiter.global.wait());
    log.add("handle", limiter.key("k").wait());
    clock.set(200);
    expect((await log.take()).sort()).toEqual(["global", "handle"]);
  });

  it("is in order of arrival for each key, by any call, with any costs", async () => {
    const { clock, limiter } = limiterOf(10, 3);
    limiter.allow("a", 3);
    limiter.allow("b", 3);
    const log = new Log();
    const handle = limiter.key("a");
    log.add("a1 cost 3", limiter.wait("a", 3));
    log.add("a2 cost 1", handle.wait(1));
    log.add("b1 cost 1", limiter.wait("b", 1));
    log.add("a3 cost 2", limiter.wait("a", 2));
    log.add("b2 cost 0", limiter.wait("b", 0));
    log.add("b3 cost 3", limiter.key("b").wait(3));
    const timeline: [number, string[]][] = [
      [99, []],
      [100, ["b1 cost 1", "b2 cost 0"]],
      [299, []],
      [300, ["a1 cost 3"]],
      [400, ["a2 cost 1", "b3 cost 3"]],
      [599, []],
      [600, ["a3 cost 2"]],
    ];
    for (const [atMs, expected] of timeline) {
      clock.set(atMs);
      expect(await log.take(), `at ${atMs} ms`).toEqual(expected);
    }
  });

  it("is not overtaken by a later call that does not wait", async () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k");
    const log = new Log();
    log.add("first", limiter.wait("k"));
    clock.set(99);
    expect(limiter.allow("k")).toBe(false);
    clock.set(100);
    expect(limiter.allow("k")).toBe(false);
    expect(await log.take()).toEqual(["first"]);
    clock.set(200);
    expect(limiter.allow("k")).toBe(true);
  });

  it("for many keys at a time ends in order and on time", async () => {
    const { clock, limiter } = limiterOf(1000, 1);
    const ended: [number, number, number][] = [];
    const expected: [number, number, number][] = [];
    for (let i = 0; i < 10_000; i++) {
      const key = (i * 7) % 100;
      const turn = Math.floor(i / 100);
      limiter.wait(key).then(() => ended.push([clock.nowMs, key, turn]));
      expected.push([turn, key, turn]);
    }
    expected.sort((a, b) => a[0] - b[0]);
    for (let ms = 0; ms < 100; ms++) {
      clock.set(ms);
      await heard();
    }
    expect(ended).toEqual(expected);
    expect(limiter.peek(0, 0).remaining).toBe(0);
    clock.advance(1);
    expect(limiter.allow(0)).toBe(true);
  });

  it("ends with all others that are due when the clock leaps, in order of their turns", async () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("a");
    limiter.allow("b");
    const log = new Log();
    for (let i = 1; i <= 3; i++) for (const key of ["a", "b"]) log.add(`${key}${i}`, limiter.wait(key));
    clock.set(1e9);
    expect(await log.take()).toEqual(["a1", "b1", "a2", "b2", "a3", "b3"]);
  });

  it("is granted nothing by time that goes back", async () => {
    const { clock, limiter } = limiterOf();
    clock.set(1000);
    limiter.allow("k");
    const log = new Log();
    log.add("w", limiter.wait("k"));
    for (const atMs of [0, 999, 1000, 500, 1099.999999]) {
      clock.set(atMs);
      expect(await log.take(), `at ${atMs} ms`).toEqual([]);
    }
    clock.set(1100);
    expect(await log.take()).toEqual(["w"]);
  });

  it("of 0 waits until a debt is paid", async () => {
    const { clock, limiter } = limiterOf();
    limiter.charge("k", 3);
    const log = new Log();
    log.add("w", limiter.wait("k", 0));
    clock.set(199);
    expect(await log.take()).toEqual([]);
    clock.set(200);
    expect(await log.take()).toEqual(["w"]);
    expect(limiter.peek("k", 0).remaining).toBe(0);
  });

  it("that can never succeed rejects at once and charges nothing", async () => {
    const { limiter } = limiterOf(10, 5);
    await expect(limiter.wait("k", 6)).rejects.toThrow(codeOf("ERR_SLUICE_COST_ABOVE_BURST"));
    await expect(limiter.key("k").wait(6, { timeoutMs: 0 })).rejects.toThrow(
      "never: 6 tokens of \"test\" are more than its burst of 5",
    );
    expect(limiter.peek("k", 0).remaining).toBe(5);
    limiter.setRate(0);
    await limiter.wait("k", 5);
    await expect(limiter.wait("k")).rejects.toThrow(codeOf("ERR_SLUICE_NEVER"));
    await expect(limiter.wait("k", 1, { timeoutMs: 1 })).rejects.toThrow(codeOf("ERR_SLUICE_NEVER"));
    await limiter.wait("k", 0);
  });

  it("at an infinite rate never waits", async () => {
    const { limiter } = limiterOf(Infinity, 0);
    for (let i = 0; i < 10; i++) await limiter.wait("k", 100);
  });

  it("in a full table that denies says so", async () => {
    const clock = new ManualClock();
    const sluice = Sluice.create({ capacity: 1, clock, maxThreads: 1, whenFull: "deny" });
    const limiter = sluice.tokenBucket("test", { rate: 1, burst: 2 });
    const { slots } = sluice.audit();
    for (let i = 0; i < 10 * slots; i++) limiter.allow(i);
    const ends = await Promise.allSettled(Array.from({ length: 50 }, (_, i) => limiter.wait(`new ${i}`)));
    const codes = new Set(ends.map((end) => (end.status === "rejected" ? end.reason.code : "ok")));
    expect(codes).toContain("ERR_SLUICE_TABLE_FULL");
    expect([...codes].filter((code) => code !== "ok" && code !== "ERR_SLUICE_TABLE_FULL")).toEqual([]);
  });
});

describe("an abort", () => {
  it("gives the tokens back, and rejects with the reason of the signal", async () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k");
    const log = new Log();
    const abort = new AbortController();
    log.add("w", limiter.wait("k", 1, { signal: abort.signal }));
    expect(limiter.peek("k", 0).retryAfterMs).toBe(100);
    abort.abort("enough");
    expect(await log.take()).toEqual(["w: enough"]);
    expect(limiter.peek("k", 0)).toMatchObject({ allowed: true, remaining: 0 });
    clock.set(100);
    expect(limiter.allow("k")).toBe(true);
  });

  it.each([0, 1, 2, 3, 4])(
    "of waiter %i of 5 moves the later ones up, and the tokens go to the next caller",
    async (who) => {
      const { clock, limiter } = limiterOf();
      limiter.allow("k");
      const log = new Log();
      const abort = new AbortController();
      for (let i = 0; i < 5; i++) log.add(i, limiter.wait("k", 1, { signal: i === who ? abort.signal : undefined }));
      clock.set(50);
      abort.abort("gone");
      expect(await log.take()).toEqual([`${who}: gone`]);
      expect(limiter.peek("k", 0).retryAfterMs).toBe(350);
      log.add("next", limiter.wait("k"));
      const order = [0, 1, 2, 3, 4].filter((i) => i !== who).map(String);
      for (const [i, name] of [...order, "next"].entries()) {
        clock.set(100 * (i + 1) - 0.000001);
        expect(await log.take()).toEqual([]);
        clock.set(100 * (i + 1));
        expect(await log.take()).toEqual([name]);
      }
    },
  );

  it("of several, in any order, leaves the others in order and no token lost", async () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k");
    const log = new Log();
    const aborts = Array.from({ length: 12 }, () => new AbortController());
    aborts.forEach(({ signal }, i) => log.add(i, limiter.wait("k", 1, { signal })));
    for (const i of [3, 11, 0, 7, 6, 4]) aborts[i].abort("x");
    expect((await log.take()).sort()).toEqual([0, 11, 3, 4, 6, 7].map((i) => `${i}: x`).sort());
    expect(limiter.peek("k", 0).retryAfterMs).toBe(600);
    for (const [i, who] of [1, 2, 5, 8, 9, 10].entries()) {
      clock.set(100 * (i + 1));
      expect(await log.take()).toEqual([`${who}`]);
    }
  });

  it("before waiters of another cost gives back what they have not reserved, and moves none too early", async () => {
    const { clock, limiter } = limiterOf(10, 3);
    limiter.allow("k", 3);
    const log = new Log();
    const abort = new AbortController();
    log.add("first, 2", limiter.wait("k", 2, { signal: abort.signal }));
    log.add("second, 1", limiter.wait("k", 1));
    abort.abort("gone");
    expect(await log.take()).toEqual(["first, 2: gone"]);
    expect(limiter.peek("k", 0).retryAfterMs).toBe(200);
    clock.set(299);
    expect(await log.take()).toEqual([]);
    clock.set(300);
    expect(await log.take()).toEqual(["second, 1"]);
  });

  it("before the wait rejects at once and charges nothing", async () => {
    const { limiter } = limiterOf();
    const reason = new Error("before");
    const signal = AbortSignal.abort(reason);
    await expect(limiter.wait("k", 1, { signal })).rejects.toBe(reason);
    limiter.allow("k");
    await expect(limiter.wait("k", 1, { signal })).rejects.toBe(reason);
    expect(limiter.peek("k", 0).remaining).toBe(0);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  it("after the wait changes nothing", async () => {
    const { clock, limiter } = limiterOf();
    const abort = new AbortController();
    await limiter.wait("k", 1, { signal: abort.signal });
    const log = new Log();
    log.add("w", limiter.wait("k", 1, { signal: abort.signal }));
    clock.set(100);
    expect(await log.take()).toEqual(["w"]);
    abort.abort();
    expect(limiter.peek("k", 0).remaining).toBe(0);
    expect(limiter.peek("k").retryAfterMs).toBe(100);
  });

  it("rejects with the reason given, of any type", async () => {
    const { limiter } = limiterOf();
    limiter.allow("k");
    for (const reason of [null, 0, "", new Error("x")]) {
      const abort = new AbortController();
      const wait = limiter.wait("k", 1, { signal: abort.signal });
      abort.abort(reason);
      await expect(wait).rejects.toBe(reason);
    }
    const abort = new AbortController();
    const wait = limiter.wait("k", 1, { signal: abort.signal });
    abort.abort();
    await expect(wait).rejects.toMatchObject({ name: "AbortError" });
  });

  it("leaves no listener on the signal, nor does any other end", async () => {
    const { clock, limiter } = limiterOf();
    const listeners = (signal: AbortSignal): number => getEventListeners(signal, "abort").length;
    const abort = new AbortController();
    const { signal } = abort;
    await limiter.wait("k", 1, { signal });
    await expect(limiter.wait("k", 1, { signal, timeoutMs: 1 })).rejects.toThrow(codeOf("ERR_SLUICE_TIMEOUT"));
    await expect(limiter.wait("k", 2, { signal })).rejects.toThrow(codeOf("ERR_SLUICE_COST_ABOVE_BURST"));
    await expect(limiter.wait("k", 1, { signal, maxWaiters: 0 })).rejects.toThrow(
      codeOf("ERR_SLUICE_TOO_MANY_WAITERS"),
    );
    expect(listeners(signal)).toBe(0);
    const log = new Log();
    for (let i = 0; i < 5; i++) log.add(i, limiter.wait("k", 1, { signal }));
    expect(listeners(signal)).toBe(5);
    clock.set(200);
    expect(await log.take()).toEqual(["0", "1"]);
    expect(listeners(signal)).toBe(3);
    abort.abort("x");
    expect((await log.take()).length).toBe(3);
    expect(listeners(signal)).toBe(0);
    expect(limiter.peek("k", 0)).toMatchObject({ allowed: true, remaining: 0 });
  });
});

describe("a deadline", () => {
  it("that cannot be met rejects at once and charges nothing; one that can is kept", async () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k");
    for (const timeoutMs of [0, 50, 99.999999]) {
      await expect(limiter.wait("k", 1, { timeoutMs })).rejects.toThrow(codeOf("ERR_SLUICE_TIMEOUT"));
      await expect(limiter.wait("k", 1, { timeoutMs })).rejects.toThrow(
        `timed out: 1 token of "test" is 100 ms away, timeoutMs is ${timeoutMs}`,
      );
    }
    const log = new Log();
    log.add("w", limiter.wait("k", 1, { timeoutMs: 100 }));
    await expect(limiter.wait("k", 1, { timeoutMs: 199 })).rejects.toThrow(codeOf("ERR_SLUICE_TIMEOUT"));
    log.add("v", limiter.wait("k", 1, { timeoutMs: Infinity }));
    clock.set(100);
    expect(await log.take()).toEqual(["w"]);
    clock.set(200);
    expect(await log.take()).toEqual(["v"]);
    clock.set(300);
    await limiter.wait("k", 1, { timeoutMs: 0 });
  });

  it("that passes because the rate was lowered rejects then, and gives the tokens back", async () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k");
    const log = new Log();
    log.add("short", limiter.wait("k", 1, { timeoutMs: 150 }));
    log.add("long", limiter.wait("k", 1, { timeoutMs: 5000 }));
    limiter.setRate(1);
    clock.set(149);
    expect(await log.take()).toEqual([]);
    clock.set(150);
    expect(await log.take()).toEqual(["short: ERR_SLUICE_TIMEOUT"]);
    // The second one moved up to the turn of the first.
    clock.set(999);
    expect(await log.take()).toEqual([]);
    clock.set(1000);
    expect(await log.take()).toEqual(["long"]);
    expect(limiter.peek("k").retryAfterMs).toBeCloseTo(1000, 3);
  });

  it("that passes at rate 0 rejects then", async () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k");
    const log = new Log();
    log.add("w", limiter.wait("k", 1, { timeoutMs: 200 }));
    limiter.setRate(0);
    clock.set(200);
    expect(await log.take()).toEqual(["w: ERR_SLUICE_TIMEOUT"]);
    limiter.setRate(10);
    expect(limiter.peek("k").retryAfterMs).toBe(100);
  });
});

describe("a new rate", () => {
  it("that is higher ends waits earlier, one that is lower later", async () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k");
    const log = new Log();
    log.add("a", limiter.wait("k"));
    log.add("b", limiter.wait("k"));
    clock.set(50);
    limiter.setRate(50);
    clock.set(59);
    expect(await log.take()).toEqual([]);
    clock.set(60);
    expect(await log.take()).toEqual(["a"]);
    limiter.setRate(1);
    clock.set(1059);
    expect(await log.take()).toEqual([]);
    clock.set(1060);
    expect(await log.take()).toEqual(["b"]);
  });

  it("ends waits that it makes due at once", async () => {
    const { clock, limiter } = limiterOf(0.001, 1);
    limiter.allow("k");
    const log = new Log();
    log.add("w", limiter.wait("k"));
    clock.set(999_999);
    limiter.setRate(Infinity);
    expect(await log.take()).toEqual(["w"]);
  });

  it("of 0 keeps waits waiting until it is raised again", async () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k");
    const log = new Log();
    log.add("w", limiter.wait("k"));
    limiter.setRate(0);
    clock.set(1e9);
    expect(await log.take()).toEqual([]);
    limiter.setRate(10);
    clock.advance(99);
    expect(await log.take()).toEqual([]);
    clock.advance(1);
    expect(await log.take()).toEqual(["w"]);
  });

  it.each([1, 2, 3, 4, 5, 6, 7, 8, 9])(
    "in %i other scales, one after the other, moves each turn by the right amount",
    async (changes) => {
      for (const [rate, other] of [[1, 1000], [1000, 1]]) {
        const { clock, limiter } = limiterOf(rate, 1);
        limiter.allow("k");
        limiter.reserve("k");
        for (let i = 0; i < 49; i++) limiter.reserve("k");
        const log = new Log();
        log.add("w", limiter.wait("k"));
        let now = rate;
        for (let i = 0; i < changes; i++) limiter.setRate(now = now === rate ? other : rate);
        const dueMs = (51 / now) * 1000;
        clock.set(dueMs - 1);
        expect(await log.take(), `${rate} to ${now}`).toEqual([]);
        clock.set(dueMs + 1);
        expect(await log.take(), `${rate} to ${now}`).toEqual(["w"]);
      }
    },
  );

  it("a new burst moves no turn", async () => {
    const { clock, limiter } = limiterOf(10, 2);
    limiter.allow("k", 2);
    const log = new Log();
    log.add("w", limiter.wait("k", 2));
    limiter.setBurst(100);
    limiter.setBurst(1);
    clock.set(199);
    expect(await log.take()).toEqual([]);
    clock.set(200);
    expect(await log.take()).toEqual(["w"]);
  });
});

describe("maxWaiters", () => {
  it("rejects at once a waiter too many for this key, and no call that need not wait", async () => {
    const { clock, limiter } = limiterOf();
    await limiter.wait("k", 1, { maxWaiters: 0 });
    await expect(limiter.wait("k", 1, { maxWaiters: 0 })).rejects.toThrow(codeOf("ERR_SLUICE_TOO_MANY_WAITERS"));
    const log = new Log();
    log.add("a", limiter.wait("k", 1, { maxWaiters: 2 }));
    log.add("b", limiter.key("k").wait(1, { maxWaiters: 2 }));
    log.add("c", limiter.wait("k", 1, { maxWaiters: 2 }));
    expect(await log.take()).toEqual(["c: ERR_SLUICE_TOO_MANY_WAITERS"]);
    expect(limiter.peek("k", 0).retryAfterMs).toBe(200);
    await limiter.wait("another", 1, { maxWaiters: 1 });
    await limiter.global.wait(1, { maxWaiters: 1 });
    clock.set(100);
    expect(await log.take()).toEqual(["a"]);
    log.add("d", limiter.wait("k", 1, { maxWaiters: 2 }));
    log.add("e", limiter.wait("k", 1, { maxWaiters: Infinity }));
    clock.set(400);
    expect(await log.take()).toEqual(["b", "d", "e"]);
  });
});

describe("the timers of waits", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  /** A table with a precise clock whose time, like all timers, is moved by hand. */
  function precise(rate: number, burst = 1): { limiter: Limiter; sluice: Sluice; delays: () => number[] } {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"], now: 0 });
    vi.spyOn(performance, "now").mockImplementation(() => Date.now());
    vi.spyOn(process.hrtime, "bigint").mockImplementation(() => BigInt(Date.now()) * 1_000_000n);
    const sluice = Sluice.create({ capacity: 100, maxThreads: 2 });
    const spy = vi.spyOn(globalThis, "setTimeout");
    onTestFinished(() => sluice.close());
    return {
      sluice,
      limiter: sluice.tokenBucket("test", { rate, burst }),
      delays: () => spy.mock.calls.map(([, ms]) => ms!),
    };
  }

  it("stand still with the clock", () => {
    precise(1);
    const before = performance.now();
    vi.advanceTimersByTime(1234);
    expect(performance.now() - before).toBe(1234);
  });

  it("are one for each limiter, however many wait", async () => {
    const { limiter } = precise(10);
    expect(vi.getTimerCount()).toBe(0);
    let ended = 0;
    for (let i = 0; i < 100; i++) void limiter.wait(i % 10).then(() => ended++);
    expect(vi.getTimerCount()).toBe(1);
    for (let i = 0; i < 5; i++) {
      await vi.advanceTimersByTimeAsync(100);
      expect(vi.getTimerCount()).toBe(1);
    }
    expect(ended).toBe(60);
    await vi.advanceTimersByTimeAsync(401);
    expect(ended).toBe(100);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("are one for each limiter, however often the rate changes", async () => {
    const { limiter } = precise(0.001);
    limiter.allow("k");
    const log = new Log();
    log.add("w", limiter.wait("k"));
    for (let i = 1; i <= 20; i++) {
      limiter.setRate(0.001 + i / 1e6);
      expect(vi.getTimerCount()).toBe(1);
    }
    await vi.advanceTimersByTimeAsync(10_000);
    expect(vi.getTimerCount()).toBe(1);
    limiter.setRate(Infinity);
    await vi.advanceTimersByTimeAsync(0);
    expect(log.entries).toEqual(["w"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("go with the last waiter, aborted or not", async () => {
    const { limiter } = precise(0.001);
    limiter.allow("k");
    const abort = new AbortController();
    const waits = [1, 2, 3].map(() => limiter.wait("k", 1, { signal: abort.signal }));
    expect(vi.getTimerCount()).toBe(1);
    abort.abort("x");
    expect(await Promise.allSettled(waits)).toEqual(waits.map(() => ({ status: "rejected", reason: "x" })));
    expect(vi.getTimerCount()).toBe(0);
  });

  it("are never set beyond 2^31 - 1 ms, which Node would take as 1 ms", async () => {
    const { limiter, delays } = precise(1 / 86_400, 100);
    limiter.allow("k", 100);
    const log = new Log();
    log.add("w", limiter.wait("k", 100));
    await vi.advanceTimersByTimeAsync(5000);
    expect(log.entries).toEqual([]);
    expect(delays().length).toBeGreaterThan(0);
    for (const ms of delays()) expect(ms >= 0 && ms <= 2 ** 31 - 1).toBe(true);
    expect(delays().length).toBeLessThan(100);
  });

  it("end a wait within a millisecond or two of its time, and not before", async () => {
    for (const rate of [7, 10, 333, 0.7]) {
      const { limiter } = precise(rate);
      limiter.allow("k");
      const begin = performance.now();
      let endMs: number | undefined;
      void limiter.wait("k").then(() => (endMs = performance.now() - begin));
      await vi.advanceTimersByTimeAsync(1000 / rate + 3);
      expect(endMs).toBeGreaterThanOrEqual(Math.floor(1000 / rate));
      expect(endMs).toBeLessThanOrEqual(1000 / rate + 2);
      vi.restoreAllMocks();
      vi.useRealTimers();
    }
  });

  it("notice within about a second that another thread changed the rate", async () => {
    const { limiter, sluice } = precise(0.001);
    const other = OtherSluice.attach(sluice.handle);
    limiter.allow("k");
    const log = new Log();
    log.add("w", limiter.wait("k"));
    await vi.advanceTimersByTimeAsync(3000);
    expect(log.entries).toEqual([]);
    other.limiter("test").setRate(1000);
    await vi.advanceTimersByTimeAsync(1100);
    expect(log.entries).toEqual(["w"]);
    other.close();
  });

  it("notice it too if the other thread had set the rate to 0 in between", async () => {
    const { limiter, sluice } = precise(10);
    const other = OtherSluice.attach(sluice.handle);
    limiter.allow("k");
    const log = new Log();
    log.add("w", limiter.wait("k"));
    other.limiter("test").setRate(0);
    await vi.advanceTimersByTimeAsync(3000);
    expect(log.entries).toEqual([]);
    other.limiter("test").setRate(1000);
    await vi.advanceTimersByTimeAsync(1100);
    expect(log.entries).toEqual(["w"]);
    other.close();
  });
});
