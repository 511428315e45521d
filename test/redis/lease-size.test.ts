// How large leases are, and how often they come.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isShort, leasePause, leasePlan, leaseSize } from "../../src/redis/lease/lease-size.js";

const plan = leasePlan(1000, 10_000, 10_000);

describe("a plan of leases", () => {
  it("has a period of an eighth of a lease, or a quarter of the time to refill the burst, but 5 ms at least", () => {
    expect(plan).toMatchObject({ lifeMs: 500, periodMs: 125 });
    expect(leasePlan(1000, 10_000, 1000).periodMs).toBe(25);
    expect(leasePlan(1000, 10_000, 10).periodMs).toBe(5);
    expect(leasePlan(8000, 1, 1000).periodMs).toBe(1000);
  });

  it("takes for short what is less than was asked for, and less than is worth a call", () => {
    expect(plan.plenty).toBe(128);
    expect(leasePlan(1000, 1e6, 1e6).plenty).toBe(2000);
    expect(leasePlan(1000, 1000, 160).plenty).toBe(10);
    expect([127, 128, 200].map((leased) => isShort(leased, 200, plan))).toEqual([true, false, false]);
    expect(isShort(100, 100, plan)).toBe(false);
  });
});

describe("a lease", () => {
  it("begins with one token, and so does one after a long rest", () => {
    expect(leaseSize({ had: 0, left: 0, untilEndMs: 0, wasShort: false }, plan)).toBe(1);
    expect(leaseSize({ had: 4096, left: 0, untilEndMs: -501, wasShort: false }, plan)).toBe(1);
  });

  it("is a whole number of tokens, at least one and at most 32 times what the last one had", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 65_535 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: -2000, max: 500, noNaN: true }),
        fc.boolean(),
        (had, share, untilEndMs, wasShort) => {
          const tokens = leaseSize({ had, left: Math.floor(share * had), untilEndMs, wasShort }, plan);
          expect(Number.isInteger(tokens)).toBe(true);
          expect(tokens).toBeGreaterThanOrEqual(1);
          expect(tokens).toBeLessThanOrEqual(32 * had);
        },
      ),
    );
  });

  it("comes every one to two periods once it is settled, whatever the pace", () => {
    for (const perMs of [0.2, 1, 7, 40, 300]) {
      let had = 1;
      let kept = 0;
      const everyMs: number[] = [];
      for (let lease = 0; lease < 30; lease++) {
        const left = Math.min(had, Math.floor(2 ** Math.floor(Math.log2(had)) / 4));
        const ageMs = Math.max(0.3, (had + kept - left) / perMs);
        everyMs.push(ageMs);
        had = Math.min(65_535, leaseSize({ had, left, untilEndMs: plan.lifeMs - ageMs, wasShort: false }, plan));
        kept = left;
      }
      for (const ms of everyMs.slice(6)) {
        expect(ms, `at ${perMs} a ms`).toBeGreaterThan(plan.periodMs);
        expect(ms, `at ${perMs} a ms`).toBeLessThan(2 * plan.periodMs);
      }
    }
  });

  it("doubles after one that was short and used up, and shrinks after one that was not", () => {
    expect(leaseSize({ had: 64, left: 0, untilEndMs: -10, wasShort: true }, plan)).toBe(128);
    expect(leaseSize({ had: 64, left: 60, untilEndMs: -10, wasShort: true }, plan)).toBe(4);
    expect(leaseSize({ had: 64, left: 60, untilEndMs: -10, wasShort: false }, plan)).toBeLessThan(4);
  });

  it("that was short is followed by a pause, until a period after it", () => {
    const last = { had: 64, left: 0, untilEndMs: plan.lifeMs - 25, wasShort: true };
    expect(leasePause(last, plan)).toBe(100);
    expect(leasePause({ ...last, untilEndMs: plan.lifeMs - 125 }, plan)).toBe(0);
    expect(leasePause({ ...last, wasShort: false }, plan)).toBe(0);
    expect(leasePause({ ...last, untilEndMs: -1 }, plan)).toBe(0);
  });
});
