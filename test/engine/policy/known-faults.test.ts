/** Faults that rate limiters have had: one case each, for every kind that it can concern. */
import { type Limiter, Sluice } from "sluice";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ExactLog, toNs } from "../../models/window-models.js";
import { create, openTable } from "../../tables.js";

afterEach(() => {
  vi.restoreAllMocks();
});

interface Kind {
  name: string;
  /** A limiter that admits `most` at once and again after at most `ms`. */
  make: (sluice: Sluice, most: number, ms: number) => Limiter;
  isWindow?: true;
  isSliding?: true;
}

const kinds: Kind[] = [
  {
    name: "token bucket",
    make: (sluice, most, ms) => sluice.tokenBucket("it", { rate: most / (ms / 1000), burst: most }),
  },
  {
    name: "leaky bucket",
    make: (sluice, most, ms) => sluice.leakyBucket("it", { rate: most / (ms / 1000), burst: most }),
  },
  {
    name: "leaky queue",
    make: (sluice, most, ms) => sluice.leakyBucket("it", { rate: most / (ms / 1000), burst: most, queue: 10 }),
  },
  {
    name: "fixed window",
    make: (sluice, most, ms) => sluice.fixedWindow("it", { limit: most, windowMs: ms }),
    isWindow: true,
  },
  {
    name: "aligned window",
    make: (sluice, most, ms) => sluice.fixedWindow("it", { limit: most, windowMs: ms, align: "wall" }),
    isWindow: true,
  },
  {
    name: "sliding window",
    make: (sluice, most, ms) => sluice.slidingWindow("it", { limit: most, windowMs: ms }),
    isWindow: true,
    isSliding: true,
  },
  {
    name: "window with slots",
    make: (sluice, most, ms) => sluice.slidingWindow("it", { limit: most, windowMs: ms, slots: 6 }),
    isWindow: true,
    isSliding: true,
  },
  {
    name: "several limits",
    make: (sluice, most, ms) =>
      sluice.tokenBucket("it", {
        limits: [{ rate: (2 * most) / (ms / 1000), burst: 2 * most }, { rate: most / (ms / 1000), burst: most }],
      }),
  },
];

const DAY_MS = 86_400_000;

describe.each(kinds)("a $name", ({ make, isSliding, isWindow }) => {
  it("with a window of thirty days limits, though that is more than 2^31 ms", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 100, 30 * DAY_MS);
    clock.advance(1);
    expect(limiter.allow("key", 100)).toBe(true);
    expect(limiter.allow("key")).toBe(false);
    clock.advance(60_000);
    expect(limiter.allow("key", 100)).toBe(false);
    clock.advance(DAY_MS);
    expect(limiter.allow("key", 100)).toBe(false);
    clock.advance(3 * 30 * DAY_MS);
    expect(limiter.allow("key", 100)).toBe(true);
    expect(limiter.allow("key")).toBe(false);
  });

  it("refuses a negative or NaN cost: no NaN gets into its state, nothing is refilled", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 5, 1000);
    limiter.allow("key", 3);
    const before = limiter.peek("key");
    for (const cost of [-1, -1e9, Number.NaN, -Infinity]) {
      for (const call of ["allow", "consume", "peek", "reserve", "refund", "charge", "waitSync"] as const) {
        expect(() => limiter[call]("key", cost), `${call}(${cost})`).toThrow(
          /"cost" expected an integer from 0 to 2147483647/,
        );
        expect(() => limiter.key("key")[call](cost), `key.${call}(${cost})`).toThrow(/"cost" expected/);
      }
      expect(() => limiter.allowMany(["key"], cost)).toThrow(/"cost" expected/);
    }
    expect(limiter.peek("key")).toEqual(before);
    clock.advance(5000);
    expect(limiter.peek("key").remaining).toBe(5);
  });

  it("refuses a fractional or infinite cost, or one of another type", () => {
    const { sluice } = create();
    const limiter = make(sluice, 5, 1000);
    for (const cost of [0.5, 1.5, Infinity, 2 ** 31, 2 ** 32, "2", null, true]) {
      for (const call of ["allow", "consume", "peek", "reserve", "refund", "charge"] as const) {
        expect(() => limiter[call]("key", cost as number), `${call}(${cost})`).toThrow(
          /"cost" expected an integer from 0 to 2147483647/,
        );
      }
    }
  });

  it("refuses NaN as a rate, a limit, a time or a key", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 5, 1000);
    limiter.allow("key", 3);
    const before = limiter.peek("key");
    expect(() => limiter.setRate(Number.NaN)).toThrow("\"rate\" expected");
    expect(() => limiter.setBurst(Number.NaN)).toThrow("\"burst\" expected");
    expect(() => clock.set(Number.NaN)).toThrow("\"ms\" expected");
    expect(() => limiter.allow(Number.NaN)).toThrow();
    expect(() => limiter.reserve("key", 1, { maxWaitMs: Number.NaN })).toThrow("\"maxWaitMs\" expected");
    expect(() => make(create().sluice, Number.NaN, 1000)).toThrow("expected");
    expect(limiter.peek("key")).toEqual(before);
  });

  it("charges nothing for a combination that another entry refuses", () => {
    const { sluice } = create();
    const limiter = make(sluice, 5, 1000);
    const denies = sluice.tokenBucket("denies", { rate: 0, burst: 0 });
    const before = [limiter.peek("key"), limiter.global.peek()];
    for (let i = 0; i < 20; i++) {
      expect(sluice.all([[limiter, "key", 2], [limiter.global, 2], [denies, "key"]])).toMatchObject({
        allowed: false,
        refusedBy: "denies",
      });
      expect(sluice.all([[denies, "key"], [limiter, "key", 2]]).allowed).toBe(false);
    }
    expect([limiter.peek("key"), limiter.global.peek()]).toEqual(before);
  });

  it.each([-3_600_000, 3_600_000])("neither blocks nor frees a key when the wall clock is set by %i ms", (shift) => {
    const real = Date.now();
    const now = vi.spyOn(Date, "now").mockReturnValue(real);
    const { sluice, clock } = create();
    const other = openTable({ clock });
    const limiter = make(sluice, 5, 1000);
    const twin = make(other, 5, 1000);
    limiter.allow("blocked", 5);
    twin.allow("blocked", 5);
    now.mockReturnValue(real + shift);
    for (let i = 0; i < 40; i++) {
      clock.advance(50);
      if (i % 5 === 0) now.mockReturnValue(real + (i % 2) * shift);
      const decision = limiter.consume("blocked");
      now.mockReturnValue(real);
      expect(decision).toEqual(twin.consume("blocked"));
      now.mockReturnValue(real + shift);
      expect(limiter.peek(`free ${i}`).allowed).toBe(true);
    }
  });

  it("does not forget a blocked key when other keys come, while another slot will do", () => {
    const { sluice } = create(1000, { capacity: 2000, lineCapacity: 2000, maxThreads: 1 });
    const limiter = make(sluice, 100, 60_000);
    for (let i = 0; i < 20; i++) expect(limiter.allow(`blocked ${i}`, 100)).toBe(true);
    for (let i = 0; i < 20_000; i++) limiter.allow(i);
    expect(sluice.stats().evicted).toBeGreaterThan(1000);
    for (let i = 0; i < 20; i++) expect(limiter.allow(`blocked ${i}`), `blocked ${i}`).toBe(false);
  });

  it("gets its tokens, and no more, if it is polled more often than they come", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 1, 100);
    const admitted: number[] = [];
    for (let poll = 0; poll < 1000; poll++) {
      if (limiter.allow("key")) admitted.push(clock.nowMs);
      clock.advance(99);
    }
    // One every other poll at worst: the estimate of two counts may make a call wait for another poll.
    const pause = isSliding ? 3 : 2;
    expect(admitted.every((ms, i) => i === 0 || ms - admitted[i - 1] <= pause * 99)).toBe(true);
    if (!isWindow) expect(admitted.every((ms, i) => i === 0 || ms - admitted[i - 1] >= 100)).toBe(true);
  });

  it("never adds more than is missing, after any idle time", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 5, 1000);
    limiter.allow("key", 2);
    clock.advance(365 * DAY_MS);
    expect(limiter.peek("key").remaining).toBe(5);
    let admitted = 0;
    while (limiter.allow("key")) admitted++;
    expect(admitted).toBe(5);
    limiter.refund("key", 1000);
    admitted = 0;
    while (limiter.allow("key")) admitted++;
    expect(admitted).toBe(5);
  });

  it("grants nothing when time goes back", () => {
    const { sluice, clock } = create();
    clock.set(10_000);
    const limiter = make(sluice, 5, 1000);
    clock.set(20_000);
    limiter.allow("key", 5);
    for (const ms of [19_999, 15_000, 10_000, 0, 20_000]) {
      clock.set(ms);
      expect(limiter.allow("key"), `at ${ms}`).toBe(false);
    }
  });
});

describe.each(kinds.filter(({ isSliding }) => isSliding))("a $name", ({ make }) => {
  it("never admits two full windows around a boundary", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 10, 600);
    for (const boundary of [1600, 4000, 10_000]) {
      const log = new ExactLog();
      for (const ms of [boundary - 0.000001, boundary, boundary + 0.000001, boundary + 1]) {
        clock.set(ms);
        while (limiter.allow("key")) log.admit(BigInt(toNs(ms)), 1);
      }
      expect(log.most(2_000_000n)).toBe(10n);
    }
  });
});

describe("a token bucket", () => {
  it("of 1 token every 100 ms polled every 99 ms gets each token at the first poll after it came", () => {
    const { sluice, clock } = create();
    const limiter = sluice.tokenBucket("it", { rate: 10, burst: 2 });
    limiter.allow("key", 2);
    let admitted = 0;
    for (let poll = 0; poll < 1000; poll++) {
      clock.advance(99);
      if (limiter.allow("key")) admitted++;
    }
    // 99 s bring 990 tokens; rounding loses none of them.
    expect(admitted).toBe(990);
  });

  it("that is refilled by tiny shares does not creep above its burst", () => {
    const { sluice, clock } = create();
    const limiter = sluice.tokenBucket("it", { rate: 10, burst: 3 });
    for (let i = 0; i < 10_000; i++) {
      clock.advance(0.1);
      limiter.refund("key", 1);
    }
    expect(limiter.consume("key", 4)).toMatchObject({ allowed: false, retryAfterMs: Infinity, remaining: 3 });
  });
});
