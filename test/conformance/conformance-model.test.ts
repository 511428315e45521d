// The models against the recorded behaviour of Go's and Guava's limiters, so
// that they can judge the kernel; and the replay against limiters that are
// wrong, to show that it fires.

import { describe, expect, it } from "vitest";
import { fractionOf, meantBy, ModelBucket, ModelGuava, quotient } from "../models/model.js";
import type { ModelReservation } from "../models/model.js";
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
import type { GoLimiter, GoScenario, GuavaLimiter, GuavaScenario } from "./conformance.js";

function goModel({ rate, burst }: GoScenario): GoLimiter<ModelReservation> {
  const meant = (it: number) => (it === Infinity ? it : meantBy(it));
  const bucket = new ModelBucket({ rate: meant(rateOf(rate)), burst, nowNs: 0n, settles: true, cutsWaits: true });
  return {
    allow: (atNs, cost) => bucket.allow(BigInt(atNs), cost),
    reserve: (atNs, cost) => bucket.reserve(BigInt(atNs), cost, Infinity, true),
    cancel: (atNs, reservation) => void bucket.cancel(BigInt(atNs), reservation.ticket),
    tokens: (atNs) => bucket.peekTokens(BigInt(atNs)),
    setLimit: (atNs, to) => bucket.setRate(BigInt(atNs), meant(to)),
    setBurst: (atNs, to) => bucket.setBurst(BigInt(atNs), to),
  };
}

function guavaModel({ permitsPerSecond }: GuavaScenario): GuavaLimiter {
  const limiter = new ModelGuava({ rate: permitsPerSecond, nowNs: 0n });
  const ns = (us: number) => BigInt(us) * 1000n;
  return {
    acquire: (atUs, permits) => limiter.acquire(ns(atUs), permits) / 1000,
    tryAcquire: (atUs, permits, timeoutUs) => {
      const { granted, delayNs } = limiter.tryAcquire(ns(atUs), permits, ns(timeoutUs));
      return granted ? delayNs / 1000 : undefined;
    },
    setRate: (atUs, rate) => limiter.setRate(ns(atUs), rate),
  };
}

/** Repeats the recorded answers, whatever it is asked. */
function goRecording({ ops }: GoScenario): GoLimiter {
  let next = 0;
  let tokens = 0;
  const step = () => {
    const op = ops[next++];
    tokens = op.tokens ?? tokens;
    return op;
  };
  return {
    allow: () => {
      const op = step();
      return op.op === "allow" && op.ok;
    },
    reserve: () => {
      const op = step();
      if (op.op !== "reserve") throw new Error(`expected a reserve, got ${op.op}`);
      return { granted: op.ok, delayNs: op.delay === "inf" ? Infinity : op.delay };
    },
    cancel: () => void step(),
    tokens: () => tokens,
    setLimit: () => void step(),
    setBurst: () => void step(),
  };
}

describe("the model bucket", () => {
  it("agrees with every recorded row of Go's limiter", () => {
    const rows = goScenarios();
    expect(rows).toHaveLength(407);
    expect(rows.flatMap((row) => runGo(row, goModel))).toEqual([]);
  });

  it("keeps the bound where Go does not: time going backwards, double cancels", () => {
    const rows = goQuirkScenarios();
    expect(rows).toHaveLength(40);
    expect(rows.flatMap((row) => runGoQuirks(row, goModel))).toEqual([]);
  });
});

describe("the model of Guava's bursty limiter", () => {
  it("agrees with every recorded bursty row", () => {
    const rows = guavaScenarios("bursty");
    expect(rows).toHaveLength(91);
    expect(rows.flatMap((row) => runGuava(row, guavaModel))).toEqual([]);
  });

  it("keeps its rate where Guava's rounding to microseconds exceeds it", () => {
    for (const row of guavaQuirkScenarios()) {
      const limiter = new ModelGuava({ rate: row.permitsPerSecond, nowNs: 0n });
      let taken = 0;
      let lastNs = 0;
      for (const op of row.ops) {
        if (op.op !== "acquire") continue;
        lastNs = limiter.acquire(0n, op.n);
        expect(lastNs / 1e9).toBeCloseTo(taken / row.permitsPerSecond, 12);
        taken += op.n;
      }
      expect(lastNs).toBeGreaterThan(0);
    }
  });
});

describe("the replay", () => {
  const seconds = 1e9;
  const row: GoScenario = {
    id: "made/up",
    rate: 1,
    burst: 2,
    ops: [
      { op: "allow", t: 0, n: 2, ok: true, tokens: 0 },
      { op: "reserve", t: 0, n: 1, id: "r1", ok: true, delay: 1 * seconds, tokens: -1 },
      { op: "cancel", t: 0, id: "r1", tokens: 0 },
      { op: "allow", t: 1, n: 1, ok: false },
    ],
  };

  it("accepts the right answers", () => {
    expect(runGo(row, goModel)).toEqual([]);
    expect(runGo(row, goRecording)).toEqual([]);
  });

  it("names a wrong answer, a wrong delay and wrong tokens", () => {
    const wrong = (change: Partial<GoLimiter<ModelReservation>>) =>
      runGo(row, (scenario) => ({ ...goModel(scenario), ...change }));
    expect(wrong({ allow: () => true })).toContain("made/up op 3 allow ok: expected false, got true");
    expect(wrong({ cancel: () => undefined })).toEqual(["made/up op 2 cancel tokens: expected 0, got -1"]);
    const late = runGo(row, (scenario) => {
      const model = goModel(scenario);
      return { ...model, reserve: (atNs, cost) => ({ ...model.reserve(atNs, cost), delayNs: seconds + 2000 }) };
    });
    expect(late).toEqual(["made/up op 1 reserve delay ns: expected 1000000000, got 1000002000"]);
  });

  it("accepts either answer at an edge, and only there", () => {
    const atEdge: GoScenario = {
      ...row,
      ops: [{ op: "allow", t: 0, n: 3, ok: true, edge: true }, { op: "allow", t: 0, n: 3, ok: true }],
    };
    expect(runGo(atEdge, goModel)).toEqual([]);
    expect(runGo({ ...atEdge, ops: atEdge.ops.slice(1) }, goModel)).toHaveLength(1);
  });

  it("catches Go itself granting too much", () => {
    const found = goQuirkScenarios().flatMap((quirk) => runGoQuirks(quirk, goRecording));
    expect(found.some((text) => text.includes("admitted by"))).toBe(true);
    expect(found.some((text) => text.includes("second cancel"))).toBe(true);
  });

  it("names a wrong wait and a wrong answer of Guava's", () => {
    const taken: GuavaScenario = {
      id: "made/up",
      kind: "bursty",
      permitsPerSecond: 1,
      ops: [
        { op: "acquire", t: 0, n: 1, waitUs: 0 },
        { op: "tryAcquire", t: 0, n: 1, timeoutUs: 900_000, ok: false },
        { op: "acquire", t: 0, n: 1, waitUs: 1_000_000 },
      ],
    };
    expect(runGuava(taken, guavaModel)).toEqual([]);
    const never: GuavaLimiter = { acquire: () => 0, tryAcquire: () => 0, setRate: () => undefined };
    expect(runGuava(taken, () => never)).toEqual([
      "made/up op 1 tryAcquire ok: expected false, got true",
      "made/up op 2 acquire wait us: expected 1000000, got 0",
    ]);
  });

  it("accepts another answer than Guava's only next to the boundary", () => {
    const asked = (timeoutUs: number): GuavaScenario => ({
      id: "made/up",
      kind: "bursty",
      permitsPerSecond: 1,
      ops: [
        { op: "acquire", t: 0, n: 1, waitUs: 0 },
        { op: "tryAcquire", t: 0, n: 1, timeoutUs, ok: false },
        { op: "acquire", t: 0, n: 1, waitUs: 1_000_000 },
      ],
    });
    expect(runGuava(asked(1_000_001), guavaModel)).toEqual([]);
    expect(runGuava(asked(1_000_002), guavaModel)).not.toEqual([]);
  });
});

describe("a rate as a fraction", () => {
  it("is the double's exact value, or the simplest that rounds to it", () => {
    expect(fractionOf(0.75)).toEqual({ over: 3n, under: 4n });
    expect(fractionOf(0.1).under).toBe(1n << 55n);
    expect(fractionOf(0)).toEqual({ over: 0n, under: 1n });
    expect(meantBy(0.1)).toEqual({ over: 1n, under: 10n });
    expect(meantBy(1 / 86400)).toEqual({ over: 1n, under: 86400n });
    expect(meantBy(1000 / 7)).toEqual({ over: 1000n, under: 7n });
    expect(meantBy(4e9)).toEqual({ over: 4_000_000_000n, under: 1n });
    expect(meantBy(0)).toEqual({ over: 0n, under: 1n });
  });

  it("rounds back to the double it came from", () => {
    for (const value of [1e-9, 0.3, 2 / 3, Math.PI, 537126940.8973286, 2 ** 52, 2 ** -30]) {
      for (const { over, under } of [fractionOf(value), meantBy(value)]) {
        expect(quotient(over, under)).toBe(value);
      }
    }
  });
});

describe("the model bucket's own rules", () => {
  const second = 1_000_000_000n;
  const make = (rate = 10, burst = 5, settles = false) => new ModelBucket({ rate, burst, nowNs: 0n, settles });

  it("never grants a cost above the burst", () => {
    const bucket = make();
    expect(bucket.allow(0n, 6)).toBe(false);
    expect(bucket.reserve(0n, 6, Infinity, true)).toMatchObject({ granted: false, delayNs: Infinity });
    expect(bucket.peekTokens(0n)).toBe(5);
  });

  it("admits on the exact boundary and not a nanosecond before", () => {
    const bucket = make();
    bucket.charge(0n, 5);
    expect(bucket.waitNs(0n, 1)).toBe(1e8);
    expect(bucket.allow(second / 10n - 1n, 1)).toBe(false);
    expect(bucket.allow(second / 10n, 1)).toBe(true);
  });

  it("refuses a wait that is too long, writes nothing and says how long it would be", () => {
    const bucket = make();
    bucket.charge(0n, 5);
    expect(bucket.reserve(0n, 1, 99_999_999)).toMatchObject({ granted: false, delayNs: 1e8 });
    expect(bucket.peekTokens(0n)).toBe(0);
    expect(bucket.reserve(0n, 1, 100_000_000)).toMatchObject({ granted: true, delayNs: 1e8 });
  });

  it("gives back what no later reservation relies on, once, and only until the reserved time", () => {
    const bucket = make();
    bucket.charge(0n, 5);
    const first = bucket.reserve(0n, 3, Infinity);
    const second = bucket.reserve(0n, 2, Infinity);
    expect(bucket.cancel(0n, first.ticket)).toBe(true);
    expect(bucket.peekTokens(0n)).toBe(-4);
    expect(bucket.cancel(0n, first.ticket)).toBe(false);
    expect(bucket.peekTokens(0n)).toBe(-4);
    expect(bucket.cancel(500_000_000n, second.ticket)).toBe(true);
    expect(bucket.peekTokens(500_000_000n)).toBe(3);
  });

  it("does nothing for a cancel that came too late, even if time then goes back", () => {
    const bucket = make();
    bucket.charge(0n, 5);
    const reservation = bucket.reserve(0n, 3, Infinity);
    expect(bucket.cancel(300_000_001n, reservation.ticket)).toBe(false);
    expect(bucket.cancel(300_000_000n, reservation.ticket)).toBe(false);
    expect(bucket.peekTokens(0n)).toBe(-3);
  });

  it("adds nothing for time that goes backwards", () => {
    const bucket = make();
    expect(bucket.allow(second, 5)).toBe(true);
    expect(bucket.allow(0n, 1)).toBe(false);
    expect(bucket.allow(second, 1)).toBe(false);
    bucket.setRate(second, 20);
    expect(bucket.peekTokens(0n)).toBe(0);
  });

  it("at a rate of 0 grants the burst once, and more only with evenNever", () => {
    const bucket = make(0);
    expect(bucket.allow(0n, 5)).toBe(true);
    expect(bucket.allow(second * 1_000_000n, 1)).toBe(false);
    expect(bucket.reserve(second, 1, Infinity).granted).toBe(false);
    const never = bucket.reserve(second, 1, Infinity, true);
    expect(never).toMatchObject({ granted: true, delayNs: Infinity });
    expect(bucket.peekTokens(second)).toBe(-1);
    expect(bucket.cancel(second * 9n, never.ticket)).toBe(true);
    expect(bucket.peekTokens(second * 9n)).toBe(0);
  });

  it("admits everything while the rate is infinite, and is full afterwards", () => {
    const bucket = make();
    const reservation = bucket.reserve(0n, 5, Infinity);
    bucket.charge(0n, 100);
    bucket.setRate(0n, Infinity);
    expect(bucket.allow(0n, 1_000_000)).toBe(true);
    bucket.setRate(second, 10);
    expect(bucket.peekTokens(second)).toBe(5);
    expect(bucket.allow(second, 5)).toBe(true);
    expect(bucket.cancel(0n, reservation.ticket)).toBe(false);
    expect(bucket.peekTokens(second)).toBe(0);
  });

  it("caps at the old burst when the burst grows, or keeps a full bucket full", () => {
    for (const [settles, tokens] of [[true, 5], [false, 8]] as const) {
      const bucket = make(10, 5, settles);
      bucket.setBurst(second, 8);
      expect(bucket.peekTokens(second)).toBe(tokens);
    }
  });

  it("keeps tokens and reservations exactly across a change of rate", () => {
    const bucket = make(1, 5);
    bucket.charge(0n, 5);
    const reservation = bucket.reserve(0n, 2, Infinity);
    bucket.setRate(second, meantBy(1 / 3));
    expect(bucket.peekTokens(second)).toBe(-1);
    expect(bucket.waitNs(second, 1)).toBe(6e9);
    expect(bucket.rate).toBe(1 / 3);
    expect(bucket.cancel(second, reservation.ticket)).toBe(true);
    expect(bucket.peekTokens(second)).toBe(1);
  });

  it("cuts waits to whole nanoseconds only if it is set to, as Go does", () => {
    for (const cutsWaits of [false, true]) {
      const bucket = new ModelBucket({ rate: 6e8, burst: 1, nowNs: 0n, cutsWaits });
      expect(bucket.allow(0n, 1)).toBe(true);
      expect(bucket.peekTokens(1n)).toBeCloseTo(0.6, 15);
      expect(bucket.allow(1n, 1)).toBe(cutsWaits);
    }
  });

  it("refunds up to the burst, and forgets a debt when reset", () => {
    const bucket = make();
    bucket.charge(0n, 7);
    expect(bucket.peekTokens(0n)).toBe(-2);
    bucket.refund(0n, 3);
    expect(bucket.peekTokens(0n)).toBe(1);
    bucket.refund(0n, 30);
    expect(bucket.peekTokens(0n)).toBe(5);
    bucket.charge(0n, 100);
    bucket.reset();
    expect(bucket.isFresh(0n)).toBe(true);
  });
});
