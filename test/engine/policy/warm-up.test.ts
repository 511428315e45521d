/**
 * Warm-up against Guava's own algorithm in doubles, written as Guava writes it:
 * stored permits and a next free time.
 */
import fc from "fast-check";
import { RateLimiter } from "sluice/guava";
import { describe, expect, it } from "vitest";
import { toNs } from "../../models/window-models.js";
import { announceSeed } from "../../seed.js";
import { create, open } from "../../tables.js";

/** Guava's SmoothWarmingUp (31.1), in ns and doubles, with a zero warm-up that stores nothing. */
class ModelWarmUp {
  private stored = 0;
  private most = 0;
  private threshold = 0;
  private slope = 0;
  private stable = 0;
  private nextFree: number;
  private isNew = true;

  constructor(rate: number, private readonly warmupNs: number, private readonly coldFactor: number, nowNs: number) {
    this.nextFree = nowNs;
    this.setRate(nowNs, rate);
  }

  setRate(nowNs: number, rate: number): void {
    this.resync(nowNs);
    const before = this.most;
    this.stable = 1e9 / rate;
    const cold = this.stable * this.coldFactor;
    this.threshold = (0.5 * this.warmupNs) / this.stable;
    this.most = this.threshold + (2 * this.warmupNs) / (this.stable + cold);
    this.slope = this.most > this.threshold ? (cold - this.stable) / (this.most - this.threshold) : 0;
    this.stored = this.isNew || before === 0 ? this.most : (this.stored * this.most) / before;
    this.isNew = false;
  }

  /** How long this caller waits, ns. */
  reserve(nowNs: number, permits: number): number {
    this.resync(nowNs);
    const delay = Math.max(0, this.nextFree - nowNs);
    const spent = Math.min(permits, this.stored);
    this.nextFree += this.timeFor(spent) + (permits - spent) * this.stable;
    this.stored -= spent;
    return delay;
  }

  waitNs(nowNs: number): number {
    return Math.max(0, this.nextFree - nowNs);
  }

  private resync(nowNs: number): void {
    if (nowNs <= this.nextFree) return;
    if (this.most > 0) {
      this.stored = Math.min(this.most, this.stored + ((nowNs - this.nextFree) / this.warmupNs) * this.most);
    }
    this.nextFree = nowNs;
  }

  private timeFor(permits: number): number {
    const above = this.stored - this.threshold;
    let time = 0;
    if (above > 0) {
      const taken = Math.min(above, permits);
      const interval = (p: number): number => this.stable + p * this.slope;
      time = (taken * (interval(above) + interval(above - taken))) / 2;
      permits -= taken;
    }
    return time + this.stable * permits;
  }
}

/**
 * Two computations in doubles, each of some twenty operations a step, may
 * differ by as many parts in 2^53 of the largest time, which is 2^46 ns here
 * (20 h): below half a ns over some dozens of steps. A wait is rounded up to a ns.
 */
const ROUNDING_NS = 1.5;

type Step = { do: "reserve" | "allow"; cost: number } | { do: "pass"; share: number } | { do: "rate"; rate: number };
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom("reserve" as const, "allow" as const),
      cost: fc.integer({ min: 1, max: 20 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pass" as const), share: fc.integer({ min: 0, max: 1500 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("rate" as const), rate: fc.integer({ min: 1, max: 1000 }) }) },
);
const shapes = fc.record({
  rate: fc.integer({ min: 1, max: 1000 }),
  warmupMs: fc.constantFrom(1, 500, 4000, 60_000),
  coldFactor: fc.constantFrom(1, 1.5, 3, 10),
});

/** First difference between `warmUp` per key and the model. */
function difference(
  { rate, warmupMs, coldFactor }: { rate: number; warmupMs: number; coldFactor: number },
  steps: readonly Step[],
  modelFactor = coldFactor,
): string | undefined {
  const { sluice, clock } = create();
  const limiter = sluice.warmUp("warm", { rate, warmupMs, coldFactor });
  // A key is cold when it is first seen, at any time.
  const model = new ModelWarmUp(rate, warmupMs * 1e6, modelFactor, toNs(clock.nowMs));
  for (const [i, each] of steps.entries()) {
    const nowNs = toNs(clock.nowMs);
    const at = `step ${i} ${JSON.stringify(each)}: `;
    if (each.do === "pass") {
      clock.set((nowNs + Math.round((each.share / 1000) * warmupMs * 1e6)) / 1e6);
    } else if (each.do === "rate") {
      limiter.setRate(each.rate);
      model.setRate(nowNs, each.rate);
    } else if (each.do === "reserve") {
      const delayNs = limiter.reserve("key", each.cost).delayMs * 1e6;
      const wanted = model.reserve(nowNs, each.cost);
      if (!(Math.abs(delayNs - wanted) <= ROUNDING_NS)) return `${at}delay ${delayNs}, the model ${wanted}`;
    } else {
      const wanted = model.waitNs(nowNs);
      const { allowed, retryAfterMs } = limiter.consume("key", each.cost);
      if (Math.abs(retryAfterMs * 1e6 - wanted) > ROUNDING_NS) {
        return `${at}retry after ${retryAfterMs * 1e6}, the model ${wanted}`;
      }
      if (allowed !== (wanted === 0) && wanted > ROUNDING_NS) {
        return `${at}allowed ${allowed}, the model after ${wanted}`;
      }
      if (allowed) model.reserve(nowNs, each.cost);
    }
  }
  sluice.close();
  open.pop();
  return undefined;
}

describe("warm-up", () => {
  it("charges what Guava's algorithm charges, at every temperature and through changes of rate", () => {
    const seed = announceSeed("warm-up");
    fc.assert(
      fc.property(shapes, fc.array(step, { maxLength: 50 }), (shape, steps) => {
        expect(difference(shape, steps)).toBeUndefined();
      }),
      { seed, numRuns: 300 },
    );
  });

  it("is distinguished from another cold factor and from a rate that was not set", () => {
    const shape = { rate: 10, warmupMs: 1000, coldFactor: 3 };
    const take: Step[] = [{ do: "reserve", cost: 1 }, { do: "reserve", cost: 1 }];
    expect(difference(shape, take)).toBeUndefined();
    expect(difference(shape, take, 2.9)).toMatch("step 1");
    expect(difference(shape, [...take, { do: "pass", share: 1 }, { do: "reserve", cost: 1 }], 3 + 1e-6)).toMatch(
      "step 1",
    );
  });

  it("equals Guava's face for many keys at many times, each key cold when first seen", () => {
    const { sluice, clock } = create();
    const options = { warmupMs: 2000, coldFactor: 3 };
    const limiter = sluice.warmUp("warm", { rate: 20, ...options });
    const faces = Array.from(
      { length: 20 },
      (_, i) => RateLimiter.create(20, { ...options, home: { sluice, name: `face ${i}` } }),
    );
    let state = 7;
    const below = (n: number): number => (state = (state * 1103515245 + 12345) % 2 ** 31) % n;
    for (let round = 0; round < 2000; round++) {
      const i = below(faces.length);
      const cost = 1 + below(5);
      expect(limiter.reserve(`key ${i}`, cost).delayMs).toBe(faces[i].reserve(cost));
      if (round % 7 === 0) clock.advance(below(4000));
    }
    expect(sluice.audit().clean).toBe(true);
  });

  it("takes the documented time: from cold, the permits of a warm-up come in warmupMs, then one an interval", () => {
    const { sluice } = create();
    const limiter = sluice.warmUp("warm", { rate: 10, warmupMs: 1000 });
    // 5 permits above the threshold cost the warm-up, 5 below half of it (Guava's drawing).
    const delays = Array.from({ length: 13 }, () => limiter.reserve("key").delayMs);
    expect(delays[0]).toBe(0);
    expect(delays[5]).toBeCloseTo(1000, 6);
    expect(delays[10]).toBeCloseTo(1500, 6);
    expect(delays[12] - delays[11]).toBeCloseTo(100, 5);
    const gaps = delays.slice(1).map((each, i) => each - delays[i]);
    expect(gaps.every((gap, i) => i === 0 || gap <= gaps[i - 1] + 1e-5)).toBe(true);
    expect(gaps[0]).toBeLessThanOrEqual(300);
    expect(gaps[0]).toBeGreaterThan(200);
  });

  it("lets the next caller pay", () => {
    const { sluice, clock } = create();
    const limiter = sluice.warmUp("warm", { rate: 10, warmupMs: 0 });
    expect(limiter.allow("key", 50)).toBe(true);
    expect(limiter.consume("key")).toMatchObject({ allowed: false, retryAfterMs: 5000 });
    clock.advance(4999.999999);
    expect(limiter.allow("key")).toBe(false);
    clock.set(6000);
    expect(limiter.allow("key")).toBe(true);
  });

  it("of length 0 is a plain limiter: one permit an interval, nothing stored, no NaN", () => {
    const { sluice, clock } = create();
    for (const rate of [1, 10, 1e9]) {
      const limiter = sluice.warmUp(`warm ${rate}`, { rate, warmupMs: 0 });
      const delays = Array.from({ length: 4 }, () => limiter.reserve("key").delayMs);
      expect(delays).toEqual([0, 1, 2, 3].map((n) => n * (1000 / rate)));
      clock.advance(100_000);
      expect(limiter.consume("key")).toEqual({
        allowed: true,
        limit: 0,
        remaining: 0,
        retryAfterMs: 0,
        resetMs: 1000 / rate,
      });
      expect(limiter.consume("key").retryAfterMs).toBe(1000 / rate);
    }
  });

  it("of cold factor 1 costs the same at every temperature, and stores what it did not use", () => {
    const { sluice, clock } = create();
    const limiter = sluice.warmUp("warm", { rate: 10, warmupMs: 1000, coldFactor: 1 });
    const delays = Array.from({ length: 30 }, () => limiter.reserve("key").delayMs);
    delays.forEach((delay, i) => expect(Math.abs(delay - i * 100) * 1e6).toBeLessThanOrEqual(ROUNDING_NS));
    clock.advance(60_000);
    expect(limiter.peek("key").remaining).toBe(15);
  });

  it("takes a new rate while cold, warm and in debt: time already owed stays", () => {
    const { sluice, clock } = create();
    const limiter = sluice.warmUp("warm", { rate: 10, warmupMs: 0 });
    limiter.allow("key", 20);
    limiter.setRate(100);
    expect(limiter.peek("key").retryAfterMs).toBe(2000);
    clock.advance(2000);
    limiter.allow("key", 1);
    expect(limiter.peek("key").retryAfterMs).toBe(10);
    expect(limiter.rate).toBe(100);
  });

  it("of rate Infinity admits everything, and of rate 0 nothing, so that it owes nothing later", async () => {
    const { sluice } = create();
    const limiter = sluice.warmUp("warm", { rate: Infinity, warmupMs: 1000 });
    for (let i = 0; i < 100; i++) {
      expect(limiter.consume("key", 1000)).toMatchObject({ allowed: true, retryAfterMs: 0 });
    }
    limiter.setRate(10);
    expect(limiter.allow("key")).toBe(true);
    expect(limiter.allow("key")).toBe(false);
    expect(limiter.peek("key").retryAfterMs).toBeGreaterThan(100);

    const stopped = sluice.warmUp("stopped", { rate: 0, warmupMs: 1000 });
    expect(stopped.consume("key")).toMatchObject({ allowed: false, retryAfterMs: Infinity });
    await expect(stopped.wait("key")).rejects.toThrow();
  });

  it("says that a wait at rate 0 would never end", async () => {
    const { sluice } = create();
    const limiter = sluice.warmUp("warm", { rate: 0, warmupMs: 1000 });
    limiter.allow("key");
    await expect(limiter.wait("key")).rejects.toMatchObject({ code: "ERR_SLUICE_NEVER" });
  });

  it("admits again once a rate of 0 is raised", () => {
    const { sluice, clock } = create();
    const limiter = sluice.warmUp("warm", { rate: 0, warmupMs: 0 });
    limiter.allow("key");
    limiter.setRate(10);
    clock.advance(86_400_000);
    expect(limiter.allow("key")).toBe(true);
  });

  it("rejects with ERR_SLUICE_TIMEOUT if it cannot meet a deadline, for any cost", async () => {
    const { sluice } = create();
    const limiter = sluice.warmUp("warm", { rate: 10, warmupMs: 0 });
    limiter.allow("key", 5);
    await expect(limiter.wait("key", 1, { timeoutMs: 1 })).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
  });

  it("gives a refund back as time, at most what is owed", () => {
    const { sluice } = create();
    const limiter = sluice.warmUp("warm", { rate: 10, warmupMs: 0 });
    limiter.allow("key", 5);
    limiter.refund("key", 2);
    expect(limiter.peek("key").retryAfterMs).toBe(300);
    limiter.refund("key", 100);
    expect(limiter.consume("key")).toMatchObject({ allowed: true });
    limiter.charge("key", 9);
    expect(limiter.peek("key").retryAfterMs).toBe(1000);
    limiter.reset("key");
    expect(limiter.allow("key")).toBe(true);
  });

  it("has no burst to set, and refuses wrong options", () => {
    const { sluice } = create();
    const limiter = sluice.warmUp("warm", { rate: 10, warmupMs: 1000 });
    expect(limiter.burst).toBe(10);
    expect(() => limiter.setBurst(5)).toThrow(
      "\"warm\" is a warmUp and has no burst to set; use setRate()",
    );
    expect(() => sluice.warmUp("other", { rate: 1, warmupMs: Number.NaN })).toThrow("\"warmupMs\" expected");
    expect(() => sluice.warmUp("other", { rate: 1, warmupMs: -1 })).toThrow("\"warmupMs\" expected");
    expect(() => sluice.warmUp("other", { rate: 1, warmupMs: 1, coldFactor: 0.5 })).toThrow("\"coldFactor\" expected");
    expect(() => sluice.warmUp("other", { rate: 1, warmupMs: 1, coldFactor: Number.NaN })).toThrow(
      "\"coldFactor\" expected",
    );
  });
});
