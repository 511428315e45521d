// Scales: the numbers of a policy's clock, how the kernel reads them, and what
// happens to words when the scale changes.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Bucket } from "../../../src/engine/bucket/bucket.js";
import { define, Sluice } from "../../../src/engine/limiter/sluice.js";
import { ManualClock } from "../../../src/engine/manual-clock.js";
import { type BucketSegment, bucketSegments } from "../../../src/engine/policy/bucket-segment.js";
import type { Policy } from "../../../src/engine/policy/policy.js";
import { every, perDay, perHour, perMinute } from "../../../src/engine/policy/rate.js";
import type { Limits, ScaleLimits } from "../../../src/engine/policy/segment.js";
import { kernelConstants } from "../../../src/engine/table/kernel.js";
import type { Key } from "../../../src/engine/table/key.js";
import { fractionOf, ModelBucket } from "../../models/model.js";

const { at, wide } = kernelConstants();
const kernel: ScaleLimits = {
  vStart: wide.V_START,
  maxBurstUnits: wide.MAX_BURST_UNITS,
  quickPreShift: Number(wide.QUICK_PRE_SHIFT),
  unlimitedFlag: at.FLAG_UNLIMITED,
  forgets: at.FORGETS,
};

function firstSegment(wanted: Limits, nowNs: bigint, isGlobalOnly = false): BucketSegment {
  return bucketSegments.first(wanted, { nowNs, flags: 0, isGlobalOnly, ring: 0, kernel });
}

function nextSegment(segment: BucketSegment, v: bigint, t0: bigint, wanted: Limits): BucketSegment {
  return bucketSegments.next(segment, wanted, { t0, v, isAhead: false, isGlobalOnly: false, kernel });
}

/** The first reading of a scale. */
const startOf = (scale: number): bigint => wide.V_START + BigInt(4 * (scale % 2 ** 20) + (scale & 1));

const MAX_BURST = 2 ** 31 - 1;
const YEAR_NS = 31_557_600n * 1_000_000_000n;

const table: Limits[] = [];
for (
  const rate of [
    0,
    1e-9,
    1e-6,
    perDay(1),
    perHour(1),
    perMinute(1),
    0.1,
    0.3,
    1,
    3,
    7,
    10,
    every(3),
    1000,
    1e6,
    2 ** 20,
    1e9,
    2e9,
    3e9,
    4e9 / 2 ** 20,
    4e9 / 2 ** 20 + 1e-6,
    Infinity,
  ]
) {
  for (const burst of [0, 1, 2, 3, 10, 1000, 2 ** 16, 2 ** 16 + 1, 2 ** 30, 2 ** 30 + 1, MAX_BURST]) {
    table.push({ rate, burst, extra: 0 });
  }
}

const rates = fc.double({ min: -9, max: 9.5, noNaN: true }).map((power) => Math.min(3e9, Math.max(1e-9, 10 ** power)));
const bursts = fc.oneof(fc.nat(100), fc.nat(MAX_BURST));

/** A finite rate > 0, in tokens per ns. */
function tokensANs(rate: number): { over: bigint; under: bigint } {
  const { over, under } = fractionOf(rate);
  return { over, under: under * 1_000_000_000n };
}

/** round(over / under), halves up. */
function rounded(over: bigint, under: bigint): bigint {
  return (2n * over + under) / (2n * under);
}

/** What a segment's clock gains in `dt` ns, as the kernel has it. */
function flowed({ multiplier, preShift }: { multiplier: bigint; preShift: number }, dt: bigint): bigint {
  return ((((dt << BigInt(preShift)) * multiplier) >> 64n) + 2n) & ~3n;
}

const unitOf = ({ tokenShift }: BucketSegment): number => 2 ** -(tokenShift - 2);
const unitNs = (segment: BucketSegment): number => (unitOf(segment) * 1e9) / segment.limits.rate;

function checkSegment(segment: BucketSegment, nowNs: bigint): void {
  const { rate, burst } = segment.limits;
  expect(segment.t0).toBe(nowNs);
  expect(segment.v0).toBe(startOf(segment.scale));
  expect(segment.burstUnits).toBe(BigInt(burst) << BigInt(segment.tokenShift));
  expect(segment.burstUnits).toBeLessThanOrEqual(wide.MAX_BURST_UNITS);
  expect(segment.limitTokens).toBe(burst);
  expect((segment.flags & at.FLAG_UNLIMITED) !== 0).toBe(rate === Infinity);
  expect(segment.life).toBeGreaterThanOrEqual(30n * 31_556_952n * 1_000_000_000n - 10n ** 18n / 100n);
  expect(segment.life).toBeGreaterThanOrEqual(29n * YEAR_NS);
  // Nothing overflows in the kernel: neither the shifted time, nor the last reading and what may be added to it.
  expect(segment.preShift).toBe(Number(wide.QUICK_PRE_SHIFT));
  expect(segment.life << wide.QUICK_PRE_SHIFT).toBeLessThan(2n ** 64n);
  if (rate === 0 || rate === Infinity) {
    expect(segment.multiplier).toBe(0n);
    return;
  }
  expect(segment.multiplier).toBeLessThan(2n ** 64n);
  const last = segment.v0 + flowed(segment, segment.life);
  expect(last + wide.MAX_AHEAD + segment.burstUnits + 4n).toBeLessThan(2n ** 64n);
  // The multiplier is right to its last bit, which adds up to an eighth of a unit.
  const { over, under } = tokensANs(rate);
  expect(segment.multiplier).toBe(rounded(over << BigInt(segment.tokenShift + 64 - segment.preShift), under));
  expect((segment.life << wide.QUICK_PRE_SHIFT) / 2n).toBeLessThan(2n ** 64n / 2n);
  expect(segment.nsPerUnit).toBeCloseTo(unitNs(segment) / 4, 12);
}

describe("a first segment", () => {
  it.each(table)("for $rate tokens/s and a burst of $burst lasts thirty years and overflows nowhere", (wanted) => {
    for (const now of [0n, 1n, 10n ** 18n]) checkSegment(firstSegment(wanted, now), now);
  });

  it("for any rate and burst lasts thirty years and overflows nowhere", () => {
    fc.assert(
      fc.property(
        rates,
        bursts,
        (rate, burst) => checkSegment(firstSegment({ extra: 0, rate, burst }, 5n), 5n),
      ),
      { numRuns: 500 },
    );
  });

  it("fails the check with a wrong multiplier, a clock too short or another burst", () => {
    const segment = firstSegment({ extra: 0, rate: 10, burst: 10 }, 0n);
    checkSegment(segment, 0n);
    for (
      const wrong of [{ multiplier: segment.multiplier + 1n }, { life: YEAR_NS }, {
        burstUnits: segment.burstUnits + 4n,
      }, {
        preShift: segment.preShift - 1,
      }, { flags: at.FLAG_UNLIMITED }]
    ) {
      expect(() => checkSegment({ ...segment, ...wrong }, 0n)).toThrow();
    }
  });

  it("resolves half a nanosecond of refill or better, unless the burst or 2^-40 tokens stand in the way", () => {
    fc.assert(
      fc.property(rates, bursts, (rate, burst) => {
        const segment = firstSegment({ extra: 0, rate, burst }, 0n);
        const byBurst = 2 ** -(56 - Math.ceil(Math.log2(Math.max(1, burst))));
        if (unitOf(segment) > 2 ** -40 && unitOf(segment) > byBurst) expect(unitNs(segment)).toBeLessThanOrEqual(0.5);
        else expect(unitOf(segment)).toBeLessThanOrEqual(Math.max(2 ** -40, byBurst));
      }),
      { numRuns: 1000 },
    );
    for (const rate of [3e9, 2e9, 1e9, 1e6, 1000, 10, 1]) {
      expect(unitNs(firstSegment({ extra: 0, rate, burst: 1000 }, 0n))).toBeLessThanOrEqual(0.5);
    }
  });

  it("resolves a microsecond or better down to one token a day with a burst of 1", () => {
    for (const rate of [perDay(1), perHour(1), perMinute(1), 0.001, 0.01, 0.1]) {
      expect(unitNs(firstSegment({ extra: 0, rate, burst: 1 }, 0n))).toBeLessThanOrEqual(1000);
    }
  });

  it("of a policy that has only its global bucket resolves a billionth of a token", () => {
    for (const wanted of table) {
      const segment = firstSegment(wanted, 0n, true);
      expect(unitOf(segment)).toBeLessThanOrEqual(
        Math.max(2 ** -30, 2 ** -(56 - Math.ceil(Math.log2(Math.max(1, wanted.burst))))),
      );
      expect(segment.burstUnits).toBe(BigInt(wanted.burst) << BigInt(segment.tokenShift));
    }
  });
});

describe("the next segment", () => {
  it("goes on in the same units where they serve, else begins under the next scale; both for thirty years", () => {
    let again = 0;
    let anew = 0;
    fc.assert(
      fc.property(
        rates,
        bursts,
        fc.array(
          fc.record({
            rate: rates,
            burst: bursts,
            extra: fc.constant(0),
            share: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 0.9, noNaN: true })),
          }),
          { maxLength: 8 },
        ),
        (rate, burst, list) => {
          let segment = firstSegment({ extra: 0, rate, burst }, 0n);
          for (const { share, ...wanted } of list) {
            const dt = BigInt(Math.floor(share * Number(segment.life)));
            const now = segment.t0 + dt;
            const v = segment.v0 + flowed(segment, dt);
            const next = nextSegment(segment, v, now, wanted);
            expect(next.limits).toEqual(wanted);
            expect(next.t0).toBe(now);
            expect(next.life).toBeGreaterThanOrEqual(29n * YEAR_NS);
            expect(next.burstUnits).toBe(BigInt(wanted.burst) << BigInt(next.tokenShift));
            expect(next.burstUnits).toBeLessThanOrEqual(wide.MAX_BURST_UNITS);
            // Hot calls rely on this.
            expect(next.preShift).toBe(Number(wide.QUICK_PRE_SHIFT));
            if (next.scale === segment.scale) {
              again++;
              expect(next).toMatchObject({
                v0: v,
                tokenShift: segment.tokenShift,
                lastStart: segment.lastStart,
                lastShift: segment.lastShift,
              });
            } else {
              anew++;
              checkSegment(next, now);
              expect(next.scale).toBe(segment.scale + 1);
              expect(next.v0).toBe(startOf(next.scale));
              expect(next).toMatchObject({
                lastStart: v & ~3n,
                lastShift: next.tokenShift - segment.tokenShift,
                secondLastStart: segment.lastStart,
                secondLastShift: segment.lastShift,
              });
            }
            segment = next;
          }
        },
      ),
      { numRuns: 300 },
    );
    expect(Math.min(again, anew)).toBeGreaterThan(50);
  });

  it.each([[1000, 2000], [1, 2], [3, 6.1], [1e6, 2.001e6], [1e9, 2.1e9]])(
    "keeps the pre-shift of hot calls when the rate goes from %d to %d",
    (rate, to) => {
      const segment = firstSegment({ rate, burst: 10, extra: 0 }, 0n);
      expect(nextSegment(segment, segment.v0, 0n, { rate: to, burst: 10, extra: 0 }).preShift).toBe(
        Number(wide.QUICK_PRE_SHIFT),
      );
    },
  );

  it("does not begin before the one that it follows", () => {
    const { policy } = tableOf(10, 10);
    policy.setAt({ rate: 20 }, 1000);
    policy.setAt({ rate: 30 }, 5);
    expect(numbersOf(policy).t0).toBe(1_000_000_000n);
    expect(policy.rate).toBe(30);
  });
});

// The kernel's part, through a table of its own.

function tableOf(
  rate: number,
  burst: number,
): { clock: ManualClock; policy: Policy; sluice: Sluice; bucket: (key: Key) => Bucket } {
  const clock = new ManualClock();
  const sluice = Sluice.create({ capacity: 100, clock, maxThreads: 1 });
  const policy = define(sluice, "p", "tokenBucket", { rate, burst, extra: 0 });
  return { clock, policy, sluice, bucket: (key) => new Bucket(policy, key) };
}

function numbersOf(
  policy: Policy,
): { v0: bigint; t0: bigint; multiplier: bigint; preShift: number; tokenShift: number; side: number; end: bigint } {
  const { longs, words, at: { POLICY_SEGMENT, SEGMENT_BYTES } } = policy.table;
  const segment = policy.record + POLICY_SEGMENT + (policy.version & 1) * SEGMENT_BYTES;
  const long = (offset: number): bigint => longs[(segment + offset) / 8];
  const word = (offset: number): number => words[(segment + offset) / 4];
  return {
    v0: long(at.BUCKET_V0),
    t0: long(at.SEGMENT_T0),
    multiplier: long(at.BUCKET_MULTIPLIER),
    preShift: word(at.BUCKET_PRE_SHIFT),
    tokenShift: word(at.BUCKET_TOKEN_SHIFT),
    side: word(at.BUCKET_SCALE) & 1,
    end: long(at.SEGMENT_T0) + long(at.SEGMENT_LIFE),
  };
}

const unitIn = (policy: Policy): number => 2 ** -(numbersOf(policy).tokenShift - 2);

function readingAt(policy: Policy, ms: number): bigint {
  return BigInt.asUintN(64, policy.table.kernel.readingOf(policy.record, ms));
}

/** Fails unless the kernel reads v0 + round(dt x rate). */
function checkReading(policy: Policy, ms: number): void {
  const now = BigInt(Math.round(ms * 1e6));
  const { v0, t0, multiplier, preShift, tokenShift, end } = numbersOf(policy);
  const dt = now < t0 ? 0n : now > end ? end - t0 : now - t0;
  const gained = readingAt(policy, ms) - v0;
  // The arithmetic, bit for bit.
  expect(gained).toBe(flowed({ multiplier, preShift }, dt));
  if (policy.rate === 0 || policy.rate === Infinity) return;
  // The true rate: the same, except where the multiplier's last bit decides on which side of a half it is.
  const { over, under } = tokensANs(policy.rate);
  const parts = under << 67n;
  const exact = (dt * over) << BigInt(tokenShift - 2 + 67);
  const doubt = (dt << BigInt(preShift)) * under;
  expect(gained / 4n).toBeGreaterThanOrEqual(rounded(exact - doubt, parts));
  expect(gained / 4n).toBeLessThanOrEqual(rounded(exact + doubt, parts));
}

describe("the kernel", () => {
  const times = fc.oneof(
    fc.nat(1e9).map((ns) => ns / 1e6),
    fc.double({ min: 0, max: 30 * 365.2425 * 86_400_000, noNaN: true }),
    fc.constantFrom(0, 1e-6, 1, 1000, 86_400_000, 30 * 365.2425 * 86_400_000, 40 * 365 * 86_400_000),
  );

  it("reads v0 + round(dt x rate) at any time of thirty years", () => {
    const { clock, policy } = tableOf(10, 10);
    let last = policy;
    for (const { rate, burst } of table) {
      clock.set(0);
      last.set({ rate, burst });
      for (
        const ms of [
          0,
          1e-6,
          1,
          99.999999,
          100,
          1000,
          86_400_000,
          365 * 86_400_000,
          29.9 * 365.2425 * 86_400_000,
          40 * 365 * 86_400_000,
        ]
      ) checkReading(last, ms);
    }
    fc.assert(
      fc.property(rates, bursts, fc.array(times, { minLength: 5, maxLength: 20 }), (rate, burst, list) => {
        clock.set(list[0] / 30);
        last.set({ rate, burst });
        for (const ms of list) checkReading(last, ms);
      }),
      { numRuns: 300 },
    );
    expect(() => {
      clock.set(0);
      last = tableOf(10, 10).policy;
      last.table.longs[(last.record + at.POLICY_SEGMENT + at.BUCKET_MULTIPLIER) / 8] -= 1n << 10n;
      checkReading(last, 365 * 86_400_000);
    }).toThrow();
  });

  it("does not read less later, to the nanosecond", () => {
    const { policy } = tableOf(3e9, 1);
    for (let ns = 1; ns < 1000; ns++) {
      expect(readingAt(policy, ns / 1e6)).toBeGreaterThan(readingAt(policy, (ns - 1) / 1e6));
    }
  });
});

describe("a change of scale", () => {
  const there = [1000, 1, 1e6, 0.001, 3e9, perDay(1), 50, 1e-9, 1e9, 0];

  /** Buckets with all sorts of contents, by their tokens. */
  function variety(policy: Policy, bucket: (key: Key) => Bucket, most: number): { name: string; bucket: Bucket }[] {
    const kinds: [string, number][] = [
      ["empty", 0],
      ["half a token", 0.5],
      ["one token", 1],
      ["a third", 1 / 3],
      ["full", most],
      ["almost full", most - 2 ** -10],
      ["owing one", -1],
      ["owing 100.7", -100.7],
    ];
    return kinds.map(([name, tokens]) => {
      const each = bucket(name);
      expect(each.decide(policy.table.at.CONSUME, 1, policy.table.clock.now())).toBe(true);
      each.setTokens(tokens);
      return { name, bucket: each };
    });
  }

  it.each([
    ["that are not used", false],
    ["that are written under every scale", true],
  ])(
    "there and back, again and again, costs keys %s less than a unit each time and never gives them tokens",
    (_, isWritten) => {
      const { policy, bucket } = tableOf(1, 1000);
      const buckets = variety(policy, bucket, 1000);
      const before = buckets.map((each) => each.bucket.tokens());
      let changes = 0;
      let lost = 0;
      for (let round = 0; round < 3; round++) {
        for (const rate of there) {
          const { side } = numbersOf(policy);
          const unit = unitIn(policy);
          policy.set({ rate });
          if (numbersOf(policy).side !== side) {
            changes++;
            lost += Math.max(unit, unitIn(policy));
          }
          buckets.forEach((each, i) => {
            if (isWritten) {
              each.bucket.decide(policy.table.at.CONSUME | policy.table.at.DEBT, 1, 0);
              each.bucket.refund(1);
            }
            const tokens = each.bucket.tokens();
            expect(tokens, `${each.name} at ${rate}/s`).toBeLessThanOrEqual(before[i]);
            expect(tokens, `${each.name} at ${rate}/s`).toBeGreaterThan(before[i] - lost - 2 ** -30);
          });
        }
      }
      expect(changes).toBeGreaterThan(12);
    },
  );

  it.each([1, 2, 3, 4, 5, 6, 7])(
    "leaves keys that were not used for %i changes what they had, less a unit",
    (count) => {
      const { policy, bucket } = tableOf(1, 1000);
      const buckets = variety(policy, bucket, 1000);
      const before = buckets.map((each) => each.bucket.tokens());
      let coarsest = unitIn(policy);
      for (let i = 0; i < count; i++) {
        const { side } = numbersOf(policy);
        policy.set({ rate: i % 2 ? 1 : 1e6 });
        expect(numbersOf(policy).side).not.toBe(side);
        coarsest = Math.max(coarsest, unitIn(policy));
      }
      buckets.forEach((each, i) => {
        const tokens = each.bucket.tokens();
        expect(tokens, each.name).toBeLessThanOrEqual(before[i]);
        expect(tokens, each.name).toBeGreaterThan(before[i] - 2 * coarsest);
      });
    },
  );

  it("after a long time under each scale still leaves each key what the exact model says", () => {
    const { clock, policy, bucket } = tableOf(1, 1000);
    const names = ["used", "untouched", "in debt"];
    const models = names.map(() => new ModelBucket({ rate: 1, burst: 1000, nowNs: 0n }));
    const costs = [1000, 1000, 3000];
    const { CONSUME, DEBT } = policy.table.at;
    names.forEach((name, i) => {
      bucket(name).decide(CONSUME | DEBT, costs[i], 0);
      models[i].charge(0n, costs[i]);
    });
    let nowNs = 0n;
    let slack = 0;
    for (
      const [seconds, rate] of [[3, 1e6], [0.0001, 0.01], [2000, 1e5], [0.002, 1], [10, 1e6], [0.0003, 3], [50, 1000], [
        0.1,
        0.1,
      ], [3000, 1]]
    ) {
      nowNs += BigInt(Math.round(seconds * 1e9));
      clock.set(Number(nowNs) / 1e6);
      slack += unitIn(policy);
      policy.set({ rate });
      slack += unitIn(policy);
      models.forEach((model) => model.setRate(nowNs, rate));
      names.forEach((name, i) => {
        if (name === "untouched" && nowNs < 5000n * 1_000_000_000n) return;
        expect(Math.abs(bucket(name).tokens() - models[i].peekTokens(nowNs)), `${name} after ${seconds} s, ${rate}/s`)
          .toBeLessThan(slack);
      });
    }
  });

  it("keeps full a key that was never seen, and a full one", () => {
    const { policy, bucket } = tableOf(1, 1000);
    bucket("full").decide(policy.table.at.CONSUME, 1, 0);
    bucket("full").setTokens(1000);
    for (const rate of there) {
      policy.set({ rate });
      expect(bucket("unseen").tokens()).toBe(1000);
      expect(bucket("full").tokens()).toBe(1000);
    }
  });

  it("does not fill a key that has waited through two scales for less than its burst", () => {
    const { clock, policy, bucket } = tableOf(0.001, 10);
    bucket("k").decide(policy.table.at.CONSUME, 10, 0);
    policy.set({ rate: 1e6 });
    clock.set(5000);
    policy.set({ burst: 100_000_000 });
    expect(bucket("k").tokens()).toBeCloseTo(5e6, 0);
    policy.set({ rate: 3e9 });
    expect(bucket("k").tokens()).toBeLessThanOrEqual(5e6);
    expect(bucket("k").tokens()).toBeGreaterThan(4e6);
  });

  it.each([1000, 100_000, 131_000, 1_000_000])(
    "keeps a debt of up to 2^17 tokens, for which every scale has room: of %i tokens",
    (debt) => {
      const { policy, bucket } = tableOf(1e6, 1000);
      const { CONSUME, DEBT } = policy.table.at;
      bucket("k").decide(CONSUME | DEBT, 1000 + debt, 0);
      let charged = debt;
      for (const rate of [0.001, 1e6, 1, 1e9, 0.001, 10]) {
        policy.set({ rate });
        // A decision that writes leaves the word in this scale.
        bucket("k").decide(CONSUME | DEBT, 1, 0);
        charged++;
        expect(bucket("k").tokens()).toBeLessThanOrEqual(-Math.min(charged, 2 ** 17));
        expect(bucket("k").tokens()).toBeGreaterThan(-charged - 1);
      }
    },
  );

  it("to a larger burst makes room without filling it", () => {
    const { policy, bucket } = tableOf(1, 10);
    bucket("k").decide(policy.table.at.CONSUME, 10, 0);
    policy.set({ burst: MAX_BURST });
    expect(bucket("k").tokens()).toBeLessThanOrEqual(0);
    expect(bucket("k").tokens()).toBeGreaterThan(-2 * unitIn(policy));
    expect(bucket("unseen").tokens()).toBe(MAX_BURST);
  });
});

describe("an infinite rate", () => {
  it.each([1, 2, 3, 4, 5])("leaves every key full when it ends, the %ith time too", (times) => {
    const { policy, bucket, clock } = tableOf(1, 10);
    const { CONSUME, DEBT, GLOBAL } = policy.table.at;
    for (let i = 0; i < times; i++) {
      bucket("empty").decide(CONSUME, 10, clock.nowMs);
      bucket("in debt").decide(CONSUME | DEBT, 30, clock.nowMs);
      policy.table.kernel.decide(policy.record, CONSUME | GLOBAL, 10, clock.nowMs, 0);
      if (i === 0) bucket("once").decide(CONSUME, 10, clock.nowMs);
      clock.advance(1);
      policy.set({ rate: Infinity });
      expect(bucket("empty").tokens()).toBe(10);
      clock.advance(1);
      policy.set({ rate: 1 });
      for (const key of ["empty", "in debt", "once", "unseen"]) expect(bucket(key).tokens(), key).toBe(10);
      expect(new Bucket(policy, undefined).tokens()).toBe(10);
    }
  });

  it("leaves keys full whatever scales come after it", () => {
    const { policy, bucket } = tableOf(1, 10);
    const { CONSUME } = policy.table.at;
    bucket("k").decide(CONSUME, 10, 0);
    policy.set({ rate: Infinity });
    policy.set({ rate: 1 });
    for (const rate of [1e6, 0.001, 1e9, 1, 1000]) {
      policy.set({ rate });
      expect(bucket("k").tokens()).toBe(10);
    }
    policy.set({ burst: 1_000_000 });
    expect(bucket("k").tokens()).toBe(1_000_000);
  });

  it("writes no word", () => {
    const { policy, bucket, sluice } = tableOf(Infinity, 10);
    for (let i = 0; i < 20; i++) expect(bucket(i).decide(policy.table.at.CONSUME, 1000, 0)).toBe(true);
    expect(sluice.audit()).toMatchObject({ clean: true, used: 0 });
  });
});
