// waitSync(): it blocks a worker, and only a worker. Rate 10/s and a burst of 1: a token every 100 ms.

import { type Limiter, ManualClock, Sluice } from "sluice";
import { describe, expect, it, onTestFinished } from "vitest";
import { startWorker } from "./crew.js";

function limiterOf(rate = 10, burst = 1): { clock: ManualClock; limiter: Limiter; sluice: Sluice } {
  const clock = new ManualClock();
  const sluice = Sluice.create({ capacity: 1000, clock, maxThreads: 3 });
  return { clock, sluice, limiter: sluice.tokenBucket("test", { rate, burst }) };
}

const codeOf = (code: string): unknown => expect.objectContaining({ code });

describe("a synchronous wait", () => {
  it("is refused on the main thread, always", () => {
    const { limiter } = limiterOf();
    for (
      const wait of [
        () => limiter.waitSync("k"),
        () => limiter.key("k").waitSync(),
        () => limiter.global.waitSync(),
        () => limiter.waitSync("k", 1, { timeoutMs: 0 }),
      ]
    ) {
      expect(wait).toThrow(codeOf("ERR_SLUICE_MAIN_THREAD"));
    }
    expect(limiter.peek("k", 0).remaining).toBe(1);
    expect(limiter.global.peek(0).remaining).toBe(1);
  });

  /** A worker that waits, and its next message (undefined: none for a while). */
  function waiter(
    sluice: Sluice,
  ): { ask: (message: object) => Promise<unknown>; said: (ms?: number) => Promise<unknown> } {
    const worker = startWorker(new URL("./wait.worker.ts", import.meta.url), { handle: sluice.handle });
    onTestFinished(async () => void (await worker.terminate()));
    const heardFrom: unknown[] = [];
    let listener: (() => void) | undefined;
    worker.on("message", (message) => {
      heardFrom.push(message);
      listener?.();
    });
    worker.on("error", (error) => heardFrom.push(String(error)));
    const said = async (ms = 5_000): Promise<unknown> => {
      for (const end = Date.now() + ms; heardFrom.length === 0 && Date.now() < end;) {
        await new Promise<void>((resolve) => {
          listener = resolve;
          setTimeout(resolve, Math.min(ms, 100));
        });
      }
      return heardFrom.shift();
    };
    return { said, ask: async (message) => (worker.postMessage(message), said()) };
  }

  /** Until the worker has taken its turn. */
  async function begun(limiter: Limiter): Promise<void> {
    for (let i = 0; limiter.peek("k", 0).allowed; i++) {
      expect(i).toBeLessThan(5000);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  it("blocks a worker until the tokens are there", async () => {
    const { clock, limiter, sluice } = limiterOf();
    const { ask, said } = waiter(sluice);
    expect(await ask({ key: "k" })).toBe("waits");
    expect(await said()).toBe("done");
    expect(await ask({ key: "k" })).toBe("waits");
    // It has its turn from the first moment on.
    await begun(limiter);
    expect(limiter.peek("k").retryAfterMs).toBe(200);
    clock.set(99.999999);
    expect(await said(30)).toBe(undefined);
    clock.set(100);
    expect(await said()).toBe("done");
    limiter.setRate(0.001);
    expect(await ask({ key: "k" })).toBe("waits");
    await begun(limiter);
    limiter.setRate(Infinity);
    expect(await said()).toBe("done");
  });

  it("fails in a worker as a wait does", async () => {
    const { limiter, sluice } = limiterOf();
    limiter.allow("k");
    const { ask, said } = waiter(sluice);
    for (
      const [message, code] of [[{ key: "k", cost: 2 }, "ERR_SLUICE_COST_ABOVE_BURST"], [{
        key: "k",
        options: { timeoutMs: 99 },
      }, "ERR_SLUICE_TIMEOUT"]] as const
    ) {
      expect(await ask(message)).toBe("waits");
      expect(await said()).toBe(code);
    }
    limiter.setRate(0);
    expect(await ask({ key: "k" })).toBe("waits");
    expect(await said()).toBe("ERR_SLUICE_NEVER");
    expect(limiter.peek("k", 0).remaining).toBe(0);
  });

  it("ends at its deadline if the rate was lowered meanwhile, and gives the tokens back", async () => {
    const { clock, limiter, sluice } = limiterOf();
    const { ask, said } = waiter(sluice);
    // Many times: the worker may be at any point of its sleep when the rate and the time change.
    for (let i = 0; i < 20; i++) {
      limiter.setRate(10);
      limiter.reset("k");
      limiter.allow("k");
      expect(await ask({ key: "k", options: { timeoutMs: 150 } })).toBe("waits");
      await begun(limiter);
      limiter.setRate(1);
      clock.advance(151);
      expect(await said(2000)).toBe("ERR_SLUICE_TIMEOUT");
      expect(limiter.peek("k").retryAfterMs).toBeLessThan(1000);
    }
  });
});
