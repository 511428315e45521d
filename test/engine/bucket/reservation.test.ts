// Reservations: when they may act, and what a cancel gives back. Rate 10/s and
// a burst of 5 unless said otherwise: a token every 100 ms.

import fc from "fast-check";
import { type Limiter, ManualClock, type Reservation, Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import { callsOf } from "../../tables.js";

function limiterOf(rate = 10, burst = 5): { clock: ManualClock; limiter: Limiter; sluice: Sluice } {
  const clock = new ManualClock();
  const sluice = Sluice.create({ capacity: 100, clock, maxThreads: 1 });
  return { clock, sluice, limiter: sluice.tokenBucket("test", { rate, burst }) };
}

/** Tokens of 'k', fractions and debts too, from the time until it is full. */
function tokensOf(limiter: Limiter): number {
  return limiter.burst - Math.round(limiter.peek("k", 0).resetMs * limiter.rate * 1e3) / 1e6;
}

describe("a reservation", () => {
  type Row = [atMs: number, cost: number, maxWaitMs: number | undefined, granted: boolean, delayMs: number];
  const tables: Record<string, { rate?: number; burst?: number; rows: Row[] }> = {
    "takes what is there at once, and then from the future, one behind the other": {
      rows: [
        [0, 5, undefined, true, 0],
        [0, 1, undefined, true, 100],
        [0, 1, undefined, true, 200],
        [0, 5, undefined, true, 700],
        [50, 1, undefined, true, 750],
        [800, 1, undefined, true, 100],
        [800, 1, 0, false, 200],
        [2000, 5, 0, true, 0],
      ],
    },
    "is refused if its delay would exceed maxWaitMs, and says what it would have been": {
      rows: [
        [0, 5, 0, true, 0],
        [0, 1, 0, false, 100],
        [0, 1, 99.999999, false, 100],
        [0, 1, 100, true, 100],
        [0, 1, 199, false, 200],
        [0, 1, 200, true, 200],
        [0, 1, Infinity, true, 300],
        [150, 2, 350, true, 350],
        [500, 1, 0, false, 100],
      ],
    },
    "above the burst is never granted": {
      rows: [
        [0, 6, undefined, false, Infinity],
        [0, 6, 1e9, false, Infinity],
        [0, 5, undefined, true, 0],
        [0, 6, undefined, false, Infinity],
      ],
    },
    "of 0 waits for debts only and takes nothing": {
      rows: [
        [0, 0, undefined, true, 0],
        [0, 5, undefined, true, 0],
        [0, 0, 0, true, 0],
        [0, 2, undefined, true, 200],
        [0, 0, 0, false, 200],
        [0, 0, undefined, true, 200],
        [0, 1, undefined, true, 300],
      ],
    },
    "at rate 0 is granted from what is there, and never after that": {
      rate: 0,
      rows: [
        [0, 3, undefined, true, 0],
        [0, 3, undefined, false, Infinity],
        [0, 2, 0, true, 0],
        [1e9, 1, undefined, false, Infinity],
        [1e9, 0, undefined, true, 0],
      ],
    },
    "at an infinite rate is granted at once": {
      rate: Infinity,
      rows: [
        [0, 5, undefined, true, 0],
        [0, 100, 0, true, 0],
      ],
    },
    "with a burst of 0 is granted only for a cost of 0": {
      burst: 0,
      rows: [
        [0, 1, undefined, false, Infinity],
        [0, 0, undefined, true, 0],
      ],
    },
    "waits a year for a slow rate": {
      rate: 1 / (365 * 86_400),
      burst: 1,
      rows: [
        [0, 1, undefined, true, 0],
        [0, 1, 365 * 86_400_000 - 1, false, 365 * 86_400_000],
        [0, 1, 365 * 86_400_000, true, 365 * 86_400_000],
      ],
    },
  };

  it.each(Object.entries(tables))("%s", (_, { rate = 10, burst = 5, rows }) => {
    for (const key of ["k", undefined]) {
      const { clock, limiter } = limiterOf(rate, burst);
      for (const [atMs, cost, maxWaitMs, granted, delayMs] of rows) {
        clock.set(atMs);
        const reservation = callsOf(limiter, key).reserve(cost, maxWaitMs === undefined ? undefined : { maxWaitMs });
        expect(
          { granted: reservation.granted, delayMs: Math.round(reservation.delayMs * 1e4) / 1e4 },
          `at ${atMs} ms, cost ${cost}`,
        ).toEqual({ granted, delayMs });
      }
    }
  });

  it("that is refused charges nothing and takes no slot", () => {
    const { limiter, sluice } = limiterOf();
    limiter.allow("k", 3);
    for (const [cost, maxWaitMs] of [[6, Infinity], [3, 99], [5, 0]]) {
      const before = limiter.peek("k", 0);
      expect(limiter.reserve("k", cost, { maxWaitMs }).granted).toBe(false);
      expect(limiter.peek("k", 0)).toEqual(before);
    }
    expect(limiter.reserve("new", 6).granted).toBe(false);
    expect(sluice.audit().used).toBe(1);
  });

  it("beyond the life of the clock is refused, and a wait says why", async () => {
    const { limiter } = limiterOf(1e-9, 1);
    limiter.allow("k");
    const { granted, delayMs } = limiter.reserve("k");
    expect({ granted, delayMs: Math.round(delayMs) }).toEqual({ granted: false, delayMs: 1e12 });
    await expect(limiter.wait("k")).rejects.toThrow(
      expect.objectContaining({ code: expect.stringMatching(/TIMEOUT|NEVER/) }),
    );
  });
});

describe("a cancel", () => {
  it("gives the tokens back, once", () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k", 5);
    const reservation = limiter.reserve("k", 3);
    expect(tokensOf(limiter)).toBe(-3);
    expect(reservation.cancel()).toBe(true);
    expect(tokensOf(limiter)).toBe(0);
    expect(reservation.cancel()).toBe(false);
    reservation[Symbol.dispose]();
    expect(tokensOf(limiter)).toBe(0);
    clock.set(200);
    expect(reservation.cancel()).toBe(false);
    expect(tokensOf(limiter)).toBe(2);
  });

  it("counts until the reservation may act and not after", () => {
    for (
      const [cost, rate, atMs, expected] of [
        [3, 10, 300, true],
        [3, 10, 300.000001, false],
        [3, 10, 299.999999, true],
        [1, 1, 1000, true],
        [1, 1, 1000.000001, false],
        [7, 7, 1000, true],
        [1, 3, 333.333333, true],
        [1, 3, 333.333334, false],
      ] as const
    ) {
      const { clock, limiter } = limiterOf(rate, 7);
      limiter.allow("k", 7);
      const reservation = limiter.reserve("k", cost);
      clock.set(atMs);
      expect(reservation.cancel(), `${cost} at ${rate}/s, at ${atMs} ms`).toBe(expected);
    }
  });

  it("at the boundary is in time, for every rate and cost that meet on a whole nanosecond", () => {
    for (const rate of [1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 49, 81, 99, 100, 121, 343, 1000]) {
      const { clock, limiter } = limiterOf(rate, 1000);
      limiter.allow("k", 1000);
      const reservation = limiter.reserve("k", rate);
      expect(reservation.delayMs).toBe(1000);
      clock.set(1000);
      expect(reservation.cancel(), `${rate}/s`).toBe(true);
    }
  });

  it("of a reservation that acts at once counts in the same moment only", () => {
    const { clock, limiter } = limiterOf();
    const now = limiter.reserve("k", 2);
    expect(now.delayMs).toBe(0);
    expect(now.cancel()).toBe(true);
    expect(tokensOf(limiter)).toBe(5);
    const later = limiter.reserve("k", 2);
    clock.set(0.000001);
    expect(later.cancel()).toBe(false);
  });

  it("gives back only what no later reservation took", () => {
    const { limiter } = limiterOf();
    limiter.allow("k", 5);
    const first = limiter.reserve("k", 3);
    const second = limiter.reserve("k", 1);
    expect(second.delayMs).toBe(400);
    expect(first.cancel()).toBe(true);
    expect(tokensOf(limiter)).toBe(-2);
    expect(second.cancel()).toBe(true);
    expect(tokensOf(limiter)).toBe(-1);
  });

  it("gives nothing back if later reservations took all of it", () => {
    const { limiter } = limiterOf();
    limiter.allow("k", 5);
    const first = limiter.reserve("k", 2);
    limiter.reserve("k", 5);
    expect(first.cancel()).toBe(false);
    expect(tokensOf(limiter)).toBe(-7);
  });

  it("fills no bucket above its burst", () => {
    const { clock, limiter } = limiterOf();
    const reservation = limiter.reserve("k", 1);
    limiter.reset("k");
    expect(reservation.cancel()).toBe(false);
    expect(tokensOf(limiter)).toBe(5);
    clock.set(100);
    const other = limiter.reserve("k", 3);
    limiter.refund("k", 2);
    expect(other.cancel()).toBe(true);
    expect(tokensOf(limiter)).toBe(5);
  });

  it("of a refused reservation, of a cost of 0 or at an infinite rate does nothing", () => {
    const { limiter } = limiterOf();
    limiter.allow("k", 5);
    for (
      const reservation of [limiter.reserve("k", 6), limiter.reserve("k", 1, { maxWaitMs: 0 }), limiter.reserve("k", 0)]
    ) expect(reservation.cancel()).toBe(false);
    expect(tokensOf(limiter)).toBe(0);
    limiter.setRate(Infinity);
    const free = limiter.reserve("k", 3);
    expect(free.granted).toBe(true);
    limiter.setRate(10);
    limiter.allow("k", 5);
    expect(free.cancel()).toBe(false);
    expect(tokensOf(limiter)).toBe(0);
  });

  it("after an infinite rate gives nothing back: reservations before it are forgotten", () => {
    for (let times = 1; times <= 4; times++) {
      const { limiter } = limiterOf();
      limiter.allow("k", 5);
      const reservation = limiter.reserve("k", 5);
      for (let i = 0; i < times; i++) {
        limiter.setRate(Infinity);
        limiter.setRate(10);
      }
      limiter.allow("k", 5);
      expect(reservation.cancel(), `${times} times`).toBe(false);
      expect(tokensOf(limiter)).toBe(0);
    }
  });

  it.each([1, 2, 3, 4, 5, 6, 7])("after %i changes of scale gives back no token reserved later", (changes) => {
    const { limiter } = limiterOf(10, 5);
    limiter.allow("k", 5);
    const first = limiter.reserve("k", 5);
    limiter.reserve("k", 4);
    for (let i = 0; i < changes; i++) limiter.setRate(i % 2 ? 10 : 10_000);
    const before = tokensOf(limiter);
    first.cancel();
    expect(tokensOf(limiter)).toBeLessThanOrEqual(before + 1.001);
    // Where the scale changed no more than twice it gives back all that it should.
    if (changes <= 2) expect(tokensOf(limiter)).toBeGreaterThan(before + 0.999);
  });

  it("after the clock went back before the limits were last changed counts until the reservation may act", () => {
    const { clock, limiter } = limiterOf(1, 1);
    clock.set(10_000);
    limiter.setRate(2);
    clock.set(5000);
    limiter.allow("k");
    const reservation = limiter.reserve("k");
    expect(reservation.delayMs).toBe(5500);
    clock.set(10_400);
    expect(reservation.cancel()).toBe(true);
  });

  it("conserves tokens: any reservations and cancels leave at most as many as if there had been none", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(fc.record({ cost: fc.nat(6) }), fc.record({ cancel: fc.nat(30) }), fc.record({ ms: fc.nat(700) })),
          { maxLength: 60, size: "max" },
        ),
        (list) => {
          const { clock, limiter } = limiterOf();
          const open: { reservation: Reservation; cost: number }[] = [];
          let taken = 0;
          let returned = 0;
          for (const act of list) {
            if ("ms" in act) clock.advance(act.ms);
            else if ("cost" in act) {
              const reservation = limiter.reserve("k", act.cost);
              expect(reservation.granted).toBe(act.cost <= 5);
              if (reservation.granted) {
                taken += act.cost;
                open.push({ reservation, cost: act.cost });
              }
            } else if (open.length > 0) {
              const [{ reservation, cost }] = open.splice(act.cancel % open.length, 1);
              const before = tokensOf(limiter);
              const wentBack = reservation.cancel();
              const got = tokensOf(limiter) - before;
              expect(got).toBeLessThanOrEqual(cost + 1e-6);
              expect(got > 1e-6).toBe(wentBack);
              returned += got;
            }
            // At most the burst and what has flowed, less what is still taken.
            expect(tokensOf(limiter)).toBeLessThanOrEqual(
              Math.min(5, 5 + (clock.nowMs * 10) / 1000 - taken + returned) + 1e-6,
            );
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("disposing of a reservation", () => {
  it("cancels it if its time is still to come", () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k", 5);
    const reservation = limiter.reserve("k", 2);
    clock.set(100);
    reservation[Symbol.dispose]();
    expect(tokensOf(limiter)).toBe(1);
    expect(reservation.cancel()).toBe(false);
  });

  it("leaves it charged if it could already act", () => {
    const { clock, limiter } = limiterOf();
    limiter.reserve("k", 5)[Symbol.dispose]();
    expect(tokensOf(limiter)).toBe(0);
    const reservation = limiter.reserve("k", 2);
    clock.set(200);
    reservation[Symbol.dispose]();
    expect(tokensOf(limiter)).toBe(0);
    clock.set(300);
    reservation[Symbol.dispose]();
    expect(tokensOf(limiter)).toBe(1);
  });

  it("that was refused does nothing", () => {
    const { limiter } = limiterOf();
    limiter.allow("k", 5);
    limiter.reserve("k", 1, { maxWaitMs: 0 })[Symbol.dispose]();
    limiter.reserve("k", 9)[Symbol.dispose]();
    expect(tokensOf(limiter)).toBe(0);
  });
});
