/** A Piscina pool whose tasks share limiters through the handle in workerData. */
import { Piscina } from "piscina";
import { ManualClock, Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import { compiled, sum } from "./crew.js";
import type { Report } from "./piscina.worker.js";

const THREADS = 4;

function poolOf(sluice: Sluice): Piscina {
  return new Piscina({
    filename: compiled(new URL("./piscina.worker.ts", import.meta.url)).href,
    workerData: sluice.handle,
    minThreads: THREADS,
    maxThreads: THREADS,
    execArgv: [],
  });
}

describe("a pool of 4 threads", { timeout: 60_000 }, () => {
  it("admits exactly what one policy allows, and frees its thread numbers when it is destroyed", async () => {
    // Thread numbers for the pool and the main thread: tasks that attach again must not take more.
    const sluice = Sluice.create({ capacity: 1000, maxThreads: THREADS + 1, clock: new ManualClock() });
    const burst = 100_000;
    const calls = 500;
    sluice.tokenBucket("user", { rate: 0, burst });
    for (let generation = 1; generation <= 3; generation++) {
      const pool = poolOf(sluice);
      const key = `key ${generation}`;
      const reports: Report[] = await Promise.all(
        Array.from({ length: 400 }, () => pool.run({ name: "user", key, calls })),
      );

      expect(sum(reports.map((report) => report.admitted))).toBe(burst);
      expect(new Set(reports.map((report) => report.threadId)).size).toBe(THREADS);
      expect(new Set(reports.filter((report) => report.admitted > 0).map((report) => report.threadId)).size)
        .toBeGreaterThan(1);
      expect(sluice.stats()).toMatchObject({
        allowed: burst * generation,
        denied: (400 * calls - burst) * generation,
        threads: THREADS + 1,
      });

      await pool.destroy();
      expect(sluice.stats().threads).toBe(1);
    }
    expect(sluice.audit()).toMatchObject({ clean: true, used: 3 });
    sluice.close();
  });

  it("keeps its thread numbers when what a task attached is garbage-collected", async () => {
    const sluice = Sluice.create({ capacity: 1000, maxThreads: THREADS + 1, clock: new ManualClock() });
    sluice.tokenBucket("user", { rate: 0, burst: 5000 });
    const pool = poolOf(sluice);
    for (let round = 0; round < 20; round++) {
      const reports: Report[] = await Promise.all(
        Array.from({ length: 8 }, () => pool.run({ name: "user", key: "key", calls: 10 }, { name: "collected" })),
      );
      expect(Math.max(...reports.map((report) => report.threads))).toBeLessThanOrEqual(THREADS + 1);
    }
    expect(sluice.stats().allowed).toBe(20 * 8 * 10);
    await pool.destroy();
    expect(sluice.stats().threads).toBe(1);
    sluice.close();
  });

  it("shares a limiter that is made after it started", async () => {
    const sluice = Sluice.create({ capacity: 1000, clock: new ManualClock() });
    const pool = poolOf(sluice);
    await expect(pool.run({ name: "late", key: "key", calls: 1 })).rejects.toThrow(
      "no limiter \"late\"",
    );
    sluice.tokenBucket("late", { rate: 0, burst: 7 });
    const reports: Report[] = await Promise.all(
      Array.from({ length: 20 }, () => pool.run({ name: "late", key: "key", calls: 1 })),
    );
    expect(sum(reports.map((report) => report.admitted))).toBe(7);
    await pool.destroy();
    sluice.close();
  });
});
