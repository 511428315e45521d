// A handle on a table with a clock cell keeps its last reading of the clock. It
// must answer as the limiter does, which reads the clock for every call.

import fc from "fast-check";
import { type KeyedLimiter, type Limiter, ManualClock, Sluice } from "sluice";
import { describe, expect, it } from "vitest";

type Step =
  | { does: "allow"; cost: number }
  | { does: "move"; ms: number }
  | { does: "rate"; rate: number }
  | { does: "burst"; burst: number };

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        does: fc.constant("allow" as const),
        cost: fc.constantFrom(0, 1, 1, 1, 2, 7, 2 ** 31 - 1),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        does: fc.constant("move" as const),
        ms: fc.constantFrom(-1000, -0.5, 0, 0.000001, 1, 99, 100, 5000, 1e12),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        does: fc.constant("rate" as const),
        rate: fc.constantFrom(0, 1e-6, 1, 10, 1000, 3e9, Infinity),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ does: fc.constant("burst" as const), burst: fc.constantFrom(0, 1, 5, 8, 1000) }),
    },
  ),
  { minLength: 1, maxLength: 80, size: "max" },
);

const kinds: Record<string, (sluice: Sluice, name: string) => Limiter> = {
  tokenBucket: (sluice, name) => sluice.tokenBucket(name, { rate: 10, burst: 5 }),
  leakyBucket: (sluice, name) => sluice.leakyBucket(name, { rate: 10, burst: 5 }),
  fixedWindow: (sluice, name) => sluice.fixedWindow(name, { limit: 5, windowMs: 500 }),
  slidingWindow: (sluice, name) => sluice.slidingWindow(name, { limit: 5, windowMs: 500 }),
};

/** The answers at each step, by a handle that is kept and by the key. */
function answers(
  kind: string,
  key: string | undefined,
  walk: readonly Step[],
): { kept: boolean[]; looked: boolean[]; stats: unknown[] } {
  const clock = new ManualClock(5000);
  const sluice = Sluice.create({ capacity: 100, clock, maxThreads: 2 });
  const twins = ["kept", "looked"].map((name) => kinds[kind](sluice, name));
  const handle: KeyedLimiter = key === undefined ? twins[0].global : twins[0].key(key);
  const kept: boolean[] = [];
  const looked: boolean[] = [];
  const isWindow = kind.endsWith("Window");
  for (const step of walk) {
    if (step.does === "allow") {
      kept.push(handle.allow(step.cost));
      // Neither way keeps a reading: `consume` decides in general, and so does a key that is looked up.
      looked.push(key === undefined ? twins[1].global.consume(step.cost).allowed : twins[1].allow(key, step.cost));
    } else if (step.does === "move") clock.set(Math.max(0, clock.nowMs + step.ms));
    else if (isWindow) {
      // A limit that makes about that rate in half a second.
      const limit = step.does === "rate" ? Math.round(Math.min(step.rate, 1000) / 2) : step.burst;
      for (const limiter of twins) limiter.setLimit(Math.max(1, limit));
    } else {
      for (const limiter of twins) {
        if (step.does === "rate") limiter.setRate(step.rate);
        else limiter.setBurst(step.burst);
      }
    }
  }
  const { limiters } = sluice.stats();
  const counts = ["kept", "looked"].map((name) => ({ allowed: limiters[name].allowed, denied: limiters[name].denied }));
  sluice.close();
  return { kept, looked, stats: counts };
}

describe("a handle that keeps its reading of the clock cell", () => {
  for (const kind of Object.keys(kinds)) {
    for (const key of ["alice", undefined]) {
      it(`answers and counts as the limiter does under any clock and limits (${kind}, ${key ?? "global"})`, () => {
        const seen = { allowed: 0, denied: 0 };
        fc.assert(
          fc.property(steps, (walk) => {
            const { kept, looked, stats } = answers(kind, key, walk);
            expect(kept).toEqual(looked);
            expect(stats[0]).toEqual(stats[1]);
            for (const isAllowed of kept) seen[isAllowed ? "allowed" : "denied"]++;
          }),
          // A new limit of a fixed window may pause for 5 ms.
          { numRuns: kind === "fixedWindow" ? 60 : 120 },
        );
        expect(seen.allowed).toBeGreaterThan(200);
        expect(seen.denied).toBeGreaterThan(200);
      });
    }
  }

  it("does not use a slot that was given to another key", () => {
    const clock = new ManualClock();
    const sluice = Sluice.create({ capacity: 1, clock, maxThreads: 1 });
    const limiter = sluice.tokenBucket("user", { rate: 0, burst: 2 });
    const names = Array.from({ length: 50 }, (_, i) => `user ${i}`);
    const handles = names.map((name) => limiter.key(name));
    for (const handle of handles) expect(handle.allow() && handle.allow(0)).toBe(true);
    for (let other = 0; other < 10_000; other++) for (let i = 0; i < 3; i++) limiter.allow(other);
    const lost = handles.filter((_, i) => limiter.peek(names[i]).remaining === 2);
    expect(lost.length).toBeGreaterThan(10);
    // A new bucket, not the one of the new owner of the slot.
    for (const handle of lost) expect(handle.allow()).toBe(true);
    sluice.close();
  });
});
