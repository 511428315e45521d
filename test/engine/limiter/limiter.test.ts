// Decisions and their answers, as tables with a time axis. Rate 10/s and a
// burst of 5 unless a table says otherwise: a token every 100 ms.

import {
  type Decision,
  every,
  type KeyedLimiter,
  type Limiter,
  ManualClock,
  perDay,
  perHour,
  perMinute,
  perSecond,
  Sluice,
  SluiceError,
} from "sluice";
import { describe, expect, it } from "vitest";
import { callsOf } from "../../tables.js";

const MAX_COST = 2 ** 31 - 1;

function limiterOf(rate = 10, burst = 5): { clock: ManualClock; sluice: Sluice; limiter: Limiter } {
  const clock = new ManualClock();
  const sluice = Sluice.create({ capacity: 100, clock, maxThreads: 1 });
  return { clock, sluice, limiter: sluice.tokenBucket("test", { rate, burst }) };
}

type Row = [
  atMs: number,
  cost: number,
  decision: [allowed: boolean, remaining: number, retryAfterMs: number, resetMs: number],
];

const tables: Record<string, { rate?: number; burst?: number; rows: Row[] }> = {
  "a bucket is full at first, empties, and refills a token at a time": {
    rows: [
      [0, 1, [true, 4, 0, 100]],
      [0, 4, [true, 0, 0, 500]],
      [0, 1, [false, 0, 100, 500]],
      [99.999999, 1, [false, 0, 0.000001, 400.000001]],
      [100, 1, [true, 0, 0, 500]],
      [250, 1, [true, 0, 0, 450]],
      [300, 1, [true, 0, 0, 500]],
      [799.999999, 5, [false, 4, 0.000001, 0.000001]],
      [800, 5, [true, 0, 0, 500]],
    ],
  },
  "it holds no more than the burst, however long it waits": {
    rows: [
      [0, 5, [true, 0, 0, 500]],
      [86_400_000, 0, [true, 5, 0, 0]],
      [86_400_000, 5, [true, 0, 0, 500]],
      [86_400_000, 1, [false, 0, 100, 500]],
    ],
  },
  "a cost is taken whole or not at all": {
    rows: [
      [0, 3, [true, 2, 0, 300]],
      [0, 3, [false, 2, 100, 300]],
      [0, 2, [true, 0, 0, 500]],
      [150, 2, [false, 1, 50, 350]],
      [200, 2, [true, 0, 0, 500]],
    ],
  },
  "a cost of 0 asks and takes nothing": {
    rows: [
      [0, 0, [true, 5, 0, 0]],
      [0, 5, [true, 0, 0, 500]],
      [0, 0, [true, 0, 0, 500]],
      [50, 0, [true, 0, 0, 450]],
    ],
  },
  "a cost above the burst can never be had, whether the bucket is full or empty": {
    rows: [
      [0, 6, [false, 5, Infinity, 0]],
      [0, MAX_COST, [false, 5, Infinity, 0]],
      [0, 5, [true, 0, 0, 500]],
      [0, 6, [false, 0, Infinity, 500]],
      [1e6, 6, [false, 5, Infinity, 0]],
    ],
  },
  "the largest burst and cost are as good as any": {
    burst: MAX_COST,
    rows: [
      [0, MAX_COST, [true, 0, 0, 214_748_364_700]],
      [0, 1, [false, 0, 100, 214_748_364_700]],
      [100, 1, [true, 0, 0, 214_748_364_700]],
      [1000, MAX_COST, [false, 9, 214_748_363_800, 214_748_363_800]],
    ],
  },
  "a burst of 0 admits a cost of 0 only": {
    burst: 0,
    rows: [
      [0, 0, [true, 0, 0, 0]],
      [0, 1, [false, 0, Infinity, 0]],
      [1e6, 1, [false, 0, Infinity, 0]],
    ],
  },
  "rate 0 spends the burst once": {
    rate: 0,
    rows: [
      [0, 3, [true, 2, 0, Infinity]],
      [1e9, 3, [false, 2, Infinity, Infinity]],
      [1e9, 2, [true, 0, 0, Infinity]],
      [2e9, 1, [false, 0, Infinity, Infinity]],
      [2e9, 0, [true, 0, 0, Infinity]],
    ],
  },
  "an infinite rate admits everything, above the burst too": {
    rate: Infinity,
    rows: [
      [0, 5, [true, 5, 0, 0]],
      [0, 6, [true, 5, 0, 0]],
      [0, MAX_COST, [true, 5, 0, 0]],
      [0, 0, [true, 5, 0, 0]],
    ],
  },
  "fractions of a token are kept, and only whole ones said to remain": {
    rows: [
      [0, 5, [true, 0, 0, 500]],
      [150, 0, [true, 1, 0, 350]],
      [150, 1, [true, 0, 0, 450]],
      [200, 1, [true, 0, 0, 500]],
    ],
  },
  "one token a day comes after a day, not before": {
    rate: perDay(1),
    burst: 1,
    rows: [
      [0, 1, [true, 0, 0, 86_400_000]],
      [86_399_999, 1, [false, 0, 1, 1]],
      [86_400_000, 1, [true, 0, 0, 86_400_000]],
    ],
  },
  "a token every 100 ms arrives for a caller that asks every 99 ms": {
    burst: 1,
    rows: [
      [0, 1, [true, 0, 0, 100]],
      [99, 1, [false, 0, 1, 1]],
      [198, 1, [true, 0, 0, 100]],
      [297, 1, [false, 0, 1, 1]],
      [396, 1, [true, 0, 0, 100]],
    ],
  },
  "time that goes back adds nothing": {
    rows: [
      [1000, 5, [true, 0, 0, 500]],
      [0, 1, [false, 0, 1100, 1500]],
      [1000, 1, [false, 0, 100, 500]],
      [500, 1, [false, 0, 600, 1000]],
      [1100, 1, [true, 0, 0, 500]],
    ],
  },
};

/** Everything that decides, on one bucket. */
const ways: Record<
  string,
  (limiter: Limiter) => { consume(cost: number): Decision; peek(cost: number): Decision; allow(cost: number): boolean }
> = {
  "of a key": (limiter) => ({
    consume: (cost) => limiter.consume("k", cost),
    peek: (cost) => limiter.peek("k", cost),
    allow: (cost) => limiter.allow("k", cost),
  }),
  "of a handle": (limiter) => limiter.key("k"),
  "of the global bucket": (limiter) => limiter.global,
};

function decisionOf(limit: number, [allowed, remaining, retryAfterMs, resetMs]: Row[2]): Decision {
  return { allowed, limit, remaining, retryAfterMs, resetMs };
}

/** Milliseconds to the nanosecond: at slow rates and huge bursts an answer is good to a microsecond. */
function toNs(decision: Decision, isCoarse: boolean): Decision {
  const rounded = (ms: number): number => (isCoarse ? Math.round(ms * 1e3) / 1e3 : Math.round(ms * 1e6) / 1e6);
  return { ...decision, retryAfterMs: rounded(decision.retryAfterMs), resetMs: rounded(decision.resetMs) };
}

describe.each(Object.entries(ways))("a decision %s", (_, of) => {
  it.each(Object.entries(tables))("%s", (_, { rate = 10, burst = 5, rows }) => {
    const { clock, limiter } = limiterOf(rate, burst);
    const bucket = of(limiter);
    for (const [atMs, cost, expected] of rows) {
      clock.set(atMs);
      const where = `at ${atMs} ms, cost ${cost}`;
      const peeked = bucket.peek(cost);
      expect(peeked.allowed, where).toBe(expected[0]);
      // A peek answers as before the cost was taken.
      expect(bucket.peek(cost), where).toEqual(peeked);
      expect(toNs(bucket.consume(cost), rate < 0.001 || burst === MAX_COST), where).toEqual(
        decisionOf(burst, expected),
      );
    }
  });

  it.each(Object.entries(tables))("as a plain yes or no: %s", (_, { rate = 10, burst = 5, rows }) => {
    const { clock, limiter } = limiterOf(rate, burst);
    const bucket = of(limiter);
    for (const [atMs, cost, [allowed]] of rows) {
      clock.set(atMs);
      expect(bucket.allow(cost), `at ${atMs} ms, cost ${cost}`).toBe(allowed);
    }
  });

  it("in a batch comes in order, at one time", () => {
    const { limiter } = limiterOf();
    const keys = ["a", "b", "a", 3, "a", "a", "b", "a", "a", 3];
    expect([...limiter.allowMany(keys)]).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 0, 1]);
    expect([...limiter.allowMany(keys, 4)]).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    expect([...limiter.allowMany(["c", "c", "b"], 3)]).toEqual([1, 0, 1]);
    expect([...limiter.allowMany(["c"], 0)]).toEqual([1]);
    expect([...limiter.allowMany(["c", "d"], 6)]).toEqual([0, 0]);
  });
});

describe("a batch", () => {
  it.each([0, 1, 31, 32, 33, 64, 65, 1000])("of %i keys answers for each of them", (length) => {
    const limiter = Sluice.create({ capacity: 2000, clock: new ManualClock(), maxThreads: 1 }).tokenBucket("test", {
      rate: 10,
      burst: 1,
    });
    const keys = Array.from({ length }, (_, i) => (i % 3 ? `key ${i >> 1}` : i >> 1));
    const seen = new Set<string | number>();
    const expected = keys.map((key) => (seen.has(key) ? 0 : (seen.add(key), 1)));
    expect([...limiter.allowMany(keys)]).toEqual(expected);
    expect([...limiter.allowMany(keys)]).toEqual(keys.map(() => 0));
  });

  it("takes array-likes and typed arrays, and writes only the elements of `out` that it answers", () => {
    const { limiter } = limiterOf(10, 1);
    expect([...limiter.allowMany(Float64Array.of(1, 2, 1))]).toEqual([1, 1, 0]);
    expect([...limiter.allowMany({ length: 2, 0: "x", 1: "x" })]).toEqual([1, 0]);
    const out = new Uint8Array(5).fill(9);
    expect(limiter.allowMany(["y", "y", "z"], 1, out)).toBe(out);
    expect([...out]).toEqual([1, 0, 1, 9, 9]);
  });

  it("of an infinite rate admits all, of rate 0 the bursts", () => {
    expect([...limiterOf(Infinity, 0).limiter.allowMany(["a", "a"], 7)]).toEqual([1, 1]);
    expect([...limiterOf(0, 1).limiter.allowMany(["a", "a", "b"])]).toEqual([1, 0, 1]);
  });

  it("stops at a wrong key, after deciding for the keys before it", () => {
    const { limiter } = limiterOf(10, 1);
    const out = new Uint8Array(4).fill(9);
    expect(() => limiter.allowMany(["a", "b", null as never, "c"], 1, out)).toThrow(TypeError);
    expect([...out]).toEqual([1, 1, 9, 9]);
    expect([limiter.allow("a"), limiter.allow("b"), limiter.allow("c")]).toEqual([false, false, true]);
  });
});

describe("settling afterwards", () => {
  const bucketOf = (rate = 10, burst = 5): { clock: ManualClock; bucket: KeyedLimiter; limiter: Limiter } => {
    const { clock, limiter } = limiterOf(rate, burst);
    return { clock, limiter, bucket: limiter.key("k") };
  };

  it("by a charge goes into debt, which later calls wait out", () => {
    const { clock, bucket } = bucketOf();
    bucket.charge(8);
    expect(bucket.peek(0)).toEqual({ allowed: false, limit: 5, remaining: 0, retryAfterMs: 300, resetMs: 800 });
    expect(bucket.peek(1).retryAfterMs).toBe(400);
    clock.set(300);
    expect(bucket.allow(0)).toBe(true);
    expect(bucket.allow()).toBe(false);
    clock.set(400);
    expect(bucket.allow()).toBe(true);
  });

  it("by a charge above the burst, as far as a word can run ahead: more than a year of refill", () => {
    const { bucket } = bucketOf();
    bucket.charge(10_000_005);
    expect(bucket.peek().retryAfterMs).toBe(10_000_001 * 100);
    bucket.charge(MAX_COST);
    const { retryAfterMs } = bucket.peek();
    expect(retryAfterMs).toBeGreaterThan(365 * 86_400_000);
    expect(retryAfterMs).toBeLessThanOrEqual((10_000_001 + MAX_COST) * 100);
    bucket.charge(MAX_COST);
    expect(bucket.peek().retryAfterMs).toBe(retryAfterMs);
  });

  it("by a charge of 0 or a refund of 0 changes nothing", () => {
    const { bucket } = bucketOf();
    bucket.charge(0);
    bucket.refund(0);
    expect(bucket.peek(0).remaining).toBe(5);
    bucket.allow(3);
    bucket.charge(0);
    bucket.refund(0);
    expect(bucket.peek(0).remaining).toBe(2);
  });

  it("by a refund fills the bucket, at most to its burst", () => {
    const { bucket, limiter } = bucketOf();
    bucket.refund(3);
    expect(bucket.peek(0).remaining).toBe(5);
    bucket.allow(4);
    bucket.refund(2);
    expect(bucket.peek(0).remaining).toBe(3);
    bucket.refund(MAX_COST);
    expect(bucket.peek(0).remaining).toBe(5);
    bucket.charge(10);
    bucket.refund(3);
    expect(bucket.peek(0).retryAfterMs).toBe(200);
    bucket.refund(MAX_COST);
    limiter.setBurst(100);
    expect(bucket.peek(0).remaining).toBe(5);
  });

  it("by a charge and a refund of the same cost leaves the bucket as it was", () => {
    const { bucket, clock } = bucketOf();
    clock.set(12.345678);
    bucket.allow(3);
    const before = bucket.peek(0);
    for (const cost of [1, 2, 100, 65_536]) {
      bucket.charge(cost);
      bucket.refund(cost);
    }
    expect(bucket.peek(0)).toEqual(before);
  });

  it("by a reset fills the bucket and forgets debts, as if it had never been used", () => {
    const { bucket, limiter } = bucketOf();
    bucket.charge(1000);
    bucket.reset();
    expect(bucket.peek(0)).toEqual(limiter.peek("never seen", 0));
    bucket.allow(5);
    bucket.reset();
    limiter.setBurst(50);
    expect(bucket.peek(0)).toEqual(limiter.peek("never seen", 0));
  });

  it("by a reset or refund of a key that was never seen writes nothing", () => {
    const { limiter, sluice } = limiterOf();
    limiter.reset("k");
    limiter.refund("k", 3);
    limiter.global.reset();
    expect(sluice.audit().used).toBe(0);
  });

  it("one key leaves the others and the global bucket alone", () => {
    const { limiter } = limiterOf();
    limiter.charge("a", 9);
    limiter.global.charge(7);
    expect(limiter.peek("a", 0).retryAfterMs).toBe(400);
    expect(limiter.global.peek(0).retryAfterMs).toBe(200);
    expect(limiter.peek("b", 0).remaining).toBe(5);
    limiter.global.reset();
    expect(limiter.peek("a", 0).retryAfterMs).toBe(400);
    limiter.reset("a");
    expect(limiter.peek("a", 0).remaining).toBe(5);
  });
});

describe("changing a limiter", () => {
  it("to another rate keeps what was earned and earns by the new rate from then on", () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k", 5);
    clock.set(200);
    limiter.setRate(100);
    expect(limiter.rate).toBe(100);
    expect(limiter.peek("k", 0).remaining).toBe(2);
    clock.set(210);
    expect(limiter.peek("k", 0).remaining).toBe(3);
    limiter.setRate(1);
    clock.set(1209.9999);
    expect(limiter.allow("k", 4)).toBe(false);
    clock.set(1210);
    expect(limiter.allow("k", 4)).toBe(true);
  });

  it.each([[10, 20], [10, 15], [1000, 2000], [1, 3], [1000, 1], [3, 3e6], [perHour(7), perMinute(3)]])(
    "from %d/s to %d/s is seen alike by every call",
    (rate, to) => {
      const { clock, limiter } = limiterOf(rate, 1000);
      const keys = ["allow", "consume", "handle", "batch", undefined] as const;
      for (const key of keys) callsOf(limiter, key).allow(1000);
      limiter.setRate(to);
      const waitMs = Math.ceil((500 / to) * 1e9) / 1e6;
      const calls = {
        allow: (): boolean => limiter.allow("allow", 500),
        consume: (): boolean => limiter.consume("consume", 500).allowed,
        handle: (): boolean => limiter.key("handle").allow(500),
        batch: (): boolean => limiter.allowMany(["batch"], 500)[0] === 1,
        global: (): boolean => limiter.global.allow(500),
      };
      clock.set(waitMs * 0.999);
      for (const [name, call] of Object.entries(calls)) expect(call(), name).toBe(false);
      clock.set(waitMs * 1.001);
      for (const [name, call] of Object.entries(calls)) expect(call(), name).toBe(true);
      for (const [name, call] of Object.entries(calls)) expect(call(), name).toBe(false);
    },
  );

  it("to rate 0 stops all refill, and from it starts it again", () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k", 5);
    clock.set(100);
    limiter.setRate(0);
    clock.set(1e6);
    expect(limiter.peek("k", 1)).toMatchObject({ allowed: true, remaining: 1, resetMs: Infinity });
    expect(limiter.peek("k", 2)).toMatchObject({ allowed: false, retryAfterMs: Infinity });
    limiter.setRate(10);
    expect(limiter.peek("k", 2).retryAfterMs).toBe(100);
  });

  it("to an infinite rate admits everything, and back leaves every bucket full", () => {
    const { limiter } = limiterOf();
    limiter.allow("k", 5);
    limiter.charge("k", 100);
    limiter.global.allow(5);
    limiter.setRate(Infinity);
    expect(limiter.allow("k", MAX_COST)).toBe(true);
    expect(limiter.global.allow(MAX_COST)).toBe(true);
    limiter.setRate(10);
    expect(limiter.peek("k", 0).remaining).toBe(5);
    expect(limiter.global.peek(0).remaining).toBe(5);
  });

  it("to a smaller burst caps what is there, to a larger one makes room", () => {
    const { clock, limiter } = limiterOf();
    limiter.allow("k", 1);
    limiter.setBurst(2);
    expect(limiter.burst).toBe(2);
    expect(limiter.peek("k", 0)).toMatchObject({ limit: 2, remaining: 2 });
    expect(limiter.peek("k", 3).retryAfterMs).toBe(Infinity);
    limiter.allow("k", 2);
    limiter.setBurst(20);
    expect(limiter.peek("k", 3)).toMatchObject({ limit: 20, allowed: false, retryAfterMs: 300 });
    clock.set(2000);
    expect(limiter.allow("k", 20)).toBe(true);
    limiter.setBurst(0);
    expect(limiter.allow("k", 0)).toBe(true);
    expect(limiter.allow("k")).toBe(false);
  });

  it("at an earlier time gives nothing", () => {
    const { clock, limiter } = limiterOf();
    clock.set(10_000);
    limiter.allow("k", 5);
    clock.set(0);
    limiter.setRate(10);
    limiter.setBurst(5);
    expect(limiter.allow("k")).toBe(false);
    clock.set(10_000);
    expect(limiter.allow("k")).toBe(false);
    clock.set(10_100);
    expect(limiter.allow("k")).toBe(true);
  });
});

describe("a limiter", () => {
  it("is the same for the same name and options, and cannot be made with others", () => {
    const { sluice, limiter } = limiterOf();
    expect(sluice.tokenBucket("test", { rate: 10, burst: 5 })).toBe(limiter);
    expect(sluice.limiter("test")).toBe(limiter);
    expect(limiter.name).toBe("test");
    for (const options of [{ rate: 11, burst: 5 }, { rate: 10, burst: 6 }]) {
      expect(() => sluice.tokenBucket("test", options)).toThrow(
        expect.objectContaining({ code: "ERR_SLUICE_POLICY_EXISTS" }),
      );
    }
    limiter.setRate(99);
    expect(sluice.tokenBucket("test", { rate: 10, burst: 5 })).toBe(limiter);
    expect(() => sluice.limiter("unknown")).toThrow(
      expect.objectContaining({ code: "ERR_SLUICE_NO_POLICY", message: expect.stringContaining("\"test\"") }),
    );
  });

  it.each(["a", "x".repeat(96), "é".repeat(48), "__proto__", "constructor", " ", "\0", "😀", "a/b#0"])(
    "may be called %j",
    (name) => {
      const { sluice } = limiterOf();
      const limiter = sluice.tokenBucket(name, { rate: 1, burst: 1 });
      expect(limiter.name).toBe(name);
      limiter.allow("k");
      limiter.allow("k");
      expect(sluice.stats().limiters[name]).toMatchObject({ allowed: 1, denied: 1 });
      expect(Object.keys(sluice.stats().limiters)).toEqual(["test", name]);
    },
  );

  it("counts its decisions, and nothing else", () => {
    const { sluice, limiter } = limiterOf();
    limiter.allow("a", 5);
    limiter.allow("a");
    limiter.consume("a");
    limiter.peek("a");
    limiter.allowMany(["a", "b", "c"]);
    limiter.allow("d", 0);
    limiter.allow("d", 6);
    limiter.reserve("a");
    limiter.refund("a");
    limiter.reset("a");
    expect(sluice.stats()).toMatchObject({
      allowed: 5,
      denied: 4,
      claimed: 3,
      evicted: 0,
      contended: 0,
      fullDenied: 0,
      fullAllowed: 0,
      capacity: 100,
      threads: 1,
    });
  });

  it("fills 1023 places of a table and no more", () => {
    const { sluice } = limiterOf();
    for (let i = 1; i < 1023; i++) sluice.tokenBucket(`limiter ${i}`, { rate: 1, burst: 1 });
    expect(() => sluice.tokenBucket("one more", { rate: 1, burst: 1 })).toThrow(
      expect.objectContaining({ code: "ERR_SLUICE_TOO_MANY_POLICIES" }),
    );
    const last = sluice.limiter("limiter 1022");
    expect([last.allow("k"), last.allow("k"), sluice.limiter("test").allow("k")]).toEqual([true, false, true]);
    expect(sluice.audit()).toMatchObject({ clean: true, used: 2 });
  });
});

describe("a full table", () => {
  const fill = (whenFull: "evict" | "deny" | "allow"): { sluice: Sluice; limiter: Limiter; clock: ManualClock } => {
    const clock = new ManualClock();
    const sluice = Sluice.create({ capacity: 1, clock, maxThreads: 1, whenFull });
    const limiter = sluice.tokenBucket("test", { rate: 1, burst: 2 });
    const { slots } = sluice.audit();
    for (let i = 0; sluice.stats().claimed < slots && i < 100 * slots; i++) limiter.allow(i);
    return { sluice, limiter, clock };
  };

  it("that evicts admits new keys and counts the evicted ones", () => {
    const { sluice, limiter } = fill("evict");
    const { evicted } = sluice.stats();
    for (let i = 0; i < 100; i++) expect(limiter.allow(`new ${i}`)).toBe(true);
    expect(sluice.stats().evicted).toBeGreaterThan(evicted + 50);
    expect(sluice.audit().clean).toBe(true);
  });

  it("that denies refuses new keys until another key is fresh", () => {
    const { sluice, limiter, clock } = fill("deny");
    let refused = 0;
    for (let i = 0; i < 100; i++) if (!limiter.allow(`new ${i}`)) refused++;
    expect(refused).toBeGreaterThan(50);
    expect(sluice.stats()).toMatchObject({ evicted: 0, fullAllowed: 0 });
    expect(sluice.stats().fullDenied).toBeGreaterThanOrEqual(refused);
    expect(() => {
      for (let i = 0; i < 100; i++) limiter.reserve(`r ${i}`);
    }).not.toThrow();
    clock.set(10_000);
    for (let i = 0; i < 20; i++) expect(limiter.allow(`later ${i}`)).toBe(true);
    expect(sluice.audit().clean).toBe(true);
  });

  it("that allows admits new keys uncharged", () => {
    const { sluice, limiter } = fill("allow");
    for (let i = 0; i < 100; i++) {
      expect(limiter.allow(`new ${i}`)).toBe(true);
      expect(limiter.consume(`new ${i}`, 2).allowed || sluice.stats().fullAllowed >= 0).toBe(true);
    }
    expect(sluice.stats()).toMatchObject({ evicted: 0, fullDenied: 0 });
    expect(sluice.stats().fullAllowed).toBeGreaterThan(50);
    expect(sluice.audit().clean).toBe(true);
  });
});

describe("rates", () => {
  it.each([
    [perSecond(5), 5],
    [perMinute(60), 1],
    [perMinute(1), 1 / 60],
    [perHour(3600), 1],
    [perHour(1), 1 / 3600],
    [perDay(86_400), 1],
    [perDay(1), 1 / 86_400],
    [perSecond(0), 0],
    [perSecond(Infinity), Infinity],
    [perDay(0), 0],
    [every(1000), 1],
    [every(100), 10],
    [every(0), Infinity],
    [every(Infinity), 0],
    [every(0.5), 2000],
    [every(3), 1000 / 3],
  ])("are tokens per second: %d is %d", (got, expected) => expect(got).toBe(expected));
});

describe("a Sluice", () => {
  it("that was closed throws ERR_SLUICE_CLOSED from then on", () => {
    const { sluice } = limiterOf();
    sluice.close();
    sluice.close();
    for (
      const call of [
        () => sluice.tokenBucket("b", { rate: 1, burst: 1 }),
        () => sluice.limiter("test"),
        () => sluice.stats(),
        () => sluice.audit(),
        () => sluice.handle,
      ]
    ) {
      expect(call).toThrow(expect.objectContaining({ code: "ERR_SLUICE_CLOSED" }));
      expect(call).toThrow(SluiceError);
    }
  });

  it("is the same when it is attached again in the same thread, and another after it was closed", () => {
    const { sluice, limiter } = limiterOf();
    const { handle } = sluice;
    expect(Sluice.attach(handle)).toBe(sluice);
    limiter.allow("k", 5);
    sluice.close();
    const again = Sluice.attach(handle);
    expect(again).not.toBe(sluice);
    expect(again.limiter("test").allow("k")).toBe(false);
    again[Symbol.dispose]();
    expect(() => again.stats()).toThrow(SluiceError);
  });
});
