// Every kind of limiter, under threads that use one bucket at once.

import { describe, expect, it } from "vitest";
import { tableKinds } from "../contract.js";
import { toNs } from "../models/window-models.js";
import { create } from "../tables.js";
import { Crew, sum } from "./crew.js";
import type { LimiterJobs } from "./limiter.worker.js";

const hire = Crew.of<LimiterJobs>(new URL("./limiter.worker.ts", import.meta.url));

describe.each(tableKinds)("$kind", ({ make, atOnce }) => {
  it.each(["key", undefined])("is exact for 4 threads and many calls at a frozen clock (key %s)", async (key) => {
    const { sluice } = create();
    const most = 60_000;
    const limiter = make(sluice, most);
    const bucket = key === undefined ? limiter.global : limiter.key(key);
    const inCrew = async (job: "allows" | "reserves" | "givesBack", calls: number): Promise<number> =>
      sum(await (await hire(4, job, sluice.handle, { name: "it", key, calls })).work());

    /** Until threads have met: on a busy machine they may pass each other by for a while. */
    const isQuiet = (round: number): boolean =>
      round === 1 || (sluice.stats().limiters.it.contended === 0 && round <= 10);

    if (atOnce(most) === 1) {
      // Where one call is let through at a moment, threads contend for reservations.
      let granted = 0;
      for (let round = 1; isQuiet(round); round++) {
        granted += await inCrew("reserves", 25_000);
        expect(granted).toBe(round * 100_000);
      }
      expect(toNs(bucket.peek().retryAfterMs)).toBe(Math.ceil(granted * (1e9 / most)));
    } else {
      let kept = 0;
      let calls = 0;
      for (let round = 1; isQuiet(round); round++) {
        kept += await inCrew("givesBack", 50_000);
        calls += 200_000;
      }
      expect(kept).toBeGreaterThan(0);
      expect(bucket.peek(0).remaining).toBe(most - kept);
      expect(await inCrew("allows", 20_000)).toBe(most - kept);
      expect(bucket.peek(0).remaining).toBe(0);
      const { allowed, denied } = sluice.stats().limiters.it;
      expect(allowed + denied).toBe(calls + 80_000);
    }
    expect(sluice.stats().limiters.it.contended).toBeGreaterThan(0);
    expect(sluice.audit()).toMatchObject({ clean: true, used: key === undefined ? 0 : 1 });
  });
});
