// acquireSync() and tryAcquireSync() of the Guava face, where they block: in a
// worker. 5 permits per second: one every 200 ms.

import { ManualClock, Sluice } from "sluice";
import { RateLimiter } from "sluice/guava";
import { describe, expect, it, onTestFinished } from "vitest";
import { startWorker } from "./crew.js";

describe("a synchronous acquire in a worker", () => {
  it("sleeps until its permits are due, however the rate changes, and answers as Guava does", async () => {
    const clock = new ManualClock();
    const sluice = Sluice.create({ capacity: 10, clock, maxThreads: 2 });
    const limiter = RateLimiter.create(5, { home: { sluice, name: "guava" } });
    const worker = startWorker(new URL("./guava.worker.ts", import.meta.url), { handle: sluice.handle });
    onTestFinished(async () => void (await worker.terminate()));
    const answers: unknown[] = [];
    worker.on("message", (message) => answers.push(message));
    const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
    const answer = async (): Promise<unknown> => {
      while (answers.length === 0) await pause(1);
      return answers.shift();
    };
    /** Asks, and waits until the worker is about to take its turn. */
    const ask = async (message: object): Promise<void> => {
      worker.postMessage(message);
      expect(await answer()).toBe("waits");
    };
    const nothingYet = async (): Promise<void> => {
      await pause(50);
      expect(answers).toEqual([]);
    };

    expect(limiter.acquireSync(5)).toBe(0);
    await ask({ permits: 1 });
    await nothingYet();
    limiter.setRate(50);
    clock.set(999);
    await nothingYet();
    clock.set(1000);
    expect(await answer()).toBe(1);

    await ask({ permits: 1, timeoutMs: 19 });
    expect(await answer()).toBe(false);
    await ask({ permits: 1, timeoutMs: 200 });
    await nothingYet();
    clock.set(1200);
    expect(await answer()).toBe(true);
    sluice.close();
  });
});
