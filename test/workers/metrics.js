// What the workers of test/metrics.test.ts do: count, until they are stopped.

import { isStopped, publishCount, work } from "./crew.js";

await work({
  /** Asks for one key and for new ones in rounds, until it is stopped: how often it was admitted and refused on the one. */
  untilStopped: (sluice, { index }) => () => {
    const hot = sluice.limiter("hot");
    const cold = sluice.limiter("cold");
    const shadow = sluice.limiter("shadow");
    const counts = { allowed: 0, denied: 0, cold: 0, shadowed: 0 };
    while (!isStopped()) {
      for (let i = 0; i < 1000; i++) {
        if (hot.allow("key")) counts.allowed++;
        else counts.denied++;
      }
      for (let i = 0; i < 100; i++) if (cold.allow(`${index} ${counts.cold}`)) counts.cold++;
      shadow.global.allow();
      counts.shadowed++;
      publishCount(counts.allowed + counts.denied);
    }
    return counts;
  },
});
