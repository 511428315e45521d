/** Several limits on one key against as many exact buckets: all of them, or none. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Limit, ModelLimits } from "../../models/limits-model.js";
import { toNs } from "../../models/window-models.js";
import { announceSeed } from "../../seed.js";
import { create, open } from "../../tables.js";

const UNIT_NS = 250_000;

type Step =
  | { do: "allow" | "consume" | "peek" | "charge" | "refund"; cost: number }
  | { do: "reserve"; cost: number; wait: number }
  | { do: "pass"; ns: number }
  | { do: "rate"; rate: number; index: number };

interface Workload {
  limits: Limit[];
  run: Step[];
}

function workloads(rates: readonly number[], unitNs: number, changes: boolean): fc.Arbitrary<Workload> {
  const rate = fc.constantFrom(...rates);
  const cost = fc.integer({ min: 0, max: 8 });
  const pass = fc.record({
    do: fc.constant("pass" as const),
    ns: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 40_000 })).map((units) => units * unitNs),
  });
  return fc.record({
    limits: fc.array(fc.record({ rate, burst: fc.integer({ min: 1, max: 12 }) }), { minLength: 1, maxLength: 7 }),
    run: fc.array(
      fc.oneof(
        {
          weight: 6,
          arbitrary: fc.record({
            do: fc.constantFrom(
              "allow" as const,
              "allow" as const,
              "consume" as const,
              "peek" as const,
              "charge" as const,
              "refund" as const,
            ),
            cost,
          }),
        },
        {
          weight: 2,
          arbitrary: fc.record({ do: fc.constant("reserve" as const), cost, wait: fc.constantFrom(0, 1000, 1e6) }),
        },
        { weight: 3, arbitrary: pass },
        { weight: changes ? 2 : 0, arbitrary: fc.record({ do: fc.constant("rate" as const), rate, index: fc.nat(6) }) },
      ),
      { maxLength: 60 },
    ),
  });
}

/** `slackNs`: how much earlier than the model's a wait may end, in a scale that was made for another rate. */
function difference(
  limits: readonly Limit[],
  run: readonly Step[],
  modelled = limits,
  slackNs = 0,
): string | undefined {
  const { sluice, clock } = create();
  const limiter = sluice.tokenBucket("several", { limits });
  const model = new ModelLimits(modelled, BigInt(toNs(clock.nowMs)));
  const bursts = limits.map(({ burst }) => burst);
  const isClose = (ns: number, wanted: number): boolean => ns === wanted || (ns < wanted && ns >= wanted - slackNs);
  for (const [i, step] of run.entries()) {
    const now = BigInt(toNs(clock.nowMs));
    const at = `step ${i} ${JSON.stringify(step)} of ${JSON.stringify(limits)}: `;
    switch (step.do) {
      case "pass":
        clock.set((Number(now) + step.ns) / 1e6);
        break;
      case "rate":
        limiter.setRate(step.rate, step.index % limits.length);
        model.buckets[step.index % limits.length].setRate(now, step.rate);
        break;
      case "charge":
        limiter.charge("key", step.cost);
        for (const bucket of model.buckets) bucket.charge(now, step.cost);
        break;
      case "refund":
        limiter.refund("key", step.cost);
        for (const bucket of model.buckets) bucket.refund(now, step.cost);
        break;
      case "reserve": {
        const waitNs = model.waitNs(now, step.cost);
        const reservation = limiter.reserve("key", step.cost, { maxWaitMs: step.wait });
        const wanted = model.reserve(now, step.cost, step.wait * 1e6);
        if (reservation.granted !== wanted) return `${at}granted ${reservation.granted}, the model after ${waitNs} ns`;
        if (!isClose(toNs(reservation.delayMs), waitNs)) {
          return `${at}delay ${toNs(reservation.delayMs)} ns, the model ${waitNs}`;
        }
        break;
      }
      default: {
        const waits = model.waitsNs(now, step.cost);
        const waitNs = Math.max(...waits);
        if (step.do === "allow") {
          if (limiter.allow("key", step.cost) !== (waitNs === 0)) {
            return `${at}allowed ${waitNs !== 0}, the model after ${waitNs} ns`;
          }
        } else {
          const decision = step.do === "consume" ? limiter.consume("key", step.cost) : limiter.peek("key", step.cost);
          if (decision.allowed !== (waitNs === 0)) {
            return `${at}allowed ${decision.allowed}, the model after ${waitNs} ns`;
          }
          if (!isClose(toNs(decision.retryAfterMs), waitNs)) {
            return `${at}retry after ${toNs(decision.retryAfterMs)}, the model ${waitNs}`;
          }
          const index = decision.limitIndex!;
          if (waitNs > 0 && waits[index] !== waitNs) {
            return `${at}limit ${index} is named, which waits ${waits[index]} of ${waitNs} ns`;
          }
          if (decision.limit !== bursts[index]) return `${at}limit ${decision.limit}, not ${bursts[index]}`;
        }
        if (step.do !== "peek" && waitNs === 0 && step.cost > 0) model.reserve(now, step.cost, 0);
      }
    }
    const later = BigInt(toNs(clock.nowMs));
    const decision = limiter.peek("key", 0);
    const fewest = Math.max(0, Math.floor(Math.min(...model.tokens(later))));
    if (decision.remaining !== fewest) return `${at}${decision.remaining} remain, the model ${fewest}`;
  }
  sluice.close();
  open.pop();
  return undefined;
}

describe("several limits on a key", () => {
  it("answer as that many exact buckets do, charged together or not at all", () => {
    const seed = announceSeed("several limits");
    // Every moment is then whole units of the kernel's scale, so that nothing is rounded.
    fc.assert(
      fc.property(workloads([0, 1, 10, 1000], 250_000, false), ({ limits, run }) => {
        expect(difference(limits, run)).toBeUndefined();
      }),
      { seed, numRuns: 300 },
    );
  });

  it("answer so when any of their rates changes", () => {
    const seed = announceSeed("several limits, rates");
    // Quarters of a second bring quarters of a token, which every scale has. A scale that was made for 8 a second
    // has units of 2^-28 tokens, 3.7 ns at 1 a second: a wait of rounded units may end a nanosecond before
    // the exact one.
    fc.assert(
      fc.property(workloads([0, 1, 2, 4, 8], 250_000_000, true), ({ limits, run }) => {
        expect(difference(limits, run, limits, 1)).toBeUndefined();
      }),
      { seed, numRuns: 300 },
    );
  });

  it("are distinguished from limits of which one is missing, slower or smaller", () => {
    const limits = [{ rate: 10, burst: 5 }, { rate: 1, burst: 3 }];
    const run: Step[] = [{ do: "allow", cost: 3 }, { do: "pass", ns: 1e9 }, { do: "consume", cost: 1 }];
    expect(difference(limits, run)).toBeUndefined();
    expect(difference(limits, run, [limits[0], { rate: 10, burst: 3 }])).toMatch("remain");
    expect(difference(limits, run, [limits[0], { rate: 1, burst: 4 }])).toMatch("remain");
    expect(difference([...limits, { rate: 0, burst: 2 }], run, limits)).toMatch("allowed false");
  });

  it("name the limit that refuses, and with it its burst", () => {
    const { sluice, clock } = create();
    const limiter = sluice.tokenBucket("several", {
      limits: [{ rate: 10, burst: 3 }, { rate: 1, burst: 5 }, { rate: 0, burst: 6 }],
    });
    expect(limiter.consume("key", 3)).toMatchObject({ allowed: true, limitIndex: 0, limit: 3, remaining: 0 });
    expect(limiter.consume("key", 1)).toMatchObject({ allowed: false, limitIndex: 0, limit: 3, retryAfterMs: 100 });
    clock.advance(300);
    expect(limiter.consume("key", 2)).toMatchObject({ allowed: true, limitIndex: 1, limit: 5, remaining: 0 });
    expect(limiter.consume("key", 1)).toMatchObject({ allowed: false, limitIndex: 1, limit: 5, retryAfterMs: 700 });
    clock.advance(700);
    expect(limiter.allow("key", 1)).toBe(true);
    clock.advance(10_000);
    expect(limiter.consume("key", 1)).toMatchObject({
      allowed: false,
      limitIndex: 2,
      limit: 6,
      retryAfterMs: Infinity,
    });
    expect(limiter.consume("other", 4)).toMatchObject({ allowed: false, limitIndex: 0, retryAfterMs: Infinity });
  });

  it("write nothing when they refuse", () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("several", { limits: [{ rate: 10, burst: 10 }, { rate: 1, burst: 2 }] });
    limiter.allow("key", 1);
    const before = limiter.peek("key", 0);
    for (let i = 0; i < 10; i++) expect(limiter.allow("key", 2)).toBe(false);
    expect(limiter.peek("key", 0)).toEqual(before);
    expect(limiter.allow("key", 1)).toBe(true);
  });

  it("reserve at the first moment when all have room, and refuse others until then", () => {
    const { sluice, clock } = create();
    const limiter = sluice.tokenBucket("several", { limits: [{ rate: 10, burst: 2 }, { rate: 2, burst: 4 }] });
    limiter.allow("key", 2);
    // The first has its two again after 200 ms; the second has two left.
    expect(limiter.reserve("key", 2).delayMs).toBe(200);
    // The second gains a token every 500 ms from the start on.
    expect(limiter.reserve("key", 1).delayMs).toBe(500);
    clock.advance(499.999999);
    expect(limiter.peek("key").allowed).toBe(false);
    expect(limiter.reserve("key", 1).delayMs).toBeCloseTo(500.000001, 9);
  });

  it("get back on a cancel exactly what the reservation took, at any time until it acts", () => {
    const seed = announceSeed("several limits, cancel");
    fc.assert(
      fc.property(
        workloads([0, 1, 10, 1000], UNIT_NS, false),
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 0, max: 1000 }),
        fc.integer({ min: 0, max: 40_000 }),
        ({ limits }, used, cost, share, laterUnits) => {
          const { sluice, clock } = create();
          const limiter = sluice.tokenBucket("several", { limits });
          const twin = sluice.tokenBucket("twin", { limits });
          limiter.charge("key", used);
          twin.charge("key", used);
          const reservation = limiter.reserve("key", cost);
          if (reservation.granted) {
            // Up to the moment at which it acts, in whole units.
            const units = Math.floor((toNs(reservation.delayMs) * share) / 1000 / UNIT_NS);
            clock.advance((units * UNIT_NS) / 1e6);
            reservation.cancel();
          }
          for (let i = 0; i < 3; i++) {
            expect(limiter.peek("key", 0).remaining).toBe(twin.peek("key", 0).remaining);
            expect(limiter.peek("key", 1).retryAfterMs).toBe(twin.peek("key", 1).retryAfterMs);
            clock.advance((laterUnits * UNIT_NS) / 1e6);
          }
          sluice.close();
          open.pop();
        },
      ),
      { seed, numRuns: 300 },
    );
  });

  it("keep their tokens when one of them changes its rate, by any change of scale", () => {
    const { sluice, clock } = create();
    const limiter = sluice.tokenBucket("several", { limits: [{ rate: 1, burst: 1000 }, { rate: 0, burst: 2000 }] });
    limiter.allow("key", 400);
    let flowed = 0;
    for (const rate of [1e9, 1e-6, 3, 1e6, 1e-9, 1e9, 2]) {
      limiter.setRate(rate, 0);
      const { remaining } = limiter.peek("key", 0);
      expect(Math.min(1000, 600 + Math.floor(flowed)) - remaining, `after the change to ${rate}`).toBeLessThanOrEqual(
        1,
      );
      expect(remaining).toBeLessThanOrEqual(Math.min(1000, 600 + Math.ceil(flowed)));
      const ms = rate >= 1e6 ? 1e-6 * Math.floor(10 * 1e9 / rate) : 1;
      clock.advance(ms);
      flowed += (rate * ms) / 1000;
    }
    // The other limit never changed.
    limiter.setRate(Infinity, 0);
    expect(limiter.consume("key", 1600)).toMatchObject({ allowed: true, limitIndex: 1, limit: 2000, remaining: 0 });
  });

  it("change the burst of one of them", () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("several", { limits: [{ rate: 1, burst: 10 }, { rate: 1, burst: 20 }] });
    limiter.setBurst(5, 1);
    expect(limiter.consume("key", 5)).toMatchObject({ allowed: true, limitIndex: 1, limit: 5 });
    expect(limiter.consume("key", 1)).toMatchObject({ allowed: false, limitIndex: 1, limit: 5 });
    expect(() => limiter.setBurst(5, 2)).toThrow("\"limitIndex\" expected an integer from 0 to 1, got 2");
    expect(() => limiter.setRate(5, -1)).toThrow("\"limitIndex\" expected an integer from 0 to 1, got -1");
  });

  it("report the rate and burst that were set", () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("several", { limits: [{ rate: 1, burst: 5 }, { rate: 1, burst: 20 }] });
    limiter.setRate(7);
    limiter.setBurst(9);
    expect([limiter.rate, limiter.burst]).toEqual([7, 9]);
  });

  it("answer that a cost above the burst of any of them is never admitted", async () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("several", { limits: [{ rate: 1, burst: 5 }, { rate: 1, burst: 2 }] });
    await expect(limiter.wait("key", 3)).rejects.toMatchObject({ code: "ERR_SLUICE_COST_ABOVE_BURST" });
  });

  it("answer a number as remaining when all their rates are infinite", () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("several", { limits: [{ rate: Infinity, burst: 5 }] });
    expect(Number.isInteger(limiter.peek("key").remaining)).toBe(true);
  });

  it("are another limiter with another number of limits", () => {
    const { sluice } = create();
    const [a, b, c] = [{ rate: 1, burst: 5 }, { rate: 0, burst: 2 }, { rate: 0, burst: 1 }];
    sluice.tokenBucket("several", { limits: [a, b] });
    expect(() => sluice.tokenBucket("several", { limits: [a, b, c] })).toThrow("exists");
  });

  it("are the same limiter with the same limits, and not with others", () => {
    const { sluice } = create();
    const limits = [{ rate: 1, burst: 5 }, { rate: 0, burst: 2 }];
    expect(sluice.tokenBucket("several", { limits })).toBe(sluice.tokenBucket("several", { limits: [...limits] }));
    expect(() => sluice.tokenBucket("several", { limits: [limits[0], { rate: 0, burst: 3 }] })).toThrow("exists");
    expect(() => sluice.limiter("several#0")).toThrow("no limiter \"several#0\"");
    expect(Object.keys(sluice.stats().limiters)).toEqual(["several"]);
  });

  it.each([[[]], [Array.from({ length: 8 }, () => ({ rate: 1, burst: 1 }))], ["limits"]])("refuse %j", (limits) => {
    const { sluice } = create();
    expect(() => sluice.tokenBucket("several", { limits: limits as Limit[] })).toThrow(
      "\"limits\" expected an array of 1 to 7 { rate, burst }",
    );
  });

  it("end waits in order, each when all have room", async () => {
    const { sluice, clock } = create();
    const limiter = sluice.tokenBucket("several", { limits: [{ rate: 10, burst: 1 }, { rate: 2, burst: 3 }] });
    const out: [number, number][] = [];
    const waits = [1, 2, 3, 4, 5].map((n) => limiter.wait("key").then(() => out.push([n, clock.nowMs])));
    for (let i = 0; i < 20; i++) {
      await new Promise((resolve) => setImmediate(resolve));
      clock.advance(50);
    }
    await Promise.all(waits);
    expect(out).toEqual([[1, 1000], [2, 1100], [3, 1200], [4, 1500], [5, 2000]]);
  });
});
