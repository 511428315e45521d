/** The leaky bucket: as a meter against the exact token bucket, as a queue against a plain list of departures. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ModelBucket } from "../../models/model.js";
import { toNs } from "../../models/window-models.js";
import { announceSeed } from "../../seed.js";
import { create, open } from "../../tables.js";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

// Rates whose nanoseconds are whole units of the kernel's scale, so that nothing is rounded.
const exactRates = fc.constantFrom(1, 10, 1000, 1e6);

type MeterStep = { do: "allow" | "consume" | "charge" | "refund" | "reserve"; cost: number } | {
  do: "pass";
  units: number;
} | { do: "cancel" };
const meterStep: fc.Arbitrary<MeterStep> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "allow" as const,
        "consume" as const,
        "charge" as const,
        "refund" as const,
        "reserve" as const,
      ),
      cost: fc.integer({ min: 0, max: 6 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pass" as const), units: fc.integer({ min: 1, max: 40 }) }) },
  { weight: 1, arbitrary: fc.constant({ do: "cancel" as const }) },
);

/**
 * First difference of a meter and an exact token bucket of the same rate and burst. Time passes in
 * quarters of a drop.
 */
function meterDifference(
  rate: number,
  burst: number,
  steps: readonly MeterStep[],
  modelBurst = burst,
): string | undefined {
  const { sluice, clock } = create();
  const limiter = sluice.leakyBucket("meter", { rate, burst });
  const model = new ModelBucket({ rate, burst: modelBurst, nowNs: BigInt(toNs(clock.nowMs)) });
  const quarterNs = 250_000_000 / rate;
  let ahead: { cancel(): boolean } | undefined;
  let ticket: ReturnType<ModelBucket["reserve"]> | undefined;
  for (const [i, step] of steps.entries()) {
    const now = BigInt(toNs(clock.nowMs));
    const at = `step ${i} ${JSON.stringify(step)}: `;
    if (step.do === "pass") {
      clock.set((Number(now) + step.units * quarterNs) / 1e6);
    } else if (step.do === "cancel") {
      if (!ahead || !ticket) continue;
      const isFull = model.isFresh(now);
      const gave = ahead.cancel();
      const gives = model.cancel(now, ticket.ticket);
      // A full bucket takes nothing back.
      if (gave !== (gives && !isFull)) return `${at}gave back ${gave}, the model ${gives}`;
    } else if (step.do === "charge") {
      limiter.charge("key", step.cost);
      model.charge(now, step.cost);
    } else if (step.do === "refund") {
      limiter.refund("key", step.cost);
      model.refund(now, step.cost);
    } else if (step.do === "reserve") {
      const reservation = limiter.reserve("key", step.cost);
      const wanted = model.reserve(now, step.cost, Infinity);
      if (reservation.granted !== wanted.granted) return `${at}granted ${reservation.granted}`;
      if (wanted.granted && toNs(reservation.delayMs) !== wanted.delayNs) {
        return `${at}delay ${reservation.delayMs}, the model ${wanted.delayNs} ns`;
      }
      if (step.cost > 0) [ahead, ticket] = [reservation, wanted];
    } else {
      const waitNs = model.waitNs(now, step.cost);
      const decision = step.do === "consume" ? limiter.consume("key", step.cost) : undefined;
      const allowed = decision ? decision.allowed : limiter.allow("key", step.cost);
      if (allowed !== model.allow(now, step.cost)) return `${at}allowed ${allowed}`;
      if (decision && toNs(decision.retryAfterMs) !== waitNs) {
        return `${at}retry after ${decision.retryAfterMs} ms, the model ${waitNs} ns`;
      }
    }
    const { remaining } = limiter.peek("key", 0);
    const left = Math.max(0, Math.floor(model.peekTokens(BigInt(toNs(clock.nowMs)))));
    if (remaining !== left) return `${at}${remaining} remain, the model ${left}`;
  }
  sluice.close();
  open.pop();
  return undefined;
}

describe("a leaky bucket as a meter", () => {
  it("answers as a token bucket of that rate and burst, after any operations", () => {
    const seed = announceSeed("leaky meter");
    fc.assert(
      fc.property(
        exactRates,
        fc.constantFrom(1, 2, 5, 1000),
        fc.array(meterStep, { maxLength: 60 }),
        (rate, burst, steps) => {
          expect(meterDifference(rate, burst, steps)).toBeUndefined();
        },
      ),
      { seed, numRuns: 300 },
    );
  });

  it("is distinguished from a bucket of another burst", () => {
    expect(meterDifference(10, 5, [{ do: "allow", cost: 5 }, { do: "consume", cost: 1 }])).toBeUndefined();
    expect(meterDifference(10, 5, [{ do: "consume", cost: 1 }], 6)).toMatch("4 remain, the model 5");
    expect(meterDifference(10, 5, [{ do: "allow", cost: 5 }], 4)).toMatch("allowed true");
  });

  it("equals, answer for answer, the token bucket of the same options", () => {
    const seed = announceSeed("leaky meter, twin");
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100_000 }),
        fc.nat(20),
        fc.array(fc.tuple(fc.nat(500_000_000), fc.nat(6)), { maxLength: 60 }),
        (rate, burst, calls) => {
          const { sluice, clock } = create();
          const leaky = sluice.leakyBucket("leaky", { rate, burst });
          const tokens = sluice.tokenBucket("tokens", { rate, burst });
          for (const [ns, cost] of calls) {
            clock.set((toNs(clock.nowMs) + ns) / 1e6);
            expect(leaky.consume("key", cost)).toEqual(tokens.consume("key", cost));
          }
          sluice.close();
          open.pop();
        },
      ),
      { seed, numRuns: 200 },
    );
  });

  it("needs a burst", () => {
    const { sluice } = create();
    expect(() => sluice.leakyBucket("meter", { rate: 1 } as never)).toThrow(
      "\"burst\" expected an integer number of tokens from 0 to 2147483647, got undefined",
    );
  });
});

describe("a leaky bucket as a queue", () => {
  it("releases callers one by one at its rate: 0, 1 / rate, 2 / rate", () => {
    const { sluice } = create();
    const limiter = sluice.leakyBucket("queue", { rate: 10, queue: 5 });
    const delays = Array.from({ length: 7 }, () => limiter.reserve("key"));
    expect(delays.map((each) => each.granted)).toEqual([true, true, true, true, true, true, false]);
    expect(delays.map((each) => each.delayMs)).toEqual([0, 100, 200, 300, 400, 500, 600]);
  });

  it("agrees with a plain list of departures: one interval after the last, none while the queue is full", () => {
    const seed = announceSeed("leaky queue");
    let full = 0;
    fc.assert(
      fc.property(
        fc.constantFrom(1, 10, 1000),
        fc.nat(6),
        fc.array(fc.nat(5), { maxLength: 60 }),
        (rate, queue, quarters) => {
          const { sluice, clock } = create();
          const limiter = sluice.leakyBucket("queue", { rate, queue });
          const intervalNs = 1e9 / rate;
          const departures: number[] = [];
          for (const pause of quarters) {
            clock.set((toNs(clock.nowMs) + pause * (intervalNs / 4)) / 1e6);
            const nowNs = toNs(clock.nowMs);
            const lastNs = departures.at(-1);
            const departsNs = Math.max(nowNs, lastNs === undefined ? 0 : lastNs + intervalNs);
            const isFull = departsNs - nowNs > queue * intervalNs;
            expect(limiter.peek("key").allowed).toBe(departsNs === nowNs);
            const reservation = limiter.reserve("key");
            expect(reservation.granted).toBe(!isFull);
            expect(toNs(reservation.delayMs)).toBe(departsNs - nowNs);
            if (isFull) full++;
            else departures.push(departsNs);
            // No wait exceeds the queue, in whole intervals.
            expect(departures.filter((ns) => ns > nowNs).length).toBeLessThanOrEqual(Math.max(queue, 0));
          }
          expect(departures.every((ns, i) => i === 0 || ns - departures[i - 1] >= intervalNs)).toBe(true);
          sluice.close();
          open.pop();
        },
      ),
      { seed, numRuns: 200 },
    );
    expect(full).toBeGreaterThan(20);
  });

  it("ends its waits first in, first out, each at its own moment", async () => {
    const { sluice, clock } = create();
    const limiter = sluice.leakyBucket("queue", { rate: 10, queue: 4 });
    const out: string[] = [];
    const waits = ["a", "b", "c", "d", "e"].map((name) =>
      limiter.wait("key").then(() => out.push(`${name} ${clock.nowMs}`))
    );
    await turn();
    expect(out).toEqual(["a 1000"]);
    for (let ms = 0; ms < 400; ms += 50) {
      clock.advance(50);
      await turn();
    }
    await Promise.all(waits);
    expect(out).toEqual(["a 1000", "b 1100", "c 1200", "d 1300", "e 1400"]);
  });

  it("refuses at once a caller for whom it has no place, and charges nothing", async () => {
    const { sluice, clock } = create();
    const limiter = sluice.leakyBucket("queue", { rate: 10, queue: 2 });
    const waits = [limiter.wait("key"), limiter.wait("key"), limiter.wait("key")];
    const before = limiter.peek("key");
    for (let i = 0; i < 5; i++) {
      await expect(limiter.wait("key")).rejects.toMatchObject({
        code: "ERR_SLUICE_QUEUE_FULL",
        message: "queue full: \"queue\" has no place for 1 more",
      });
      expect(limiter.reserve("key")).toMatchObject({ granted: false, delayMs: 300 });
    }
    expect(limiter.peek("key")).toEqual(before);
    // A deadline that the queue would not meet either is a deadline's error.
    await expect(limiter.wait("key", 1, { timeoutMs: 299 })).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
    await expect(limiter.wait("key", 2)).rejects.toMatchObject({ code: "ERR_SLUICE_COST_ABOVE_BURST" });
    clock.advance(200);
    await Promise.all(waits);
    clock.advance(100);
    expect(limiter.allow("key")).toBe(true);
  });

  it("has a place again as soon as the next has left", async () => {
    const { sluice, clock } = create();
    const limiter = sluice.leakyBucket("queue", { rate: 10, queue: 2 });
    for (let i = 0; i < 3; i++) limiter.reserve("key");
    clock.set((1_100_000_000 - 1) / 1e6);
    expect(limiter.reserve("key").granted).toBe(false);
    clock.set(1100);
    expect(limiter.reserve("key")).toMatchObject({ granted: true, delayMs: 200 });
    expect(limiter.reserve("key").granted).toBe(false);
  });

  it("frees the place of an aborted wait, and later ones move up", async () => {
    const { sluice, clock } = create();
    const limiter = sluice.leakyBucket("queue", { rate: 10, queue: 3 });
    const abort = new AbortController();
    const out: string[] = [];
    const wait = (name: string, signal?: AbortSignal): Promise<unknown> =>
      limiter.wait("key", 1, { signal }).then(
        () => out.push(`${name} ${clock.nowMs}`),
        (error: unknown) => out.push(`${name} ${error}`),
      );
    const waits = [wait("a"), wait("b", abort.signal), wait("c"), wait("d")];
    await expect(limiter.wait("key")).rejects.toMatchObject({ code: "ERR_SLUICE_QUEUE_FULL" });
    abort.abort("gave up");
    waits.push(wait("e"));
    await expect(limiter.wait("key")).rejects.toMatchObject({ code: "ERR_SLUICE_QUEUE_FULL" });
    for (let i = 0; i < 4; i++) {
      clock.advance(100);
      await turn();
    }
    await Promise.all(waits);
    expect(out).toEqual(["a 1000", "b gave up", "c 1100", "d 1200", "e 1300"]);
  });

  it("allows only when a caller may leave at once, after all that wait", () => {
    const { sluice, clock } = create();
    const limiter = sluice.leakyBucket("queue", { rate: 10, queue: 5 });
    expect(limiter.allow("key")).toBe(true);
    expect(limiter.allow("key")).toBe(false);
    limiter.reserve("key");
    clock.advance(100);
    expect(limiter.allow("key")).toBe(false);
    expect(limiter.consume("key")).toMatchObject({ allowed: false, retryAfterMs: 100 });
    clock.advance(100);
    expect(limiter.allow("key")).toBe(true);
  });

  it("of length 0 takes only callers that may leave at once", async () => {
    const { sluice, clock } = create();
    const limiter = sluice.leakyBucket("queue", { rate: 10, queue: 0 });
    await limiter.wait("key");
    await expect(limiter.wait("key")).rejects.toMatchObject({ code: "ERR_SLUICE_QUEUE_FULL" });
    clock.advance(100);
    await limiter.wait("key");
  });

  it("with a burst releases that many together, and queues the rest", () => {
    const { sluice } = create();
    const limiter = sluice.leakyBucket("queue", { rate: 10, burst: 3, queue: 2 });
    expect(Array.from({ length: 6 }, () => limiter.reserve("key").delayMs)).toEqual([0, 0, 0, 100, 200, 300]);
    expect(limiter.reserve("key").granted).toBe(false);
  });

  it("applies a new rate to waiting callers, and keeps its length", async () => {
    const { sluice, clock } = create();
    const limiter = sluice.leakyBucket("queue", { rate: 10, queue: 2 });
    const out: number[] = [];
    const waits = [0, 1, 2].map(() => limiter.wait("key").then(() => out.push(clock.nowMs)));
    await turn();
    limiter.setRate(1000);
    expect(limiter.reserve("key").granted).toBe(false);
    for (let i = 0; i < 2; i++) {
      clock.advance(1);
      await turn();
    }
    await Promise.all(waits);
    expect(out).toEqual([1000, 1001, 1002]);
    limiter.setRate(1e6);
    clock.advance(1);
    expect(Array.from({ length: 5 }, () => limiter.reserve("key").granted)).toEqual([true, true, true, false, false]);
  });

  it("of rate 0 releases its burst once, and then answers never", async () => {
    const { sluice } = create();
    const limiter = sluice.leakyBucket("queue", { rate: 0, queue: 3 });
    await limiter.wait("key");
    await expect(limiter.wait("key")).rejects.toMatchObject({ code: "ERR_SLUICE_NEVER" });
  });

  it.each([-1, 1.5, Number.NaN, 2 ** 31])("refuses a length of %d", (queue) => {
    const { sluice } = create();
    expect(() => sluice.leakyBucket("queue", { rate: 1, queue })).toThrow(
      "\"queue\" expected an integer from 0 to 2147483647",
    );
  });
});
