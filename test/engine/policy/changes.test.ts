// Changes of limits while others decide: time moves and calls are made inside the
// change itself, wherever a thread may be stopped.

import fc from "fast-check";
import { type Decision, ManualClock, Sluice } from "sluice";
import { afterEach, describe, expect, it } from "vitest";
import { Bucket } from "../../../src/engine/bucket/bucket.js";
import { define, Sluice as OwnSluice } from "../../../src/engine/limiter/sluice.js";
import { ManualClock as OwnClock } from "../../../src/engine/manual-clock.js";
import type { Policy } from "../../../src/engine/policy/policy.js";
import { ModelFixedWindow, START_NS, type WindowStep, windowSteps } from "../../models/window-models.js";
import { announceSeed } from "../../seed.js";
import { create } from "../../tables.js";

const open: OwnSluice[] = [];
afterEach(() => {
  for (const sluice of open.splice(0)) sluice.close();
});

function tableOf(rate: number, burst: number): { clock: OwnClock; policy: Policy; bucket: (key?: string) => Bucket } {
  const clock = new OwnClock(1000);
  const sluice = OwnSluice.create({ capacity: 100, clock, maxThreads: 1 });
  open.push(sluice);
  const policy = define(sluice, "p", "tokenBucket", { rate, burst, extra: 0 });
  return { clock, policy, bucket: (key) => new Bucket(policy, key) };
}

/** Does `act` before, or after, the next publication, as if its thread were stopped there. */
function whenPublished(policy: Policy, isBefore: boolean, act: () => void): void {
  const kernel = policy.table.kernel;
  const publish = kernel.publish;
  kernel.publish = (record, version) => {
    kernel.publish = publish;
    if (isBefore) act();
    const answer = publish(record, version);
    if (!isBefore) act();
    return answer;
  };
}

/** Takes all that a bucket has: how much that was. */
function takeAll(bucket: Bucket): number {
  const tokens = Math.floor(bucket.tokens());
  if (tokens <= 0) return 0;
  expect(bucket.decide(bucket.table.at.CONSUME, tokens, bucket.table.clock.now())).toBe(true);
  return tokens;
}

describe.each([
  ["within a scale", 1e6, 5e5],
  ["across scales", 1e6, 1],
])("a rate that is lowered %s, while a key takes all it gets", (_, from, to) => {
  it.each([undefined, "k"])("leaves no debt, though the setter is stopped before it publishes (key %s)", (key) => {
    const { clock, policy, bucket } = tableOf(from, 1000);
    takeAll(bucket(key));
    whenPublished(policy, true, () => {
      for (let ms = 0; ms < 50; ms++) {
        clock.advance(1);
        expect(takeAll(bucket(key))).toBe(1000);
      }
    });
    policy.set({ rate: to });
    expect(bucket(key).tokens()).toBeGreaterThan(-1e-6);
    expect(bucket(key).tokens()).toBeLessThanOrEqual(1e-6);
  });

  it("admits no more than the old rate did, though the setter is stopped after it published", () => {
    const { clock, policy, bucket } = tableOf(from, 1000);
    let admitted = takeAll(bucket("k"));
    whenPublished(policy, false, () => {
      for (let ms = 0; ms < 50; ms++) {
        clock.advance(1);
        admitted += takeAll(bucket("k"));
      }
    });
    policy.set({ rate: to });
    admitted += takeAll(bucket("k"));
    expect(admitted).toBeLessThanOrEqual(1000 + from * 0.05);
    expect(bucket("k").tokens()).toBeGreaterThan(-1e-6);
  });
});

it("a rate that is raised begins when it is set, and earns nothing for the time before", () => {
  const { clock, policy, bucket } = tableOf(1, 1000);
  takeAll(bucket("k"));
  whenPublished(policy, true, () => clock.advance(1000));
  policy.set({ rate: 100 });
  // Between the reading of the clock and the publication either rate may have been in force.
  expect(bucket("k").tokens()).toBeGreaterThanOrEqual(1 - 1e-6);
  expect(bucket("k").tokens()).toBeLessThanOrEqual(100);
});

it.each(
  [
    ["fixedWindow", { rate: 10, burst: 10, extra: 1e9 }, { burst: 1 }],
    ["slidingWindow", { rate: 10, burst: 10, extra: 1e9 }, { burst: 1 }],
    ["warmUp", { rate: 10, burst: 3, extra: 1e9 }, { rate: 1 }],
  ] as const,
)("a %s is lowered as well by a setter that is stopped before it publishes", (kind, limits, wanted) => {
  const clock = new OwnClock(1000);
  const sluice = OwnSluice.create({ capacity: 100, clock, maxThreads: 1 });
  open.push(sluice);
  const policy = define(sluice, "p", kind, limits);
  whenPublished(policy, true, () => {
    clock.advance(50);
    new Bucket(policy, "k").decide(policy.table.at.CONSUME, 1, clock.nowMs);
  });
  policy.set(wanted);
  expect(policy.rate).toBe(1);
});

describe("a change that begins later", () => {
  it("lets the old rate flow on until then, and the new one from then on", () => {
    const { clock, policy, bucket } = tableOf(1000, 100);
    takeAll(bucket("k"));
    policy.setAt({ rate: 10 }, clock.nowMs, 5);
    for (const [ms, tokens] of [[1, 1], [3, 4], [1, 5], [100, 6], [1000, 16]]) {
      clock.advance(ms);
      expect(bucket("k").tokens(), `${ms} ms later`).toBeCloseTo(tokens, 6);
    }
  });

  it("across scales does the same", () => {
    const { clock, policy, bucket } = tableOf(1e6, 10_000);
    takeAll(bucket("k"));
    const { scale } = policy;
    policy.setAt({ rate: 1 }, clock.nowMs, 5);
    expect(policy.scale).toBe(scale + 1);
    for (const [ms, tokens] of [[1, 1000], [3, 4000], [1, 5000], [1000, 5001]]) {
      clock.advance(ms);
      expect(bucket("k").tokens(), `${ms} ms later`).toBeCloseTo(tokens, 2);
    }
  });

  it.each([3, 5, 6])("tells how long a cost of %i waits, before it or beyond it, so that it then conforms", (cost) => {
    const { clock, policy, bucket } = tableOf(1000, 100);
    takeAll(bucket("k"));
    policy.setAt({ rate: 10 }, clock.nowMs, 5);
    const ask = (): Decision => bucket("k").ask(false, cost, clock.nowMs);
    const { retryAfterMs } = ask();
    // A unit of this scale is 48 ns at 10/s.
    expect(Math.abs(retryAfterMs - (cost > 5 ? 105 : cost))).toBeLessThanOrEqual(48e-6);
    clock.set(1000 + retryAfterMs - 1e-4);
    expect(ask().allowed).toBe(false);
    clock.set(1000 + retryAfterMs);
    expect(ask().allowed).toBe(true);
  });

  it("is replaced by another one before that", () => {
    const { clock, policy, bucket } = tableOf(1000, 100);
    takeAll(bucket("k"));
    policy.setAt({ rate: 10 }, clock.nowMs, 5);
    clock.advance(2);
    policy.setAt({ rate: 100 }, clock.nowMs, 5);
    clock.advance(3);
    expect(bucket("k").tokens()).toBeCloseTo(5, 6);
    clock.advance(10);
    expect(bucket("k").tokens()).toBeCloseTo(6, 6);
  });
});

describe("a walk after a change of scale", () => {
  /** Policy whose scale changes with every `flip`. */
  function flipping(): { policy: Policy; bucket: (key?: string) => Bucket; flip: () => void } {
    const { policy, bucket } = tableOf(1, 1000);
    let isFast = false;
    return { policy, bucket, flip: () => policy.set({ rate: (isFast = !isFast) ? 1e6 : 1 }) };
  }

  it("leaves no word of the older side, zero words too", () => {
    const { policy, bucket, flip } = flipping();
    const { at, longs, kernel } = policy.table;
    bucket("k").decide(at.CONSUME, 10, 1000);
    bucket("reset").decide(at.CONSUME, 10, 1000);
    bucket("reset").setTokens(Infinity);
    const global = (policy.record + at.POLICY_GLOBAL) / 8;
    expect(longs[global]).toBe(0n);
    for (let scale = 1; scale < 6; scale++) {
      flip();
      expect(policy.scale).toBe(scale);
      expect(Number(longs[global] & 3n)).toBe(scale & 1);
      expect(longs[global]).not.toBe(0n);
      for (const [key, tokens] of [["k", 990], ["reset", 1000], [undefined, 1000]] as const) {
        expect(bucket(key).tokens()).toBeCloseTo(tokens, 1);
      }
    }
    kernel.audit(1000);
  });

  it("that its thread did not live to make is made before the next change", () => {
    const { policy, bucket, flip } = flipping();
    bucket("k").decide(policy.table.at.CONSUME, 10, 1000);
    const { kernel } = policy.table;
    const { walk } = kernel;
    for (let i = 0; i < 4; i++) {
      kernel.walk = () => {
        throw new Error("died");
      };
      expect(flip).toThrow("died");
      kernel.walk = walk;
      expect(bucket("k").tokens()).toBeCloseTo(990, 1);
      flip();
      expect(bucket("k").tokens()).toBeCloseTo(990, 1);
    }
  });

  it("that meets a lock of a thread that is not buried yet fails the next change of scale, not this one", {
    timeout: 60_000,
  }, () => {
    const { policy, bucket, flip } = flipping();
    const { at, words } = policy.table;
    bucket("k").decide(at.CONSUME, 10, 1000);
    words[at.LOCKS / 4] = 77;
    flip();
    expect(bucket("k").tokens()).toBeCloseTo(990, 1);
    expect(flip).toThrow(expect.objectContaining({ code: "ERR_SLUICE_LOCKED" }));
    expect(bucket("k").tokens()).toBeCloseTo(990, 1);
    words[at.LOCKS / 4] = 0;
    flip();
    expect(bucket("k").tokens()).toBeCloseTo(990, 1);
  });
});

it("a cancel gives nothing back if the new scale cannot tell what was reserved behind it", () => {
  const { sluice, clock } = create(0);
  const burst = 67_108_862;
  const limiter = sluice.tokenBucket("p", { rate: 477, burst });
  const first = limiter.reserve("k", burst);
  clock.advance(150_000_000);
  expect(limiter.allow("k", burst - 2)).toBe(true);
  limiter.setBurst(0);
  clock.set(0);
  limiter.setRate(1);
  limiter.setBurst(2 ** 31 - 1);
  const { remaining } = limiter.peek("k");
  expect(first.cancel()).toBe(false);
  expect(limiter.peek("k").remaining).toBe(remaining);
});

describe("a window whose limit is lowered and raised again", () => {
  it("mints nothing", () => {
    const { sluice } = create();
    const limiter = sluice.fixedWindow("w", { limit: 100, windowMs: 60_000 });
    expect(limiter.allow("k", 100)).toBe(true);
    for (const limit of [1, 100, 50, 100, 0, 100]) {
      limiter.setLimit(limit);
      expect(limiter.allow("k"), `limit ${limit}`).toBe(false);
    }
    limiter.setLimit(101);
    expect(limiter.allow("k")).toBe(true);
    expect(limiter.allow("k")).toBe(false);
  });

  it("answers as its model does, at any time", () => {
    const seed = announceSeed("fixed window, any limits");
    fc.assert(
      fc.property(
        windowSteps({ limit: 10, windowNs: 1e9 }, ["allow", "consume", "peek", "pass", "align", "limit"]),
        (steps) => {
          expect(differenceOf(steps)).toBeUndefined();
        },
      ),
      { seed, numRuns: 300 },
    );
  });

  /** The first allowed call that is not in the model, or the other way round. */
  function differenceOf(steps: readonly WindowStep[]): string | undefined {
    const clock = new ManualClock(START_NS / 1e6);
    const sluice = Sluice.create({ capacity: 10, clock, maxThreads: 1 });
    try {
      const limiter = sluice.fixedWindow("w", { limit: 10, windowMs: 1000 });
      const model = new ModelFixedWindow(10n, 1_000_000_000n, BigInt(START_NS));
      let nowNs = BigInt(START_NS);
      for (const [i, step] of steps.entries()) {
        if (step.do === "pass") nowNs += BigInt(step.ns);
        if (step.do === "align") nowNs += 1_000_000_000n - (nowNs - BigInt(START_NS)) % 1_000_000_000n;
        clock.set(Number(nowNs) / 1e6);
        if (step.do === "limit") {
          limiter.setLimit(step.limit);
          model.setLimit(BigInt(step.limit));
        }
        if (step.do !== "allow" && step.do !== "consume" && step.do !== "peek") continue;
        const expected = step.do === "peek"
          ? model.firstNs(nowNs, BigInt(step.cost)) === nowNs
          : model.reserve(nowNs, BigInt(step.cost), 0n) !== undefined;
        const decision = step.do === "allow"
          ? { allowed: limiter.allow("k", step.cost) }
          : limiter[step.do]("k", step.cost);
        if (decision.allowed !== expected) return `step ${i}: ${step.do} ${step.cost} is ${decision.allowed}`;
      }
      return undefined;
    } finally {
      sluice.close();
    }
  }
});
