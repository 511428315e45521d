// Every method of the Go face, on a clock moved by hand. What Go itself answers,
// recorded call by call, is replayed in test/conformance.
//
// 10 tokens per second and a burst of 5, unless said otherwise: a token every 100 ms.

import { performance } from "node:perf_hooks";
import type { ManualClock, Sluice } from "sluice";
import { every, Inf, InfDuration, Limiter, Sometimes } from "sluice/go";
import { describe, expect, it, vi } from "vitest";
import { create } from "../tables.js";

function limiterOf(limit = 10, burst = 5): { clock: ManualClock; sluice: Sluice; limiter: Limiter } {
  const { sluice, clock } = create(0);
  return { clock, sluice, limiter: new Limiter(limit, burst, { sluice, name: "go" }) };
}

/** Runs the reactions of settled promises. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** When a wait ended, ms on the clock, or its error's code; undefined while it lasts. */
function endOf(wait: Promise<void>, clock: ManualClock): { readonly at: unknown } {
  const end: { at: unknown } = { at: undefined };
  wait.then(() => (end.at = clock.nowMs), (error: { code?: string }) => (end.at = error.code ?? error));
  return end;
}

describe("a limiter", () => {
  it("is full at first and reports its limit, its burst, its tokens and its time", () => {
    const { limiter, clock } = limiterOf();
    expect([limiter.limit(), limiter.burst(), limiter.tokens(), limiter.now()]).toEqual([10, 5, 5, 0]);
    clock.set(250);
    expect(limiter.now()).toBe(250);
    expect(new Limiter(every(100), 1).limit()).toBe(10);
  });

  it("is one for all that name it at its home, and has a table of its own without", () => {
    const { limiter, sluice } = limiterOf();
    const same = new Limiter(10, 5, { sluice, name: "go" });
    expect(same.allowN(0, 5)).toBe(true);
    expect(limiter.allow()).toBe(false);
    expect(() => new Limiter(10, 6, { sluice, name: "go" })).toThrow(
      expect.objectContaining({ code: "ERR_SLUICE_POLICY_EXISTS", limiter: "go" }),
    );
    const [one, other] = [new Limiter(1, 1), new Limiter(1, 1)];
    expect([one.allow(), one.allow(), other.allow()]).toEqual([true, false, true]);
  });

  it.each<[string, () => unknown, string]>([
    ["limit", () => new Limiter(-1, 1), "\"limit\" expected tokens per second"],
    ["limit of a wrong type", () => new Limiter("1" as never, 1), "\"limit\" expected tokens per second"],
    ["burst", () => new Limiter(1, 0.5), "\"burst\" expected an integer"],
    ["home", () => new Limiter(1, 1, { sluice: {} as Sluice, name: "go" }), "\"sluice\" expected a Sluice"],
    ["time", () => limiterOf().limiter.allowN(NaN, 1), "\"at\" expected a finite time"],
    ["number of events", () => limiterOf().limiter.allowN(0, -1), "\"cost\" expected an integer"],
    ["new limit", () => limiterOf().limiter.setLimit(NaN), "\"limit\" expected tokens per second"],
    ["new burst", () => limiterOf().limiter.setBurst(-1), "\"burst\" expected an integer"],
  ])("refuses a wrong %s", (_, call, message) => {
    expect(call).toThrow(message);
  });
});

describe("allow and allowN", () => {
  it("take tokens that are there, and none that are not", () => {
    const { limiter, clock } = limiterOf();
    expect(limiter.allow()).toBe(true);
    expect(limiter.allowN(0, 5)).toBe(false);
    expect(limiter.tokens()).toBe(4);
    expect(limiter.allowN(0, 4)).toBe(true);
    clock.set(99);
    expect(limiter.allow()).toBe(false);
    clock.set(100);
    expect(limiter.allow()).toBe(true);
  });

  it("decide at the time that they are given", () => {
    const { limiter } = limiterOf();
    expect(limiter.allowN(0, 5)).toBe(true);
    expect(limiter.allowN(299, 3)).toBe(false);
    expect(limiter.allowN(300, 3)).toBe(true);
    expect(limiter.tokensAt(350)).toBe(0.5);
    expect(limiter.tokensAt(10_000)).toBe(5);
  });

  it("allow everything at an infinite limit, even with a burst of 0", () => {
    const { limiter } = limiterOf(Inf, 0);
    expect(limiter.allowN(0, 1_000_000)).toBe(true);
  });
});

describe("reserve and reserveN", () => {
  it("take tokens from the future, and say when they are due", () => {
    const { limiter, clock } = limiterOf();
    expect(limiter.allowN(0, 5)).toBe(true);
    const one = limiter.reserve();
    const three = limiter.reserveN(0, 3);
    expect([one.ok, one.delay(), three.ok, three.delay()]).toEqual([true, 100, true, 400]);
    expect(limiter.tokens()).toBe(-4);
    clock.set(150);
    expect([one.delay(), three.delay(), three.delayFrom(350), three.delayFrom(500)]).toEqual([0, 250, 50, 0]);
  });

  it("are not ok for more than the burst, and take nothing then", () => {
    const { limiter } = limiterOf();
    const never = limiter.reserveN(0, 6);
    expect([never.ok, never.delay(), never.delayFrom(1e6)]).toEqual([false, InfDuration, InfDuration]);
    never.cancel();
    expect(limiter.tokens()).toBe(5);
  });

  it("give their tokens back once, and only until they are due", () => {
    const { limiter, clock } = limiterOf();
    limiter.allowN(0, 5);
    const cancelled = limiter.reserveN(0, 2);
    cancelled.cancel();
    expect(limiter.tokens()).toBe(0);
    cancelled.cancel();
    expect(limiter.tokens()).toBe(0);
    const past = limiter.reserveN(0, 1);
    past.cancelAt(101);
    expect(limiter.tokensAt(0)).toBe(-1);
    const disposed = limiter.reserveN(0, 1);
    disposed[Symbol.dispose]();
    expect(limiter.tokensAt(0)).toBe(-1);
    clock.set(100);
    const now = limiter.reserve();
    clock.set(200);
    now[Symbol.dispose]();
    expect(limiter.tokens()).toBe(0);
  });
});

describe("wait and waitN", () => {
  it("resolve at once if the tokens are there, else when they come, in order", async () => {
    const { limiter, clock } = limiterOf();
    await limiter.waitN(5);
    const one = endOf(limiter.wait(), clock);
    const two = endOf(limiter.waitN(2), clock);
    for (const ms of [99, 100, 299, 300]) {
      clock.set(ms);
      await settled();
    }
    expect([one.at, two.at]).toEqual([100, 300]);
  });

  it("fail at once for more than the burst, past the deadline, and for what rate 0 never brings", async () => {
    const { limiter, clock } = limiterOf();
    await expect(limiter.waitN(6)).rejects.toMatchObject({
      code: "ERR_SLUICE_COST_ABOVE_BURST",
      message: "never: 6 tokens of \"go\" are more than its burst of 5",
      limiter: "go",
      cost: 6,
    });
    limiter.allowN(0, 5);
    clock.set(10);
    await expect(limiter.wait({ deadlineMs: 99 })).rejects.toMatchObject({
      code: "ERR_SLUICE_TIMEOUT",
      message: "timed out: 1 token of \"go\" is 90 ms away, timeoutMs is 89",
      retryAfterMs: 90,
    });
    await expect(limiter.wait({ deadlineMs: 5 })).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
    expect(limiter.tokens()).toBeCloseTo(0.1, 9);
    const inTime = endOf(limiter.wait({ deadlineMs: 100 }), clock);
    clock.set(100);
    await settled();
    expect(inTime.at).toBe(100);
    limiter.setLimit(0);
    await expect(limiter.wait()).rejects.toMatchObject({ code: "ERR_SLUICE_NEVER", retryAfterMs: Infinity });
    await expect(limiter.wait({ deadlineMs: NaN })).rejects.toThrow("\"deadlineMs\" expected a number of milliseconds");
    await expect(limiter.wait({ signal: {} as AbortSignal })).rejects.toThrow("\"signal\" expected an AbortSignal");
  });

  it("end with the signal's reason and give the tokens back, which the next in line gets", async () => {
    const { limiter, clock } = limiterOf();
    limiter.allowN(0, 5);
    const abort = new AbortController();
    const aborted = limiter.wait({ signal: abort.signal });
    const next = endOf(limiter.wait(), clock);
    const reason = new Error("gave up");
    abort.abort(reason);
    await expect(aborted).rejects.toBe(reason);
    expect(limiter.tokens()).toBe(-1);
    clock.set(100);
    await settled();
    expect(next.at).toBe(100);
    await expect(limiter.wait({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(limiter.tokens()).toBe(0);
  });
});

describe("setLimit and setLimitAt", () => {
  it("keep the tokens, and refill at the new limit from then on", () => {
    const { limiter, clock } = limiterOf();
    limiter.allowN(0, 5);
    clock.set(200);
    limiter.setLimit(20);
    expect([limiter.limit(), limiter.tokens()]).toEqual([20, 2]);
    clock.set(250);
    expect(limiter.tokens()).toBe(3);
    limiter.setLimitAt(300, 1);
    expect(limiter.tokensAt(300)).toBe(4);
    expect(limiter.tokensAt(1300)).toBe(5);
  });

  it("let waits end by the new limit", async () => {
    const { limiter, clock } = limiterOf();
    limiter.allowN(0, 5);
    const wait = endOf(limiter.wait(), clock);
    clock.set(50);
    limiter.setLimit(50);
    clock.set(60);
    await settled();
    expect(wait.at).toBe(60);
  });
});

describe("setBurst and setBurstAt", () => {
  it("keep the tokens, up to the new burst", () => {
    const { limiter, clock } = limiterOf();
    limiter.allowN(0, 1);
    limiter.setBurst(10);
    expect([limiter.burst(), limiter.tokens()]).toEqual([10, 4]);
    clock.set(10_000);
    expect(limiter.tokens()).toBe(10);
    limiter.setBurst(3);
    expect(limiter.tokens()).toBe(3);
    limiter.setBurstAt(10_000, 0);
    expect(limiter.allow()).toBe(false);
  });

  it("as of a later time count the tokens that come until then", () => {
    const { limiter } = limiterOf();
    limiter.allowN(0, 5);
    limiter.setBurstAt(300, 10);
    expect([limiter.tokensAt(300), limiter.tokensAt(2000)]).toEqual([3, 10]);
  });
});

describe("Sometimes", () => {
  /** In which of `count` calls, from 1, it runs. */
  function runsOf(sometimes: Sometimes, count: number): number[] {
    const runs: number[] = [];
    for (let call = 1; call <= count; call++) sometimes.do(() => runs.push(call));
    return runs;
  }

  it("runs in the first call, in the first ones, and in every n-th after the first", () => {
    expect(runsOf(new Sometimes(), 5)).toEqual([1]);
    expect(runsOf(new Sometimes({ first: 3 }), 5)).toEqual([1, 2, 3]);
    expect(runsOf(new Sometimes({ every: 3 }), 8)).toEqual([1, 4, 7]);
    expect(runsOf(new Sometimes({ first: 2, every: 4 }), 9)).toEqual([1, 2, 5, 9]);
  });

  it("runs when the interval has passed since its last run", () => {
    let nowMs = 1000;
    const clock = vi.spyOn(performance, "now").mockImplementation(() => nowMs);
    const sometimes = new Sometimes({ intervalMs: 100 });
    expect(runsOf(sometimes, 3)).toEqual([1]);
    nowMs = 1099;
    expect(runsOf(sometimes, 2)).toEqual([]);
    nowMs = 1100;
    expect(runsOf(sometimes, 2)).toEqual([1]);
    nowMs = 1199;
    expect(runsOf(sometimes, 1)).toEqual([]);
    clock.mockRestore();
  });

  it("counts a call whose action throws, and refuses wrong options", () => {
    const sometimes = new Sometimes({ first: 2 });
    expect(() =>
      sometimes.do(() => {
        throw new Error("from the action");
      })
    ).toThrow("from the action");
    expect(runsOf(sometimes, 3)).toEqual([1]);
    for (const options of [{ first: -1 }, { every: 0.5 }, { intervalMs: -1 }, { intervalMs: NaN }]) {
      expect(() => new Sometimes(options)).toThrow(/^"(first|every|intervalMs)" expected/);
    }
  });
});
