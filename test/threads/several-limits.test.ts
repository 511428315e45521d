// A key with several limits that several threads use at once.

import { describe, expect, it } from "vitest";
import { callsOf, create } from "../tables.js";
import { Crew, sum } from "./crew.js";
import type { LimiterJobs } from "./limiter.worker.js";

const hire = Crew.of<LimiterJobs>(new URL("./limiter.worker.ts", import.meta.url));

describe("4 threads on one key with several limits", { timeout: 60_000 }, () => {
  const CALLS = 400_000;

  it.each(["key", undefined])("are admitted exactly as the tightest limit allows (key %s)", async (key) => {
    const { sluice } = create();
    const bursts = [1_200_000, 1_000_000, 1_500_000];
    const limiter = sluice.tokenBucket("several", { limits: bursts.map((burst) => ({ rate: 1, burst })) });
    const crew = await hire(4, "allows", sluice.handle, {
      name: "several",
      key,
      calls: CALLS,
    });
    const admitted = await crew.work();
    expect(sum(admitted)).toBe(1_000_000);
    const stats = sluice.stats().limiters.several;
    expect(stats).toMatchObject({ allowed: 1_000_000, denied: 4 * CALLS - 1_000_000 });
    expect(stats.contended).toBeGreaterThan(0);
    // The others were charged each call that was admitted, once, and no other.
    limiter.setRate(Infinity, 1);
    expect(callsOf(limiter, key).peek(0)).toMatchObject({ limitIndex: 0, remaining: 200_000 });
    limiter.setRate(Infinity, 0);
    expect(callsOf(limiter, key).peek(0)).toMatchObject({ limitIndex: 2, remaining: 500_000 });
    expect(sluice.audit()).toMatchObject({ clean: true, used: key === undefined ? 0 : 1 });
  });

  it("neither lose nor gain by cancels", async () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("several", {
      limits: [{ rate: 0, burst: 100_000 }, { rate: 0, burst: 120_000 }],
    });
    const crew = await hire(4, "givesBack", sluice.handle, {
      name: "several",
      key: "key",
      calls: 200_000,
    });
    const kept = sum(await crew.work());
    expect(sluice.stats().contended).toBeGreaterThan(0);
    expect(limiter.peek("key", 0).remaining).toBe(100_000 - kept);
  });
});
