// What the workers of metrics.test.ts do: count, until the crew stops.

import type { Sluice } from "sluice";
import { isStopped, type Member, publishCount, work } from "./threads/crew-member.js";

const jobs = {
  /** Asks for one key and for new ones in rounds. Reports how often it was admitted and refused, by limiter. */
  untilStopped: (sluice: Sluice, { index }: Member) => () => {
    const hot = sluice.limiter("hot");
    const cold = sluice.limiter("cold");
    const shadow = sluice.limiter("shadow").global;
    const counts = { allowed: 0, denied: 0, cold: 0, shadowed: 0 };
    while (!isStopped()) {
      for (let i = 0; i < 1000; i++) {
        if (hot.allow("key")) counts.allowed++;
        else counts.denied++;
      }
      for (let i = 0; i < 100; i++) if (cold.allow(`${index} ${counts.cold}`)) counts.cold++;
      shadow.allow();
      counts.shadowed++;
      publishCount(counts.allowed + counts.denied);
    }
    return counts;
  },
};

export type MetricsJobs = typeof jobs;
await work(jobs);
