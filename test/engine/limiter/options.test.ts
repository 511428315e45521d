// An unknown option, or options that exclude each other, are an error in every
// call that takes options: a misspelt one would be a limit that is not set.

import { type Limiter, Sluice, type TokenBucketOptions } from "sluice";
import { Limiter as GoLimiter, Sometimes } from "sluice/go";
import { RateLimiter } from "sluice/guava";
import { beforeEach, describe, expect, it } from "vitest";
import { create } from "../../tables.js";

let sluice: Sluice;
let limiter: Limiter;
const bucket = { rate: 10, burst: 5 };
const window = { limit: 5, windowMs: 1000 };

beforeEach(() => {
  ({ sluice } = create());
  limiter = sluice.tokenBucket("user", bucket);
});

describe("an unknown option", () => {
  const calls: [call: string, message: string, use: () => unknown][] = [
    [
      "Sluice.create",
      "\"options\" has no option \"maxThread\"; did you mean \"maxThreads\"?",
      () => Sluice.create({ capacity: 1, maxThread: 2 } as never),
    ],
    [
      "tokenBucket",
      "\"options\" has no option \"brust\"; did you mean \"burst\"?",
      () => sluice.tokenBucket("new", { ...bucket, brust: 1 } as never),
    ],
    [
      "tokenBucket of one of several limits",
      "\"limits[1]\" has no option \"bursts\"; did you mean \"burst\"?",
      () => sluice.tokenBucket("new", { limits: [bucket, { ...bucket, bursts: 1 }] } as never),
    ],
    [
      "tokenBucket of a tier",
      "\"tiers.gold\" has no option \"rates\"; did you mean \"rate\"?",
      () => sluice.tokenBucket("new", { ...bucket, tiers: { gold: { rates: 1 } } } as never),
    ],
    [
      "leakyBucket",
      "\"options\" has no option \"que\"; did you mean \"queue\"?",
      () => sluice.leakyBucket("new", { rate: 1, burst: 1, que: 1 } as never),
    ],
    [
      "fixedWindow",
      "\"options\" has no option \"window\"; did you mean \"windowMs\"?",
      () => sluice.fixedWindow("new", { limit: 1, window: 1 } as never),
    ],
    [
      "slidingWindow",
      "\"options\" has no option \"slot\"; did you mean \"slots\"?",
      () => sluice.slidingWindow("new", { ...window, slot: 2 } as never),
    ],
    [
      "warmUp",
      "\"options\" has no option \"warmUpMs\"; did you mean \"warmupMs\"?",
      () => sluice.warmUp("new", { rate: 1, warmUpMs: 1 } as never),
    ],
    [
      "reserve",
      "\"options\" has no option \"maxWait\"; did you mean \"maxWaitMs\"?",
      () => limiter.reserve("a", 1, { maxWait: 1 } as never),
    ],
    [
      "wait",
      "\"options\" has no option \"timeout\"; did you mean \"timeoutMs\"?",
      () => limiter.wait("a", 1, { timeout: 1 } as never),
    ],
    [
      "waitSync",
      "\"options\" has no option \"signal\"; known are timeoutMs",
      () => limiter.waitSync("a", 1, { signal: AbortSignal.timeout(1) } as never),
    ],
    [
      "reserveAll",
      "\"options\" has no option \"timeoutMs\"; known are maxWaitMs",
      () => sluice.reserveAll([[limiter, "a"]], { timeoutMs: 1 } as never),
    ],
    [
      "waitAll",
      "\"options\" has no option \"maxWaiters\"; known are signal, timeoutMs",
      () => sluice.waitAll([[limiter, "a"]], { maxWaiters: 1 } as never),
    ],
    [
      "a Go limiter's wait",
      "\"options\" has no option \"deadline\"; did you mean \"deadlineMs\"?",
      () => new GoLimiter(1, 1).wait({ deadline: 1 } as never),
    ],
    [
      "Go's Sometimes",
      "\"options\" has no option \"interval\"; did you mean \"intervalMs\"?",
      () => new Sometimes({ interval: 1 } as never),
    ],
    [
      "a Go limiter's home",
      "\"home\" has no option \"names\"; did you mean \"name\"?",
      () => new GoLimiter(1, 1, { sluice, name: "go", names: 1 } as never),
    ],
    [
      "Guava's create",
      "\"options\" has no option \"warmup\"; did you mean \"warmupMs\"?",
      () => RateLimiter.create(1, { warmup: 1 } as never),
    ],
    [
      "Guava's acquire",
      "\"options\" has no option \"timeoutMs\"; known are signal",
      () => RateLimiter.create(1).acquire(1, { timeoutMs: 1 } as never),
    ],
    [
      "Guava's tryAcquire",
      "\"options\" has no option \"signals\"; did you mean \"signal\"?",
      () => RateLimiter.create(1).tryAcquire(1, 0, { signals: 1 } as never),
    ],
  ];

  it.each(calls)("of %s is a TypeError that names the nearest known one", async (_, message, use) => {
    await expect((async () => use())()).rejects.toThrow(new TypeError(message));
    expect(limiter.peek("a").remaining).toBe(5);
    expect(() => sluice.limiter("new")).toThrow("no limiter \"new\"");
  });
});

describe("a token bucket", () => {
  it("has one limit or several, not both", () => {
    for (const own of [bucket, { rate: 1 }, { burst: 1 }]) {
      expect(() => sluice.tokenBucket("both", { ...own, limits: [bucket] } as never)).toThrow(
        /^"limits" expected no (rate|burst) besides/,
      );
      expect(() => sluice.tokenBucket("both", { ...bucket, tiers: { gold: { ...own, limits: [bucket] } } } as never))
        .toThrow(/^"limits" expected no (rate|burst) besides/);
    }
    // @ts-expect-error It does not compile either.
    const both: TokenBucketOptions = { rate: 1, burst: 1, limits: [bucket] };
    // @ts-expect-error Nor does half a limit.
    const half: TokenBucketOptions = { rate: 1 };
    // @ts-expect-error Nor none.
    const none: TokenBucketOptions = { shadow: true };
    expect([both, half, none]).toHaveLength(3);
  });

  it("may have several limits for some keys and one for the others", () => {
    const user = sluice.tokenBucket("plain", {
      ...bucket,
      tiers: { gold: { limits: [bucket, { rate: 1, burst: 100 }] } },
    });
    expect(user.limits).toEqual([bucket]);
    expect(user.tier("gold").limits).toEqual([bucket, { rate: 1, burst: 100 }]);
    const several = sluice.tokenBucket("several", {
      limits: [bucket, bucket],
      tiers: { plain: { rate: 2, burst: 3 } },
    });
    expect(several.limits).toEqual([bucket, bucket]);
    expect(several.tier("plain").limits).toEqual([{ rate: 2, burst: 3 }]);
  });
});

describe("an error about a limiter", () => {
  it("carries its name", () => {
    expect(() => sluice.limiter("other")).toThrow(
      expect.objectContaining({
        code: "ERR_SLUICE_NO_POLICY",
        message: "no limiter \"other\": this table has \"user\"",
        limiter: "other",
      }),
    );
    expect(() => limiter.tier("gold")).toThrow(expect.objectContaining({ limiter: "user/gold" }));
    expect(() => sluice.tokenBucket("user", { rate: 1, burst: 1 })).toThrow(
      expect.objectContaining({ code: "ERR_SLUICE_POLICY_EXISTS", limiter: "user" }),
    );
    expect(() => limiter.waitSync("a", 3)).toThrow(
      expect.objectContaining({ code: "ERR_SLUICE_MAIN_THREAD", limiter: "user", cost: 3 }),
    );
  });
});
