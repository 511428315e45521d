/**
 * Sliding windows against counts in BigInt, and against an exact log of what was
 * admitted when, which knows no algorithm.
 *
 * With slots, no interval of the window's length, both ends included, ever
 * admits more than the limit, and a call counts for the window and at most one
 * slot.
 *
 * Without slots, the two-window counter lets at most
 *
 *   limit + floor(limit x (w - 2 ns) / windowMs)
 *
 * pass in any interval of length w <= windowMs. Proof: let an interval see F
 * calls of one window and, up to `e` after the boundary, C of the next. The last
 * of those was admitted with F' x (W - e) / W + C <= limit, where F' >= F is the
 * whole count of the former window. So F + C <= limit + F' x e / W, F' <= limit,
 * and e <= w - 2 ns. A burst of `limit` in a window's last nanosecond reaches it.
 * For w = W that is 2 x limit - 1 (if limit <= W / 2 ns).
 */
import fc from "fast-check";
import { type Limiter, Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import {
  EVERY_STEP,
  ExactLog,
  firstDifference,
  ModelSlidingCounter,
  ModelSlottedWindow,
  type ModelWindow,
  START_NS,
  toNs,
  type WindowStep,
  windowSteps,
} from "../../models/window-models.js";
import { announceSeed } from "../../seed.js";
import { create, open } from "../../tables.js";

interface Window {
  limit: number;
  windowMs: number;
  slots?: number;
}

function difference(
  { limit, windowMs, slots }: Window,
  steps: readonly WindowStep[],
  log?: ExactLog,
  tamper?: (model: ModelWindow) => void,
): string | undefined {
  const windowNs = windowMs * 1e6;
  const model = slots === undefined
    ? new ModelSlidingCounter(BigInt(limit), BigInt(windowNs), BigInt(START_NS))
    : new ModelSlottedWindow(BigInt(limit), BigInt(windowNs), slots, BigInt(START_NS));
  tamper?.(model);
  return firstDifference(
    (sluice) => sluice.slidingWindow("window", { limit, windowMs, slots }),
    model,
    steps,
    slots ? Math.ceil(windowNs / slots) : windowNs,
    log,
  );
}

/** The most that the counter admits in an interval of `lengthNs` <= the window's. */
function worst(limit: number, windowNs: number, lengthNs = windowNs): bigint {
  return BigInt(limit) + (BigInt(limit) * BigInt(Math.max(0, lengthNs - 2))) / BigInt(windowNs);
}

function expectWithinBound(log: ExactLog, { limit, windowMs }: Window, share: number): void {
  const windowNs = windowMs * 1e6;
  for (const lengthNs of [windowNs, Math.ceil(share * windowNs)]) {
    expect(log.most(BigInt(lengthNs))).toBeLessThanOrEqual(worst(limit, windowNs, lengthNs));
  }
}

/** Evenly from 0 to `most`, unlike the doubles of fast-check. */
const shares = (most: number): fc.Arbitrary<number> =>
  fc.integer({ min: 0, max: 1_000_000 * most }).map((n) => n / 1_000_000);

const limits = fc.constantFrom(1, 2, 3, 7, 10, 100, 1000);
const lengths = fc.constantFrom(1, 7, 1000, 60_000);
const slotted = fc.record({ limit: limits, windowMs: lengths, slots: fc.integer({ min: 1, max: 12 }) });
const counted = fc.record({ limit: limits, windowMs: lengths });
const sizesOf = ({ limit, windowMs }: Window): { limit: number; windowNs: number } => ({
  limit,
  windowNs: windowMs * 1e6,
});

const tamperings: [string, RegExp, (model: ModelWindow) => void, WindowStep[]][] = [
  ["has another limit", /remain/, (model) => model.setLimit(9n), [{ do: "consume", cost: 1 }]],
  ["forgets a charge", /remain/, (model) => (model.charge = () => {}), [{ do: "charge", cost: 3 }]],
  ["forgets a refund", /remain/, (model) => (model.refund = () => {}), [{ do: "allow", cost: 2 }, {
    do: "refund",
    cost: 1,
  }]],
  ["forgets a cancel", /remain/, (model) => (model.cancel = () => false), [{ do: "reserve", cost: 2, waitNs: 0 }, {
    do: "cancel",
    which: 0,
  }]],
  ["waits a ns more", /delay/, (model) => {
    const first = model.firstNs.bind(model);
    model.firstNs = (nowNs, cost) => (first(nowNs, cost) ?? 0n) + (cost === 2n ? 1n : 0n);
  }, [{ do: "allow", cost: 10 }, { do: "reserve", cost: 2, waitNs: 1e10 }]],
  ["grants a place before another that is reserved", /allowed false/, (model) => {
    const first = model.firstNs.bind(model);
    model.firstNs = (nowNs, cost) => (cost === 1n ? nowNs : first(nowNs, cost));
  }, [{ do: "allow", cost: 5 }, { do: "reserve", cost: 10, waitNs: 1e10 }, { do: "allow", cost: 1 }]],
];

describe("a sliding window with slots", () => {
  it("answers as exact counts of its slots do, after any operations", () => {
    const seed = announceSeed("slotted window");
    fc.assert(
      fc.property(
        slotted.chain((size) => fc.tuple(fc.constant(size), windowSteps(sizesOf(size), [...EVERY_STEP, "limit"]))),
        ([size, steps]) => {
          expect(difference(size, steps)).toBeUndefined();
        },
      ),
      { seed, numRuns: 400 },
    );
  });

  it.each(tamperings)("is distinguished from a model that %s", (_, message, tamper, steps) => {
    const size = { limit: 10, windowMs: 1000, slots: 4 };
    expect(difference(size, steps)).toBeUndefined();
    expect(difference(size, steps, undefined, tamper)).toMatch(message);
  });

  it("never admits more than its limit in any interval of its length, ends included, reserved or not", () => {
    const seed = announceSeed("slotted window, bound");
    let reached = 0;
    fc.assert(
      fc.property(
        slotted.chain((size) =>
          fc.tuple(
            fc.constant(size),
            windowSteps(sizesOf(size), ["allow", "allow", "allow", "consume", "reserve", "pass", "align"], 120),
          )
        ),
        ([size, steps]) => {
          const log = new ExactLog();
          expect(difference(size, steps, log)).toBeUndefined();
          const most = log.most(BigInt(size.windowMs) * 1_000_000n, true);
          expect(most).toBeLessThanOrEqual(BigInt(size.limit));
          if (most === BigInt(size.limit)) reached++;
        },
      ),
      { seed, numRuns: 400 },
    );
    expect(reached).toBeGreaterThan(50);
  });

  it("refuses only what does not fit with the calls of the last window and one slot", () => {
    const seed = announceSeed("slotted window, memory");
    let refusals = 0;
    fc.assert(
      fc.property(
        slotted,
        fc.array(fc.tuple(shares(0.7), shares(1)), { maxLength: 80 }),
        ({ limit, windowMs, slots }, calls) => {
          const { sluice, clock } = create();
          const limiter = sluice.slidingWindow("window", { limit, windowMs, slots });
          const memoryNs = windowMs * 1e6 + Math.ceil(windowMs * 1e6 / slots);
          const admitted: { ns: number; cost: number }[] = [];
          for (const [pause, share] of calls) {
            clock.set((toNs(clock.nowMs) + Math.round(pause * windowMs * 1e6)) / 1e6);
            const ns = toNs(clock.nowMs);
            const cost = 1 + Math.floor(share * (limit - 1));
            if (limiter.allow("key", cost)) {
              admitted.push({ ns, cost });
              continue;
            }
            refusals++;
            const remembered = admitted.filter((each) => each.ns > ns - memoryNs).reduce(
              (all, each) => all + each.cost,
              0,
            );
            expect(remembered + cost).toBeGreaterThan(limit);
          }
          sluice.close();
          open.pop();
        },
      ),
      { seed, numRuns: 200 },
    );
    expect(refusals).toBeGreaterThan(100);
  });

  it("counts a call at the beginning of its slot for exactly the window and a slot", () => {
    const { sluice, clock } = create();
    const limiter = sluice.slidingWindow("window", { limit: 1, windowMs: 1000, slots: 4 });
    limiter.allow("key");
    clock.set(1000 + 1250 - 1e-6);
    expect(limiter.allow("key")).toBe(false);
    clock.set(1000 + 1250);
    expect(limiter.peek("key").allowed).toBe(true);
    clock.set(1000 + 1500 - 1e-6);
    expect(limiter.allow("key")).toBe(true);
    // At the end of a slot it is the window, to the nanosecond.
    clock.set(1000 + 1500 - 1e-6 + 1000);
    expect(limiter.allow("key")).toBe(false);
    clock.set(1000 + 2500);
    expect(limiter.allow("key")).toBe(true);
  });

  it("rounds a slot up to whole nanoseconds, so that the window is never shorter than windowMs", () => {
    const { sluice, clock } = create();
    const limiter = sluice.slidingWindow("window", { limit: 1, windowMs: 1, slots: 7 });
    clock.set(1000.142857);
    limiter.allow("key");
    clock.set(1001.142857);
    expect(limiter.allow("key")).toBe(false);
  });

  it.each([0, 13, 1.5, Number.NaN])("refuses %d slots", (slots) => {
    const { sluice } = create();
    expect(() => sluice.slidingWindow("window", { limit: 1, windowMs: 1000, slots })).toThrow(
      "\"slots\" expected an integer from 1 to 12",
    );
  });

  it("refuses a new limit that its counters cannot hold", () => {
    const { sluice } = create();
    const limiter = sluice.slidingWindow("window", { limit: 10, windowMs: 10_000, slots: 2 });
    expect(() => limiter.setLimit(2 ** 31)).toThrow(/^"limit" expected an integer from 0 to 2147483647/);
  });

  it("refuses an infinite limit, as the other windows do", () => {
    const { sluice } = create();
    const limiter = sluice.slidingWindow("window", { limit: 10, windowMs: 10_000, slots: 2 });
    expect(() => limiter.setLimit(Infinity)).toThrow(/^"limit" expected an integer from 0 to 2147483647/);
  });
});

describe("a sliding window of two counts", () => {
  it("answers as the exact weighted estimate does, after any operations", () => {
    const seed = announceSeed("sliding counter");
    fc.assert(
      fc.property(
        counted.chain((size) => fc.tuple(fc.constant(size), windowSteps(sizesOf(size), [...EVERY_STEP, "limit"]))),
        ([size, steps]) => {
          expect(difference(size, steps)).toBeUndefined();
        },
      ),
      { seed, numRuns: 400 },
    );
  });

  it.each(tamperings)("is distinguished from a model that %s", (_, message, tamper, steps) => {
    const size = { limit: 10, windowMs: 1000 };
    expect(difference(size, steps)).toBeUndefined();
    expect(difference(size, steps, undefined, tamper)).toMatch(message);
  });

  it("admits at most limit + limit x w / window in any interval of length w", () => {
    const seed = announceSeed("sliding counter, bound");
    fc.assert(
      fc.property(
        counted.chain((size) =>
          fc.tuple(
            fc.constant(size),
            windowSteps(sizesOf(size), ["allow", "allow", "allow", "consume", "reserve", "pass", "align"], 120),
          )
        ),
        shares(1),
        ([size, steps], share) => {
          const log = new ExactLog();
          expect(difference(size, steps, log)).toBeUndefined();
          expectWithinBound(log, size, share);
        },
      ),
      { seed, numRuns: 200 },
    );
  });

  it("keeps that bound against callers that take everything, in the last ns of windows and at random moments", () => {
    const seed = announceSeed("sliding counter, greedy");
    let above = 0;
    fc.assert(
      fc.property(
        fc.record({ limit: fc.constantFrom(1, 2, 3, 7, 10, 30), windowMs: lengths }),
        fc.array(fc.oneof(fc.constant("end" as const), shares(0.4), shares(2)), { maxLength: 30 }),
        shares(1),
        (size, moments, share) => {
          const windowNs = size.windowMs * 1e6;
          const { sluice, clock } = create(START_NS / 1e6);
          const limiter = sluice.slidingWindow("window", size);
          const log = new ExactLog();
          let ns = START_NS;
          for (const moment of moments) {
            ns = moment === "end"
              ? START_NS + (Math.floor((ns - START_NS) / windowNs) + 1) * windowNs - 1
              : ns + Math.round(moment * windowNs);
            clock.set(ns / 1e6);
            while (limiter.allow("key")) log.admit(BigInt(ns), 1);
          }
          expectWithinBound(log, size, share);
          if (log.most(BigInt(windowNs)) > BigInt(size.limit)) above++;
          sluice.close();
          open.pop();
        },
      ),
      { seed, numRuns: 200 },
    );
    // It is an estimate: it does exceed the limit.
    expect(above).toBeGreaterThan(20);
  });

  it.each([1, 2, 10, 100, 1000])(
    "of %i reaches that bound, and does not exceed it, by a burst in the last ns of a window",
    (limit) => {
      const windowMs = 1000;
      const windowNs = windowMs * 1e6;
      for (const share of [1 / windowNs, 0.001, 0.25, 0.5, 0.999, 1]) {
        const { sluice, clock } = create();
        const limiter = sluice.slidingWindow("window", { limit, windowMs });
        const log = new ExactLog();
        const take = (): void => {
          while (limiter.allow("key")) log.admit(BigInt(toNs(clock.nowMs)), 1);
        };
        const boundaryNs = (1000 + windowMs) * 1e6;
        clock.set((boundaryNs - 1) / 1e6);
        take();
        // The last ns of an interval that began with the burst.
        const lengthNs = Math.max(2, Math.round(share * windowNs));
        clock.set((boundaryNs + lengthNs - 2) / 1e6);
        take();
        expect(log.most(BigInt(lengthNs))).toBe(worst(limit, windowNs, lengthNs));
      }
      expect(worst(limit, windowNs)).toBe(BigInt(2 * limit - 1));
    },
  );

  it("after the first window, admits one less than its limit a window to callers that never stop asking", () => {
    const { sluice, clock } = create();
    const limiter = sluice.slidingWindow("window", { limit: 10, windowMs: 1000 });
    const admitted = Array.from({ length: 20 }, () => 0);
    for (let i = 0; i < 2000; i++) {
      clock.set(1000 + i * 10);
      if (limiter.allow("key")) admitted[Math.floor(i / 100)]++;
    }
    expect(admitted).toEqual([10, ...Array.from({ length: 19 }, () => 9)]);
  });

  it("answers as remaining a cost that is then admitted", () => {
    const seed = announceSeed("sliding counter, remaining");
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1000 }),
        fc.integer({ min: 1, max: 1000 }),
        fc.integer({ min: 0, max: 999_999_999 }),
        (former, more, elapsed) => {
          const limit = former + more;
          const { sluice, clock } = create();
          const limiter = sluice.slidingWindow("window", { limit, windowMs: 1000 });
          limiter.allow("key", former);
          clock.set((2_000_000_000 + elapsed) / 1e6);
          const { remaining } = limiter.peek("key");
          expect(limiter.peek("key", remaining).allowed).toBe(true);
          expect(limiter.peek("key", remaining + 1).allowed).toBe(false);
          sluice.close();
          open.pop();
        },
      ),
      { seed, numRuns: 300 },
    );
  });

  it("answers as remaining what fits if the share of the former window is a whole number", () => {
    for (let former = 1; former < 100; former++) {
      const { sluice, clock } = create();
      const limiter = sluice.slidingWindow("window", { limit: 100, windowMs: 7 * 11 * 13 });
      limiter.allow("key", former);
      for (const divisor of [7, 11, 13]) {
        clock.set(1000 + 1001 + 1001 - 1001 / divisor);
        const { remaining } = limiter.peek("key");
        expect([former, divisor, limiter.peek("key", remaining).allowed, limiter.peek("key", remaining + 1).allowed])
          .toEqual([former, divisor, true, false]);
      }
    }
  });

  it("refuses limits for which half a word has no room over thirty years, and names the largest", () => {
    const { sluice } = create();
    expect(() => sluice.slidingWindow("window", { limit: 4000, windowMs: 1 })).toThrow(
      "\"limit\" expected at most 2047 for a slidingWindow of 1 ms, got 4000",
    );
    const limiter = sluice.slidingWindow("window", { limit: 2047, windowMs: 1 });
    expect(() => limiter.setLimit(2048)).toThrow("\"limit\" expected at most 2047");
  });
});

describe.each([undefined, 1, 4, 12])("a sliding window with %s slots", (slots) => {
  const make = (sluice: Sluice, limit = 10, windowMs = 1000): Limiter =>
    sluice.slidingWindow("window", { limit, windowMs, slots });

  it("never admits two full windows around a boundary", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice);
    clock.set(1999.999999);
    expect(limiter.allow("key", 10)).toBe(true);
    clock.set(2000);
    for (let ms = 0; ms < 100; ms++) {
      expect(limiter.allow("key"), `${ms} ms after the boundary`).toBe(false);
      clock.advance(0.999);
    }
  });

  it.each([1, 30, 366])("of %i days limits", (days) => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 100, days * 86_400_000);
    expect(limiter.allow("key", 100)).toBe(true);
    for (let part = 1; part < 100; part++) {
      clock.advance(days * 864_000);
      expect(limiter.allow("key")).toBe(false);
    }
    clock.advance(days * 864_000 * 102);
    expect(limiter.allow("key", 100)).toBe(true);
  });

  it("makes later calls wait behind a reservation", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice);
    limiter.allow("key", 5);
    const ahead = limiter.reserve("key", 8);
    expect(ahead.granted).toBe(true);
    expect(ahead.delayMs).toBeGreaterThan(0);
    expect(limiter.allow("key")).toBe(false);
    expect(limiter.reserve("key", 1).delayMs).toBeGreaterThanOrEqual(ahead.delayMs);
    clock.set((toNs(1000 + ahead.delayMs) - 1) / 1e6);
    expect(limiter.allow("key")).toBe(false);
    clock.advance(3000);
    expect(limiter.allow("key")).toBe(true);
  });

  it("grants a reservation at the first moment that would have admitted it, not a nanosecond later", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice);
    limiter.allow("key", 10);
    const { delayMs } = limiter.reserve("key", 3);
    limiter.reset("other");
    limiter.allow("other", 10);
    clock.set((toNs(1000 + delayMs) - 1) / 1e6);
    expect(limiter.peek("other", 3).allowed).toBe(false);
    clock.set(toNs(1000 + delayMs) / 1e6);
    expect(limiter.peek("other", 3).allowed).toBe(true);
  });

  it("refuses a wait beyond maxWaitMs and charges nothing for it", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice);
    limiter.allow("key", 8);
    const before = limiter.peek("key", 1);
    const refused = limiter.reserve("key", 5, { maxWaitMs: 1 });
    expect(refused.granted).toBe(false);
    expect(refused.delayMs).toBeGreaterThan(1);
    expect(limiter.peek("key", 1)).toEqual(before);
    clock.advance(refused.delayMs);
    expect(limiter.allow("key", 5)).toBe(true);
  });

  it("gives back what was taken now, by cancel or refund", () => {
    const { sluice } = create();
    const limiter = make(sluice);
    const taken = limiter.reserve("key", 4, { maxWaitMs: 0 });
    limiter.allow("key", 3);
    expect(taken.cancel()).toBe(true);
    expect(taken.cancel()).toBe(false);
    expect(limiter.peek("key").remaining).toBe(7);
    limiter.refund("key", 2);
    expect(limiter.peek("key").remaining).toBe(9);
    limiter.refund("key", 100);
    expect(limiter.peek("key").remaining).toBe(10);
  });

  it("has its whole limit when a cancelled reservation would have acted", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice);
    limiter.allow("key", 10);
    const ahead = limiter.reserve("key", 10);
    expect(ahead.cancel()).toBe(true);
    clock.advance(ahead.delayMs);
    expect(limiter.peek("key").remaining).toBe(10);
  });

  // A known limit, documented in docs/algorithms.md: this would be better, and fails.
  it.fails("admits after a cancel what it would have admitted before the reservation", () => {
    const { sluice } = create();
    const limiter = make(sluice);
    limiter.allow("key", 5);
    limiter.reserve("key", 10).cancel();
    expect(limiter.allow("key")).toBe(true);
  });

  it("keeps what was used when its limit changes", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice);
    limiter.allow("key", 6);
    limiter.setLimit(20);
    expect(limiter.peek("key")).toMatchObject({ limit: 20, remaining: 14 });
    limiter.setLimit(5);
    expect(limiter.peek("key")).toMatchObject({ limit: 5, remaining: 0, allowed: false });
    limiter.setLimit(8);
    expect(limiter.burst).toBe(8);
    expect(limiter.peek("key").remaining).toBe(2);
    limiter.setLimit(0);
    expect(limiter.peek("key")).toMatchObject({ allowed: false, retryAfterMs: Infinity });
    limiter.setLimit(10);
    clock.advance(3000);
    expect(limiter.peek("key").remaining).toBe(10);
  });

  it("charges into debt, which later calls wait out", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice);
    limiter.charge("key", 25);
    const { allowed, remaining, retryAfterMs } = limiter.peek("key");
    expect({ allowed, remaining }).toEqual({ allowed: false, remaining: 0 });
    clock.set((toNs(clock.nowMs + retryAfterMs) - 1) / 1e6);
    expect(limiter.allow("key")).toBe(false);
    clock.set(toNs(1000 + retryAfterMs) / 1e6);
    expect(limiter.allow("key")).toBe(true);
  });

  it("ends waits in order as the clock moves", async () => {
    const { sluice, clock } = create();
    const limiter = make(sluice);
    limiter.allow("key", 10);
    const order: number[] = [];
    const waits = [1, 2, 3, 4].map((n) => limiter.wait("key", 1).then(() => order.push(n)));
    for (let step = 0; step < 30 && order.length < 4; step++) {
      clock.advance(100);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all(waits);
    expect(order).toEqual([1, 2, 3, 4]);
    await expect(limiter.wait("key", 11)).rejects.toMatchObject({ code: "ERR_SLUICE_COST_ABOVE_BURST" });
  });
});
