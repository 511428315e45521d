// A full table of one-word keys: decided in another thread, since a fault here would never answer.

import type { Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import { create } from "../tables.js";
import { Crew } from "./crew.js";
import type { LimiterJobs } from "./limiter.worker.js";

const hire = Crew.of<LimiterJobs>(new URL("./limiter.worker.ts", import.meta.url));

describe("a full table", () => {
  const newcomers = async (setUp: (sluice: Sluice) => void): Promise<number | "hung"> => {
    const { sluice } = create(1000, { capacity: 1 });
    setUp(sluice);
    sluice.tokenBucket("newcomer", { rate: 0, burst: 1 });
    const crew = await hire(1, "newKeys", sluice.handle, {
      name: "newcomer",
      count: 50,
    });
    crew.begin();
    const answer = await Promise.race([
      crew.reports().then(([admitted]) => admitted, () => "hung" as const),
      new Promise<"hung">((resolve) => setTimeout(resolve, 2000, "hung")),
    ]);
    await Promise.all(crew.workers.map((worker) => worker.terminate()));
    return answer;
  };

  it("of keys of a sliding window still decides for new keys", async () => {
    expect(
      await newcomers((sluice) => {
        const limiter = sluice.slidingWindow("window", { limit: 10, windowMs: 1000 });
        for (let i = 0; i < 5000; i++) limiter.allow(i);
      }),
    ).toBe(50);
  });

  it("still does after their limit was set to 0", async () => {
    expect(
      await newcomers((sluice) => {
        const limiter = sluice.slidingWindow("window", { limit: 10, windowMs: 1000 });
        for (let i = 0; i < 5000; i++) limiter.allow(i);
        limiter.setLimit(0);
      }),
    ).toBe(50);
  });
});
