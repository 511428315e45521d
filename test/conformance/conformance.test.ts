// `sluice/go` and `sluice/guava` against the recorded behaviour of the real
// libraries, row by row.

import { ManualClock, Sluice } from "sluice";
import { Limiter, type Reservation } from "sluice/go";
import { RateLimiter } from "sluice/guava";
import { describe, expect, it } from "vitest";
import {
  goQuirkScenarios,
  goScenarios,
  guavaQuirkScenarios,
  guavaScenarios,
  rateOf,
  runGo,
  runGoQuirks,
  runGuava,
} from "./conformance.js";
import type { GoLimiter, GoReservation, GoScenario, GuavaLimiter, GuavaScenario } from "./conformance.js";

interface Face extends GoReservation {
  reservation: Reservation;
}

function goFace({ id, rate, burst }: GoScenario): GoLimiter<Face> {
  const sluice = Sluice.create({ capacity: 1, maxThreads: 1, clock: new ManualClock() });
  const limiter = new Limiter(rateOf(rate), burst, { sluice, name: id.slice(0, 90) });
  const ms = (ns: number) => ns / 1e6;
  return {
    allow: (atNs, cost) => limiter.allowN(ms(atNs), cost),
    reserve: (atNs, cost) => {
      const reservation = limiter.reserveN(ms(atNs), cost);
      return { granted: reservation.ok, delayNs: reservation.delayFrom(ms(atNs)) * 1e6, reservation };
    },
    cancel: (atNs, { reservation }) => reservation.cancelAt(ms(atNs)),
    tokens: (atNs) => limiter.tokensAt(ms(atNs)),
    setLimit: (atNs, to) => limiter.setLimitAt(ms(atNs), to),
    setBurst: (atNs, to) => limiter.setBurstAt(ms(atNs), to),
  };
}

function guavaFace({ id, permitsPerSecond, warmupUs, coldFactor }: GuavaScenario): GuavaLimiter {
  const clock = new ManualClock();
  const sluice = Sluice.create({ capacity: 1, maxThreads: 1, clock });
  const limiter = RateLimiter.create(permitsPerSecond, {
    home: { sluice, name: id },
    ...(warmupUs !== undefined && { warmupMs: warmupUs / 1e3, coldFactor }),
  });
  const at = (us: number) => clock.set(us / 1e3);
  return {
    acquire: (atUs, permits) => {
      at(atUs);
      return limiter.reserve(permits)! * 1e3;
    },
    tryAcquire: (atUs, permits, timeoutUs) => {
      at(atUs);
      const waitMs = limiter.reserve(permits, timeoutUs / 1e3);
      return waitMs === undefined ? undefined : waitMs * 1e3;
    },
    setRate: (atUs, rate) => {
      at(atUs);
      limiter.setRate(rate);
    },
  };
}

describe("sluice/go", () => {
  it("answers as golang.org/x/time/rate does in every recorded scenario", () => {
    const rows = goScenarios();
    expect(rows.length).toBe(407);
    expect(rows.flatMap((row) => runGo(row, goFace))).toEqual([]);
  });

  it("keeps the bound where Go's limiter grants tokens twice", () => {
    expect(goQuirkScenarios().flatMap((row) => runGoQuirks(row, goFace))).toEqual([]);
  });
});

describe("sluice/guava", () => {
  it("waits as Guava's bursty RateLimiter does in every recorded scenario", () => {
    const rows = guavaScenarios("bursty");
    expect(rows.length).toBe(91);
    expect(rows.flatMap((row) => runGuava(row, guavaFace))).toEqual([]);
  });

  it("waits as Guava's warming-up RateLimiter does in every recorded scenario", () => {
    const rows = guavaScenarios("warmingUp");
    expect(rows.length).toBe(88);
    expect(rows.flatMap((row) => runGuava(row, guavaFace))).toEqual([]);
  });

  it("keeps the rate where Guava, cutting charges to whole microseconds, does not", () => {
    for (const row of guavaQuirkScenarios().filter(({ kind }) => kind === "bursty")) {
      const limiter = guavaFace(row);
      let rate = row.permitsPerSecond;
      let sinceUs = 0;
      let granted = 0;
      let owed = 0;
      for (const op of row.ops) {
        // At most a second's worth stored, the flow since, and the last grant, for which the next one pays.
        owed += ((op.t - sinceUs) / 1e6) * rate;
        sinceUs = op.t;
        if (op.op === "setRate") {
          limiter.setRate(op.t, op.rate);
          rate = op.rate;
          granted = 0;
          owed = 0;
          continue;
        }
        const waitUs = op.op === "acquire" ? limiter.acquire(op.t, op.n) : limiter.tryAcquire(op.t, op.n, op.timeoutUs);
        if (waitUs === undefined) continue;
        expect(granted).toBeLessThanOrEqual(2 * rate + owed + ((waitUs + 1) / 1e6) * rate);
        granted += op.n;
      }
      expect(granted).toBeGreaterThan(0);
    }
  });
});
