/**
 * Many threads on one table: whatever they do at the same time, the sums are
 * exact. A test fails if it saw no contention.
 */
import { type Key, ManualClock, Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import { Bucket } from "../../src/engine/bucket/bucket.js";
import { Policy } from "../../src/engine/policy/policy.js";
import { Table } from "../../src/engine/table/table.js";
import { announceSeed, seeded } from "../seed.js";
import { callsOf, openTable } from "../tables.js";
import { Crew, sum, until } from "./crew.js";
import type { ThreadsJobs } from "./threads.worker.js";

const WORKERS = 4;
const hire = Crew.of<ThreadsJobs>(new URL("./threads.worker.ts", import.meta.url));
/** A bucket with its fraction of a token and its debts, which the public face does not show. */
function bucketOf(sluice: Sluice, policyNumber: number, key: Key | undefined): Bucket {
  return new Bucket(new Policy(Table.attach(sluice.handle), policyNumber), key);
}

/** How many keys were admitted by more than one thread. */
function sharedKeys(admitted: readonly (readonly number[])[]): number {
  return admitted[0].filter((_, key) => admitted.filter((own) => own[key] > 0).length > 1).length;
}

/** Runs a scene until it has seen contention: a busy machine gets 5 tries, a violation none. */
async function untilSeen(scene: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 5; tries++) if (await scene()) return;
  expect.fail("no contention in 5 tries");
}

describe("4 threads on one key", { timeout: 60_000 }, () => {
  const CALLS = 10_000_000;
  const rate = 200_000;
  const burst = 50_000;

  const overload = (key: string | undefined) =>
    untilSeen(async () => {
      const sluice = openTable({ capacity: 1000 });
      sluice.tokenBucket("hot", { rate, burst });
      const crew = await hire(WORKERS, "calls", sluice.handle, { name: "hot", key, calls: CALLS / WORKERS });
      const beforeNs = process.hrtime.bigint();
      const reports = await crew.work();
      const aroundNs = Number(process.hrtime.bigint() - beforeNs);

      const admitted = sum(reports.map((report) => report.admitted));
      const stats = sluice.stats().limiters.hot;
      expect(stats.allowed).toBe(admitted);
      expect(stats.allowed + stats.denied).toBe(CALLS);
      expect(admitted).toBeLessThanOrEqual(burst + rate * aroundNs / 1e9);
      const first = reports.map((report) => report.startNs).reduce((a, b) => (a < b ? a : b));
      const last = reports.map((report) => report.endNs).reduce((a, b) => (a > b ? a : b));
      expect(admitted).toBeGreaterThanOrEqual(0.99 * (burst + rate * Number(last - first) / 1e9));
      expect(sluice.audit()).toMatchObject({ clean: true, used: key === undefined ? 0 : 1 });
      return stats.contended > 0 && reports.every((report) => report.admitted > 0);
    });

  it("are admitted no more than burst + rate x time in 10 million calls, and at least 99 % of it", () =>
    overload("key"));

  it("share the global bucket as exactly", () => overload(undefined));
});

describe("4 threads under a clock that the main thread moves", { timeout: 60_000 }, () => {
  it("are admitted exactly burst + rate x the time that it moved", async () => {
    const clock = new ManualClock(5);
    const sluice = openTable({ capacity: 1000, clock });
    const burst = 64;
    sluice.tokenBucket("hot", { rate: 1000, burst });
    const crew = await hire(WORKERS, "untilRefused", sluice.handle, {
      name: "hot",
      keys: ["key"],
    });
    const below = seeded(announceSeed("a moving clock"));

    crew.begin();
    // A token a millisecond, in quarters; never more outstanding than the bucket holds.
    let moved = 0;
    for (let move = 0; move < 20_000; move++) {
      const step = (1 + below(64)) / 4;
      await until(() => burst + moved - crew.counted() <= burst - step);
      clock.advance(step);
      moved += step;
      const counted = crew.counted();
      if (counted > burst + moved) expect(counted).toBeLessThanOrEqual(burst + moved);
    }
    crew.stop();

    const admitted = await crew.reports();
    expect(sum(admitted.flat())).toBe(burst + Math.floor(moved));
    expect(sharedKeys(admitted)).toBe(1);
    expect(sluice.audit().clean).toBe(true);
  });

  it("get burst + the integral of a rate that leaps between extremes, never more", async () => {
    const clock = new ManualClock();
    const sluice = openTable({ capacity: 1000, clock });
    const burst = 1000;
    const limiter = sluice.tokenBucket("leaping", { rate: 3, burst });
    const keys = ["a", "b", 7, undefined];
    const buckets = keys.map((key) => bucketOf(sluice, 1, key));
    const crew = await hire(WORKERS, "untilRefused", sluice.handle, {
      name: "leaping",
      keys,
    });
    const below = seeded(announceSeed("a leaping rate"));

    // Exact, in 1e-14 tokens: every rate is a multiple of 1e-5 a second, every move whole nanoseconds.
    const rates = [1e-5, 3, 1e9, 0];
    let integral = 0n;
    let losses = 0;
    const most = (): number => burst + Number(integral / 10n ** 14n);
    const nowNs = (): bigint => BigInt(Math.round(clock.nowMs * 1e6));

    crew.begin();
    for (let leap = 0; leap < 1000; leap++) {
      const { rate } = limiter;
      const ms = rate === 1e9 ? (1 + below(200)) / 1e6 : rate === 3 ? 1 + below(60_000) : 1 + below(1000);
      // Lets the threads drain the buckets first, so that none overflows.
      await until(() => buckets.every((bucket) => bucket.tokens() <= burst - rate * ms / 1000));
      const before = nowNs();
      clock.advance(ms);
      integral += (nowNs() - before) * BigInt(Math.round(rate * 1e5));
      const counted = crew.counted();
      if (counted > keys.length * most()) expect(counted, `leap ${leap}`).toBeLessThanOrEqual(keys.length * most());
      limiter.setRate(rates[below(rates.length)]);
      // At a rate of 1e9 a word counts quarters of a token and rounds down to them.
      if (limiter.rate === 1e9) losses++;
      const debts = buckets.map((bucket) => bucket.tokens()).filter((tokens) => tokens < 0);
      if (debts.length > 0) expect(debts, `after leap ${leap} from ${rate} to ${limiter.rate}`).toEqual([]);
    }
    crew.stop();

    const admitted = await crew.reports();
    const totals = keys.map((_, key) => sum(admitted.map((own) => own[key])));
    for (const total of totals) {
      expect(total).toBeLessThanOrEqual(most());
      expect(total).toBeGreaterThanOrEqual(most() - losses / 4);
    }
    expect(sharedKeys(admitted)).toBe(keys.length);
    expect(sluice.audit().clean).toBe(true);
  });

  it("find every bucket full, and not more than full, after an infinite rate", async () => {
    const clock = new ManualClock();
    const sluice = openTable({ capacity: 1000, clock });
    const burst = 50;
    const limiter = sluice.tokenBucket("unlimited at times", { rate: 3, burst });
    const keys = ["a", "b", 7, undefined];
    const buckets = keys.map((key) => bucketOf(sluice, 1, key));
    const crew = await hire(WORKERS, "untilRefused", sluice.handle, {
      name: "unlimited at times",
      keys,
    });
    crew.begin();
    for (let leap = 0; leap < 100; leap++) {
      await until(() => buckets.every((bucket) => bucket.tokens() < 1));
      limiter.setRate(Infinity);
      await until(() => keys.every((key) => callsOf(limiter, key).peek(burst).allowed));
      const before = crew.counted();
      await until(() => crew.counted() > before + 1000);
      limiter.setRate([0, 1e-5][leap % 2]);
    }
    await until(() => buckets.every((bucket) => bucket.tokens() < 1));
    crew.stop();
    await crew.reports();
    for (const bucket of buckets) expect(bucket.tokens()).toBe(0);
    expect(sluice.audit().clean).toBe(true);
  });
});

describe("4 threads on many keys", { timeout: 60_000 }, () => {
  it("share every key exactly, however each of them names it", async () => {
    const sluice = openTable({ capacity: 10_000, clock: new ManualClock() });
    const burst = 500;
    sluice.tokenBucket("mixed", { rate: 0, burst });
    const keys = [
      undefined,
      "",
      "1",
      1,
      1n,
      new Uint8Array([49]),
      "\ud800",
      2n ** 64n + 1n,
      "x".repeat(10_000),
      "ж".repeat(5_000),
      ...Array.from(
        { length: 20 },
        (_, i) => [`user ${i}`, `ключ ${i}`, i + 2, BigInt(i + 2), new Uint8Array([i, 1, 2])],
      ).flat(),
    ];
    const crew = await hire(WORKERS, "everyWay", sluice.handle, {
      name: "mixed",
      keys,
      rounds: 400,
    });
    const admitted = await crew.work();

    expect(keys.map((_, key) => sum(admitted.map((own) => own[key])))).toEqual(keys.map(() => burst));
    expect(sharedKeys(admitted)).toBe(keys.length);
    expect(sluice.stats()).toMatchObject({
      allowed: burst * keys.length,
      denied: (400 * WORKERS - burst) * keys.length,
      evicted: 0,
      claimed: keys.length - 1,
    });
    expect(sluice.audit()).toMatchObject({ clean: true, used: keys.length - 1 });
  });

  const kinds: [string, (sluice: Sluice, limit: number) => unknown][] = [
    ["a leaky bucket", (sluice, limit) => sluice.leakyBucket("kind", { rate: 0, burst: limit })],
    ["a fixed window", (sluice, limit) => sluice.fixedWindow("kind", { limit, windowMs: 1000 })],
    ["a sliding window of one word", (sluice, limit) => sluice.slidingWindow("kind", { limit, windowMs: 1000 })],
    ["a sliding window of slots", (sluice, limit) => sluice.slidingWindow("kind", { limit, windowMs: 1000, slots: 4 })],
    [
      "several limits",
      (sluice, limit) =>
        sluice.tokenBucket("kind", { limits: [{ rate: 0, burst: 2 * limit }, { rate: 0, burst: limit }] }),
    ],
  ];
  it.each(kinds)("share every key of %s exactly", async (_, make) => {
    const sluice = openTable({ capacity: 1000, clock: new ManualClock(500) });
    const limit = 10_000;
    make(sluice, limit);
    const keys = [undefined, "key", 1];
    const crew = await hire(WORKERS, "everyWay", sluice.handle, {
      name: "kind",
      keys,
      rounds: 5_000,
    });
    const admitted = await crew.work();

    expect(keys.map((_, key) => sum(admitted.map((own) => own[key])))).toEqual(keys.map(() => limit));
    expect(sharedKeys(admitted)).toBe(keys.length);
    expect(sluice.stats().limiters.kind).toMatchObject({
      allowed: limit * keys.length,
      denied: (5_000 * WORKERS - limit) * keys.length,
      claimed: 2,
    });
    expect(sluice.audit()).toMatchObject({ clean: true, used: 2 });
  });

  it("keep the sum of tokens through reservations, cancels and refunds", async () => {
    const sluice = openTable({ capacity: 1000, clock: new ManualClock(1) });
    const bursts = { now: 40, later: 10 };
    sluice.tokenBucket("now", { rate: 1, burst: bursts.now });
    sluice.tokenBucket("later", { rate: 1, burst: bursts.later });
    const crew = await hire(WORKERS, "giveAndTake", sluice.handle, { rounds: 50_000 });
    const reports = await crew.work();

    for (const [i, name] of (["now", "later"] as const).entries()) {
      const total = (what: "granted" | "back"): number => sum(reports.map((report) => report[name][what]));
      expect(bucketOf(sluice, i + 1, "pool").tokens(), name).toBe(bursts[name] - total("granted") + total("back"));
      for (const report of reports) expect(report[name].cancels).toBeGreaterThan(0);
    }
    for (const { now, later } of reports) {
      expect(now.refunds).toBeGreaterThan(0);
      expect(later.kept).toBeGreaterThan(0);
    }
    // A worker alone never holds more than 25.
    expect(sum(reports.map((report) => report.now.refused))).toBeGreaterThan(0);
    expect(sluice.audit()).toMatchObject({ clean: true, used: 2 });
  });

  it("admit a key that all of them touch first exactly once", async () => {
    const count = 20_000;
    await untilSeen(async () => {
      const sluice = openTable({ capacity: 100_000, clock: new ManualClock() });
      sluice.tokenBucket("once", { rate: 0, burst: 1 });
      const crew = await hire(WORKERS, "firstTouch", sluice.handle, {
        name: "once",
        count,
      });
      const admitted = await crew.work();

      const totals = Array.from({ length: count }, (_, key) => sum(admitted.map((own) => own[key])));
      expect(totals.filter((total) => total !== 1)).toEqual([]);
      expect(sluice.audit()).toMatchObject({ clean: true, doubles: 0, used: count, fresh: 0 });
      const { allowed, denied, claimed, evicted, contended } = sluice.stats();
      expect({ allowed, denied, claimed, evicted }).toEqual({
        allowed: count,
        denied: (WORKERS - 1) * count,
        claimed: count,
        evicted: 0,
      });
      return contended > 0 && admitted.filter((own) => own.includes(1)).length > 1;
    });
  });
});

describe("4 threads that define policies", { timeout: 60_000 }, () => {
  it("at the same time and of the same names get one policy for each name", async () => {
    const count = 300;
    await untilSeen(async () => {
      const sluice = openTable({ capacity: 10_000, clock: new ManualClock() });
      const crew = await hire(WORKERS, "define", sluice.handle, { count });
      const admitted = await crew.work();

      expect(Array.from({ length: count }, (_, i) => sum(admitted.map((own) => own[i])))).toEqual(
        new Array(count).fill(6),
      );
      expect(Object.keys(sluice.stats().limiters).sort()).toEqual(
        Array.from({ length: count }, (_, i) => `p${i}`).sort(),
      );
      expect(sluice.audit()).toMatchObject({ clean: true, used: count });
      // The first thread at a policy took its tokens: several threads were first somewhere.
      return admitted.filter((own) => own.some((each) => each > 0)).length > 1;
    });
  });
});

describe("a small table flooded by 4 threads", { timeout: 60_000 }, () => {
  const blocked = 100;
  const count = 100_000;

  /**
   * Moves the clock by `ms` in steps while the flood goes on; its keys are fresh
   * again after 1000. A thread that is preempted between reading the clock and its
   * claim sees what others took meanwhile as debt. Less than 9000 in all keeps
   * even such a key fresher than a blocked one.
   */
  async function flood(whenFull: "evict" | "deny" | "allow", ms: number) {
    const clock = new ManualClock();
    const sluice = openTable({ capacity: 1000, clock, whenFull });
    // A key of the flood lacks at most one token in ten, a blocked key its whole burst.
    sluice.tokenBucket("flood", { rate: 1, burst: 10 });
    const guard = sluice.tokenBucket("guard", { rate: 1e-9, burst: 1 });
    for (let i = 0; i < blocked; i++) expect(guard.allow(`blocked ${i}`)).toBe(true);
    const crew = await hire(WORKERS, "flood", sluice.handle, { name: "flood", blockedName: "guard", blocked, count });
    crew.begin();
    for (let moved = 0; moved < ms; moved += 50) {
      await until(() => crew.counted() >= WORKERS * count * moved / ms);
      clock.advance(50);
    }
    const reports = await crew.reports();

    const total = (what: "admitted" | "refused" | "unblocked"): number => sum(reports.map((report) => report[what]));
    const { limiters } = sluice.stats();
    expect(total("unblocked")).toBe(0);
    expect(limiters.guard).toMatchObject({
      allowed: blocked,
      claimed: blocked,
      denied: WORKERS * count / 4,
      evicted: 0,
    });
    const audit = sluice.audit();
    expect(audit.clean).toBe(true);
    return {
      total,
      audit,
      stats: limiters.flood,
      isShared: reports.filter((report) => report.admitted > 0).length > 1,
    };
  }

  it("evicts the slots nearest to fresh, counts them, and frees no blocked key", () =>
    untilSeen(async () => {
      const { total, audit, stats } = await flood("evict", 0);
      expect(total("admitted")).toBe(WORKERS * count);
      expect(stats).toMatchObject({
        allowed: WORKERS * count,
        claimed: WORKERS * count,
        fullDenied: 0,
        fullAllowed: 0,
      });
      // A key that was given a slot and has none any more was evicted.
      expect(stats.evicted).toBe(WORKERS * count + blocked - audit.used);
      expect(audit.used).toBeGreaterThan(1000);
      return stats.contended > 0;
    }));

  it("refuses new keys with whenFull: 'deny', and counts them", () =>
    untilSeen(async () => {
      const { total, audit, stats, isShared } = await flood("deny", 8500);
      expect(total("refused")).toBeGreaterThan(0);
      expect(stats).toMatchObject({
        evicted: 0,
        fullAllowed: 0,
        fullDenied: total("refused"),
        denied: total("refused"),
        allowed: total("admitted"),
        claimed: total("admitted"),
      });
      // Slots changed hands once their keys were fresh.
      return isShared && stats.claimed > 2 * audit.used;
    }));

  it("admits new keys uncharged with whenFull: 'allow', and counts them", () =>
    untilSeen(async () => {
      const { total, audit, stats, isShared } = await flood("allow", 8500);
      expect(total("admitted")).toBe(WORKERS * count);
      expect(stats.fullAllowed).toBeGreaterThan(0);
      expect(stats).toMatchObject({
        evicted: 0,
        fullDenied: 0,
        denied: 0,
        allowed: WORKERS * count,
        claimed: WORKERS * count - stats.fullAllowed,
      });
      return isShared && stats.claimed > 2 * audit.used;
    }));
});
