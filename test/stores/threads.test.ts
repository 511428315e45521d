/**
 * Several threads behind one limit of a middleware: its own store admits the limit once
 * a thread, a store in a shared table once.
 */
import { once } from "node:events";
import { Sluice } from "sluice";
import { SluiceStore } from "sluice/stores/express-rate-limit";
import { describe, expect, it } from "vitest";
import { openTable } from "../tables.js";
import { Crew, startWorker, sum } from "../threads/crew.js";
import type { StoreServer } from "./server.worker.js";
import type { StoreJobs } from "./stores.worker.js";

const THREADS = 4;
/** No test takes longer than this window. */
const HOUR_MS = 3_600_000;

describe("4 threads on one client", { timeout: 60_000 }, () => {
  const calls = 20_000;
  const hire = Crew.of<StoreJobs>(new URL("./stores.worker.ts", import.meta.url));

  /** What the threads report, once they have contended. */
  async function contend<Report>(sluice: Sluice, crew: Crew<Report>): Promise<Report[]> {
    crew.begin();
    await expect.poll(() => sluice.stats().contended, { timeout: 50_000 }).toBeGreaterThan(0);
    crew.stop();
    return crew.reports();
  }

  it("give every request a number of its own, without a gap", async () => {
    const sluice = openTable();
    const numbers = (await contend(sluice, await hire(THREADS, "numbers", sluice.handle, { calls, windowMs: HOUR_MS })))
      .flat().sort((a, b) => a - b);
    expect(numbers.length).toBeGreaterThanOrEqual(THREADS * calls);
    // A loop, since a difference of so many numbers takes a minute to print.
    for (let i = 0; i < numbers.length; i++) if (numbers[i] !== i + 1) expect(numbers[i]).toBe(i + 1);
  });

  it("admit exactly the limit in every window, while windows end", async () => {
    const sluice = openTable();
    const limit = 5;
    const seen = (await contend(sluice, await hire(THREADS, "windows", sluice.handle, { calls, windowMs: 2, limit })))
      .flat();
    const windows = sluice.stats().limiters["store windows of 2 ms"].allowed;
    expect(windows).toBeGreaterThan(20);
    // A window gives each number once, and most windows give all of them.
    const times = Array.from({ length: limit }, (_, i) => seen.filter((number) => number === i + 1).length);
    expect(Math.max(...times)).toBeLessThanOrEqual(windows);
    expect(sum(times)).toBeGreaterThan((windows * limit) / 2);
  });

  it("lose no request, and take back no request twice", async () => {
    const sluice = openTable();
    const kept = sum(
      await contend(sluice, await hire(THREADS, "givesBack", sluice.handle, { calls, windowMs: HOUR_MS })),
    );
    const store = new SluiceStore({ sluice, prefix: "gives back" });
    store.init({ windowMs: HOUR_MS });
    expect(store.get("alice")!.totalHits).toBe(kept);
    expect(kept).toBeGreaterThanOrEqual(THREADS * (calls / 100));
  });

  it.each(["continues", "blocks"] as const)(
    "admit no more than the limit while requests beyond it move the end of the window (%s)",
    async (job) => {
      const sluice = openTable();
      const limit = 1000;
      const admitted = await contend(
        sluice,
        await hire(THREADS, job, sluice.handle, { calls, windowMs: HOUR_MS, limit }),
      );
      expect(sum(admitted)).toBe(limit);
      expect(sluice.stats().evicted).toBe(0);
    },
  );
});

const frameworks = ["express", "fastify", "hono", "nest"];

describe.each(frameworks)("4 servers of %s in 4 threads", { timeout: 120_000 }, (framework) => {
  const limit = 40;

  /**
   * Sends rounds of two requests to each server, `limit` + 20 to each; for every
   * admitted one, its server and the remaining count in its headers.
   */
  async function load(isShared: boolean): Promise<{ thread: number; remaining: number }[]> {
    const sluice = openTable();
    const workers = Array.from(
      { length: THREADS },
      () =>
        startWorker(
          new URL("./server.worker.ts", import.meta.url),
          { handle: sluice.handle, limit, windowMs: HOUR_MS, framework, isShared } satisfies StoreServer,
        ),
    );
    try {
      const ports = await Promise.all(
        workers.map(async (worker) => ((await once(worker, "message")) as [{ port: number }])[0].port),
      );
      const answers: { thread: number; status: number; remaining: number }[] = [];
      const ask = async (port: number, thread: number): Promise<void> => {
        const response = await fetch(`http://127.0.0.1:${port}/`);
        await response.text();
        answers.push({
          thread,
          status: response.status,
          remaining: Number(
            response.headers.get("ratelimit-remaining") ?? response.headers.get("x-ratelimit-remaining"),
          ),
        });
      };
      for (let sent = 0; sent < limit + 20; sent += 2) await Promise.all([...ports.map(ask), ...ports.map(ask)]);
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
      return answers.filter(({ status }) => status === 200);
    } finally {
      await Promise.all(workers.map((worker) => worker.terminate()));
    }
  }

  it("admit 4 times the limit, each with counts of its own", async () => {
    expect(await load(false)).toHaveLength(THREADS * limit);
  });

  it("admit exactly the limit, with one count for all", async () => {
    const admitted = await load(true);
    expect(admitted).toHaveLength(limit);
    admitted.sort((a, b) => b.remaining - a.remaining);
    expect(admitted.map(({ remaining }) => remaining)).toEqual(Array.from({ length: limit }, (_, i) => limit - 1 - i));
    // They contended: consecutive numbers came from different threads.
    expect(new Set(admitted.map(({ thread }) => thread)).size).toBe(THREADS);
    expect(admitted.filter(({ thread }, i) => i > 0 && thread !== admitted[i - 1].thread).length).toBeGreaterThan(
      limit / 4,
    );
  });
});
