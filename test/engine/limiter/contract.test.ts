/** One contract for every kind of limiter. */
import { type Key, type Limiter, ManualClock, Sluice } from "sluice";
import { afterEach, describe, expect, it } from "vitest";
import { toNs } from "../../models/window-models.js";
import { callsOf } from "../../tables.js";
import { Crew, sum } from "../../threads/crew.js";
import type { LimiterJobs } from "../../threads/limiter.worker.js";

const open: Sluice[] = [];

afterEach(() => {
  for (const sluice of open.splice(0)) sluice.close();
});

function create(): { sluice: Sluice; clock: ManualClock } {
  const clock = new ManualClock(1000);
  const sluice = Sluice.create({ capacity: 1000, clock });
  open.push(sluice);
  return { sluice, clock };
}

interface Kind {
  kind: string;
  /** A limiter that admits `most` calls at once, `most` a second. */
  make: (sluice: Sluice, most: number, name?: string) => Limiter;
  /** How many of `most` calls it admits at one moment. */
  atOnce: (most: number) => number;
  /** True if a cancelled reservation leaves no trace; else all is back only at the time when it would have acted. */
  conserves: boolean;
  hasBurst: boolean;
  takesLine: boolean;
}

const all = (most: number): number => most;
const one = (): number => 1;
const kinds: Kind[] = [
  {
    kind: "tokenBucket",
    make: (sluice, most, name = "it") => sluice.tokenBucket(name, { rate: most, burst: most }),
    atOnce: all,
    conserves: true,
    hasBurst: true,
    takesLine: false,
  },
  {
    kind: "leakyBucket, a meter",
    make: (sluice, most, name = "it") => sluice.leakyBucket(name, { rate: most, burst: most }),
    atOnce: all,
    conserves: true,
    hasBurst: true,
    takesLine: false,
  },
  {
    kind: "leakyBucket, a queue",
    make: (sluice, most, name = "it") => sluice.leakyBucket(name, { rate: most, queue: 1_000_000 }),
    atOnce: one,
    conserves: true,
    hasBurst: true,
    takesLine: false,
  },
  {
    kind: "fixedWindow",
    make: (sluice, most, name = "it") => sluice.fixedWindow(name, { limit: most, windowMs: 1000 }),
    atOnce: all,
    conserves: true,
    hasBurst: true,
    takesLine: false,
  },
  {
    kind: "slidingWindow",
    make: (sluice, most, name = "it") => sluice.slidingWindow(name, { limit: most, windowMs: 1000 }),
    atOnce: all,
    conserves: false,
    hasBurst: true,
    takesLine: false,
  },
  {
    kind: "slidingWindow with slots",
    make: (sluice, most, name = "it") => sluice.slidingWindow(name, { limit: most, windowMs: 1000, slots: 4 }),
    atOnce: all,
    conserves: false,
    hasBurst: true,
    takesLine: true,
  },
  {
    kind: "several limits",
    make: (sluice, most, name = "it") =>
      sluice.tokenBucket(name, { limits: [{ rate: 2 * most, burst: 2 * most }, { rate: most, burst: most }] }),
    atOnce: all,
    conserves: true,
    hasBurst: true,
    takesLine: true,
  },
  {
    kind: "warmUp",
    make: (sluice, most, name = "it") => sluice.warmUp(name, { rate: most, warmupMs: 0 }),
    atOnce: one,
    conserves: true,
    hasBurst: false,
    takesLine: true,
  },
];

const KEYS: (Key | undefined)[] = ["alice", 7, 10n ** 20n, Uint8Array.of(1, 2), "š", undefined];

/** How often a key is admitted at one moment. */
function drain(limiter: Limiter, key: Key | undefined): number {
  let admitted = 0;
  const calls = callsOf(limiter, key);
  while (calls.allow()) admitted++;
  return admitted;
}

describe.each(kinds)("$kind", ({ make, atOnce, conserves, hasBurst, takesLine }) => {
  it("admits its allowance at once for each key, of any type, and refuses from then on", () => {
    const { sluice } = create();
    const limiter = make(sluice, 5);
    for (const key of KEYS) {
      expect(drain(limiter, key)).toBe(atOnce(5));
      expect(callsOf(limiter, key).allow()).toBe(false);
    }
    expect(sluice.stats().limiters.it).toMatchObject({
      allowed: atOnce(5) * KEYS.length,
      denied: 2 * KEYS.length,
      claimed: KEYS.length - 1,
    });
    expect(sluice.audit()).toMatchObject({ clean: true, used: KEYS.length - 1 });
  });

  it("gives the same answer by allow, consume, peek, allowMany, reserve and key handles", () => {
    const { sluice, clock } = create();
    const ways: ((limiter: Limiter, key: Key) => boolean)[] = [
      (limiter, key) => limiter.allow(key),
      (limiter, key) => limiter.consume(key).allowed,
      (limiter, key) => limiter.allowMany([key])[0] === 1,
      (limiter, key) => limiter.reserve(key, 1, { maxWaitMs: 0 }).granted,
      (limiter, key) => limiter.key(key).allow(),
      (limiter, key) => limiter.key(key).consume().allowed,
    ];
    const limiter = make(sluice, 4);
    const handle = limiter.key("handle");
    for (let step = 0; step < 60; step++) {
      const wanted = limiter.peek(0).allowed;
      const answers = ways.map((way, i) => way(limiter, i));
      expect(answers, `step ${step}`).toEqual(ways.map(() => wanted));
      expect(handle.allow()).toBe(wanted);
      expect(limiter.allowMany(["x", "y"]).join()).toBe(`${+wanted},${+wanted}`);
      clock.advance(step % 7 === 0 ? 1000 : 60);
    }
    const counts = sluice.stats().limiters.it;
    expect(counts.allowed).toBeGreaterThan(100);
    expect(counts.denied).toBeGreaterThan(100);
  });

  it("decides for many in order as one by one, duplicates included", () => {
    const { sluice } = create();
    const many = make(sluice, 3, "many");
    const alone = make(sluice, 3, "alone");
    const keys = Array.from({ length: 500 }, (_, i) => (i * 7) % 31);
    expect([...many.allowMany(keys)]).toEqual(keys.map((key) => Number(alone.allow(key))));
  });

  it("writes nothing on a peek, a refusal or a cost of 0", () => {
    const { sluice } = create();
    const limiter = make(sluice, 5);
    limiter.peek("never");
    limiter.allow("never", 0);
    limiter.reserve("never", 0);
    if (hasBurst) expect(limiter.allow("never", 6)).toBe(false);
    expect(sluice.audit().used).toBe(0);
    drain(limiter, "key");
    const before = limiter.peek("key");
    for (let i = 0; i < 10; i++) {
      limiter.allow("key");
      limiter.consume("key");
      limiter.allowMany(["key", "key"]);
      limiter.peek("key", 3);
      expect(limiter.reserve("key", 1, { maxWaitMs: 0 }).granted).toBe(false);
    }
    expect(limiter.peek("key")).toEqual(before);
  });

  it("admits at retryAfterMs, not a nanosecond before, and is as good as new at resetMs", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 5);
    clock.advance(123);
    drain(limiter, "key");
    const { allowed, retryAfterMs, resetMs, remaining } = limiter.peek("key");
    expect({ allowed, remaining }).toEqual({ allowed: false, remaining: 0 });
    expect(retryAfterMs).toBeGreaterThan(0);
    clock.set((toNs(1123 + retryAfterMs) - 1) / 1e6);
    expect(limiter.peek("key").allowed).toBe(false);
    clock.set(toNs(1123 + retryAfterMs) / 1e6);
    expect(limiter.peek("key").allowed).toBe(true);
    clock.set(toNs(1123 + resetMs) / 1e6);
    expect(limiter.peek("key")).toEqual(limiter.peek("never seen"));
    expect(limiter.peek("key").resetMs).toBe(0);
    // The slot may then belong to another key.
    expect(sluice.audit()).toMatchObject({ used: 1, fresh: 1 });
  });

  it("grants a reservation that acts at once or later, and a cancel gives it back, once", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 5);
    const now = limiter.reserve("key");
    expect(now).toMatchObject({ granted: true, delayMs: 0 });
    drain(limiter, "key");
    const before = limiter.peek("key");
    const ahead = limiter.reserve("key");
    expect(ahead.granted).toBe(true);
    expect(ahead.delayMs).toBe(before.retryAfterMs);
    expect(limiter.peek("key").retryAfterMs).toBeGreaterThanOrEqual(before.retryAfterMs);
    expect(ahead.cancel()).toBe(true);
    expect(ahead.cancel()).toBe(false);
    if (conserves) expect(limiter.peek("key")).toEqual(before);
    clock.advance(ahead.delayMs);
    expect(limiter.peek("key").allowed).toBe(true);
    const late = limiter.reserve("late");
    clock.advance(0.000001);
    expect(late.cancel()).toBe(false);
  });

  it("gives a refund back, at most what was used, and a reset makes a key new", () => {
    const { sluice } = create();
    const limiter = make(sluice, 5);
    drain(limiter, "key");
    limiter.refund("key");
    expect(limiter.allow("key")).toBe(true);
    expect(limiter.allow("key")).toBe(false);
    limiter.refund("key", 1_000_000);
    expect(drain(limiter, "key")).toBe(atOnce(5));
    limiter.charge("key", 3);
    limiter.reset("key");
    expect(limiter.peek("key")).toEqual(limiter.peek("never seen"));
    expect(drain(limiter, "key")).toBe(atOnce(5));
    limiter.reset("never seen");
    limiter.refund("never seen", 5);
    expect(sluice.audit().used).toBe(1);
  });

  it("goes into debt on a charge, which later calls wait out", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 5);
    limiter.charge("key", 12);
    const { allowed, remaining, retryAfterMs } = limiter.peek("key");
    expect({ allowed, remaining }).toEqual({ allowed: false, remaining: 0 });
    expect(retryAfterMs).toBeGreaterThanOrEqual(1000);
    clock.set(toNs(1000 + retryAfterMs) / 1e6);
    expect(limiter.allow("key")).toBe(true);
  });

  it("takes a new rate and a new burst, and reports them", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 5);
    drain(limiter, "key");
    expect(limiter.rate).toBeGreaterThan(0);
    limiter.setRate(50);
    if (takesLine && hasBurst) limiter.setRate(50, 0);
    clock.advance(5000);
    expect(limiter.allow("key")).toBe(true);
    if (hasBurst) limiter.setBurst(2);
    else expect(() => limiter.setBurst(2)).toThrow("has no burst to set");
    clock.advance(5000);
    expect(drain(limiter, "other")).toBe(hasBurst ? 2 : 1);
    for (const rate of [-1, Number.NaN, "5"]) {
      expect(() => limiter.setRate(rate as number)).toThrow("\"rate\" expected");
    }
    if (hasBurst) {
      for (const burst of [-1, Number.NaN, 0.5, "5"]) {
        expect(() => limiter.setBurst(burst as number)).toThrow("\"burst\" expected");
      }
    }
  });

  it("has one global bucket, which no key shares", () => {
    const { sluice } = create();
    const limiter = make(sluice, 5);
    expect(drain(limiter, undefined)).toBe(atOnce(5));
    expect(sluice.limiter("it").global.allow()).toBe(false);
    for (const key of ["", "undefined", 0]) expect(limiter.allow(key), String(key)).toBe(true);
    limiter.global.reset();
    expect(limiter.global.allow()).toBe(true);
  });

  it("ends waits in order of arrival, charges nothing for impossible ones, and ends every wait", async () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 5);
    drain(limiter, "key");
    const order: number[] = [];
    const waits = [0, 1, 2, 3, 4, 5, 6].map((n) => limiter.wait("key").then(() => order.push(n)));
    for (const each of waits) each.catch(() => {});
    await expect(limiter.wait("key", 1, { maxWaiters: 7 })).rejects.toMatchObject({
      code: "ERR_SLUICE_TOO_MANY_WAITERS",
    });
    await expect(limiter.wait("key", 1, { signal: AbortSignal.abort(new Error("gave up")) })).rejects.toThrow(
      "gave up",
    );
    const before = limiter.peek("key");
    await expect(limiter.wait("key", 1, { timeoutMs: 1 })).rejects.toMatchObject({
      code: expect.stringMatching(hasBurst ? /^ERR_SLUICE_TIMEOUT$/ : /^ERR_SLUICE_/),
    });
    if (hasBurst) {
      await expect(limiter.wait("key", 6)).rejects.toMatchObject({
        code: expect.stringMatching(/^ERR_SLUICE_(COST_ABOVE_BURST|NEVER)$/),
      });
    }
    expect(limiter.peek("key")).toEqual(before);
    expect(() => limiter.waitSync("key")).toThrow(expect.objectContaining({ code: "ERR_SLUICE_MAIN_THREAD" }));
    for (let i = 0; i < 60 && order.length < 7; i++) {
      clock.advance(50);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all(waits);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  it("is the same from its name, and another with other options", () => {
    const { sluice } = create();
    const limiter = make(sluice, 5);
    expect(make(sluice, 5)).toBe(limiter);
    expect(sluice.limiter("it")).toBe(limiter);
    expect(() => make(sluice, 6)).toThrow(expect.objectContaining({ code: "ERR_SLUICE_POLICY_EXISTS" }));
  });

  it.each(["key", undefined])("is exact for 4 threads and many calls at a frozen clock (key %s)", async (key) => {
    const { sluice } = create();
    const most = 60_000;
    const limiter = make(sluice, most);
    const hire = (job: "allows" | "reserves" | "givesBack", calls: number): Promise<number> =>
      Crew.of<LimiterJobs>(new URL("../../threads/limiter.worker.ts", import.meta.url))(4, job, sluice.handle, {
        name: "it",
        key,
        calls,
      }).then((crew) => crew.work()).then(sum);

    /** Repeats until threads have met: on a busy machine that may take several tries. */
    const isQuiet = (round: number): boolean =>
      round === 1 || (sluice.stats().limiters.it.contended === 0 && round <= 10);

    if (atOnce(most) === 1) {
      // Where only one call passes at a moment, threads contend for reservations.
      let granted = 0;
      for (let round = 1; isQuiet(round); round++) {
        granted += await hire("reserves", 25_000);
        expect(granted).toBe(round * 100_000);
      }
      expect(toNs(callsOf(limiter, key).peek().retryAfterMs)).toBe(Math.ceil(granted * (1e9 / most)));
    } else {
      let kept = 0;
      let calls = 0;
      for (let round = 1; isQuiet(round); round++) {
        kept += await hire("givesBack", 50_000);
        calls += 200_000;
      }
      expect(kept).toBeGreaterThan(0);
      expect(callsOf(limiter, key).peek(0).remaining).toBe(most - kept);
      expect(await hire("allows", 20_000)).toBe(most - kept);
      expect(callsOf(limiter, key).peek(0).remaining).toBe(0);
      const { allowed, denied } = sluice.stats().limiters.it;
      expect(allowed + denied).toBe(calls + 80_000);
    }
    expect(sluice.stats().limiters.it.contended).toBeGreaterThan(0);
    expect(sluice.audit()).toMatchObject({ clean: true, used: key === undefined ? 0 : 1 });
  });
});
