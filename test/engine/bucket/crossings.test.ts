/**
 * How often a call crosses from JavaScript into the kernel, which takes about as
 * long as a decision: every function of the kernel is wrapped and counted.
 */
import { afterEach, describe, expect, it } from "vitest";
import { type Limiter, policyOf } from "../../../src/engine/limiter/limiter.js";
import { Sluice } from "../../../src/engine/limiter/sluice.js";
import { ManualClock } from "../../../src/engine/manual-clock.js";

const open: Sluice[] = [];

afterEach(() => {
  for (const sluice of open.splice(0)) sluice.close();
});

/** A table whose kernel counts its calls. */
function create(): { sluice: Sluice; clock: ManualClock; crossings: (call: () => unknown) => string[] } {
  const clock = new ManualClock(1000);
  const sluice = Sluice.create({ capacity: 1000, clock });
  open.push(sluice);
  const { kernel } = policyOf(sluice.tokenBucket("any", { rate: 1, burst: 1 }))!.table;
  const calls: string[] = [];
  const functions = kernel as unknown as Record<string, unknown>;
  for (const [name, value] of Object.entries(functions)) {
    if (typeof value !== "function") continue;
    functions[name] = (...args: unknown[]) => {
      calls.push(name);
      return value(...args);
    };
  }
  const crossings = (call: () => unknown): string[] => {
    calls.length = 0;
    call();
    return [...calls];
  };
  return { sluice, clock, crossings };
}

const kinds: [string, (sluice: Sluice) => Limiter][] = [
  ["a token bucket", (sluice) => sluice.tokenBucket("p", { rate: 10, burst: 5 })],
  ["several limits", (sluice) => sluice.tokenBucket("p", { limits: [{ rate: 10, burst: 5 }, { rate: 1, burst: 9 }] })],
  ["a leaky queue", (sluice) => sluice.leakyBucket("p", { rate: 10, burst: 5, queue: 9 })],
  ["a fixed window", (sluice) => sluice.fixedWindow("p", { limit: 5, windowMs: 1000 })],
  ["a sliding window", (sluice) => sluice.slidingWindow("p", { limit: 5, windowMs: 1000 })],
  ["a window with slots", (sluice) => sluice.slidingWindow("p", { limit: 5, windowMs: 1000, slots: 5 })],
  ["a warm-up", (sluice) => sluice.warmUp("p", { rate: 10, warmupMs: 1000 })],
];

describe.each(kinds)("%s", (_, make) => {
  it.each([["a string", "alice"], ["the empty string", ""], ["a number", 42.5]])(
    "answers consume, peek and reserve of %s in one crossing, of a key never seen too",
    (_kind, key) => {
      const { sluice, crossings } = create();
      const limiter = make(sluice);
      expect(crossings(() => limiter.peek(key))).toHaveLength(1);
      for (let i = 0; i < 12; i++) {
        expect(crossings(() => limiter.consume(key))).toHaveLength(1);
        expect(crossings(() => limiter.peek(key))).toHaveLength(1);
        expect(crossings(() => limiter.reserve(key))).toHaveLength(1);
        expect(crossings(() => limiter.allow(key))).toHaveLength(1);
      }
    },
  );

  it("answers for the global bucket and for a handle in one crossing, once the handle's key is hashed", () => {
    const { sluice, crossings } = create();
    const limiter = make(sluice);
    const handle = limiter.key(new Uint8Array([1, 2, 3]));
    for (const each of [limiter.global, handle, handle]) {
      expect(crossings(() => each.peek())).toHaveLength(1);
      expect(crossings(() => each.consume())).toHaveLength(1);
      expect(crossings(() => each.reserve())).toHaveLength(1);
      expect(crossings(() => each.refund())).toHaveLength(1);
    }
  });

  it("cancels a reservation in one crossing", () => {
    const { sluice, crossings } = create();
    const limiter = make(sluice);
    for (let i = 0; i < 8; i++) {
      const reservation = limiter.reserve("alice");
      expect(crossings(() => reservation.cancel()).length).toBeLessThanOrEqual(1);
    }
    limiter.reserve("alice", 3);
    const reservation = limiter.reserve("alice", 3);
    expect(reservation.delayMs).toBeGreaterThan(0);
    expect(crossings(() => reservation.cancel())).toHaveLength(1);
  });

  it("takes at most two crossings to wait, however many may wait", () => {
    const { sluice, clock, crossings } = create();
    const limiter = make(sluice);
    const waits: Promise<void>[] = [];
    for (let i = 0; i < 8; i++) {
      expect(crossings(() => waits.push(limiter.wait("alice"))).length).toBeLessThanOrEqual(2);
      expect(crossings(() => waits.push(limiter.wait("bob", 1, { maxWaiters: 100 }))).length).toBeLessThanOrEqual(2);
      expect(crossings(() => waits.push(limiter.wait(`key ${i}`))).length).toBeLessThanOrEqual(2);
      expect(crossings(() => limiter.wait("carol", 1, { maxWaiters: 0 }).catch(() => {})).length).toBeLessThanOrEqual(
        2,
      );
      expect(crossings(() => limiter.wait("bob", 1, { maxWaiters: 1 }).catch(() => {})).length).toBeLessThanOrEqual(2);
    }
    clock.advance(60_000);
    return Promise.all(waits);
  });

  it("takes at most three crossings for all of two, and two if both admit", () => {
    const { sluice, crossings } = create();
    const first = make(sluice);
    const second = sluice.tokenBucket("second", { rate: 0, burst: 3 });
    for (let i = 0; i < 12; i++) {
      let allowed = false;
      const calls = crossings(() => (allowed = sluice.all([[first, "alice"], [second, i % 2]]).allowed));
      expect(calls.length).toBeLessThanOrEqual(allowed ? 2 : 3);
      expect(crossings(() => sluice.all([[first, "alice"], [first, "alice"]])).length).toBeLessThanOrEqual(3);
    }
  });
});

it("counts what is hashed in more than one crossing", () => {
  const { sluice, crossings } = create();
  const limiter = sluice.tokenBucket("p", { rate: 10, burst: 5 });
  expect(crossings(() => limiter.consume("日本"))).toEqual(["keyOfBytes", "decide"]);
  expect(crossings(() => limiter.consume("x".repeat(10_000)))).toEqual(["keyChunk", "keyChunk", "keyEnd", "decide"]);
});
