// What the workers of the algorithms' tests do. Each job gets ready first and
// returns the part that begins when the gate opens.

import { bucketOf, work } from "./crew.js";

await work({
  /** Calls allow() so many times: how often it was admitted. */
  allows: (sluice, { name, key, calls }) => {
    const limiter = sluice.limiter(name);
    const allow = key === undefined ? () => limiter.global.allow() : () => limiter.allow(key);
    return () => {
      let admitted = 0;
      for (let i = 0; i < calls; i++) if (allow()) admitted++;
      return admitted;
    };
  },

  /** Reserves so many times, whatever the delay: how often it was granted. */
  reserves: (sluice, { name, key, calls }) => {
    const limiter = bucketOf(sluice.limiter(name), key);
    return () => {
      let granted = 0;
      for (let i = 0; i < calls; i++) if (limiter.reserve().granted) granted++;
      return granted;
    };
  },

  /** Takes and gives back, so many times: what is left taken. */
  givesBack: (sluice, { name, key, calls }) => {
    const limiter = bucketOf(sluice.limiter(name), key);
    return () => {
      let kept = 0;
      for (let i = 0; i < calls; i++) {
        const reservation = limiter.reserve(1, { maxWaitMs: 0 });
        if (reservation.granted && !(i % 100 && reservation.cancel())) kept++;
      }
      return kept;
    };
  },

  /** Asks once for each of many keys that nobody has used. */
  newKeys: (sluice, { name, count }) => () => {
    const limiter = sluice.limiter(name);
    let admitted = 0;
    for (let i = 0; i < count; i++) if (limiter.allow(`new ${i}`)) admitted++;
    return admitted;
  },

  /** Decides groups of parts [name, key, cost] in turn: how often each was admitted. */
  groups: (sluice, { groups, calls, index }) => {
    const parts = groups.map((group) => group.map(([name, key, cost]) => [bucketOf(sluice.limiter(name), key), cost]));
    return () => {
      const admitted = groups.map(() => 0);
      for (let i = 0; i < calls; i++) {
        const which = (i + index) % parts.length;
        if (sluice.all(parts[which]).allowed) admitted[which]++;
      }
      return admitted;
    };
  },

  /** The decision of a limiter of that name, and of its tiers. */
  tiers: (sluice, { name, tiers, key }) => () => ({
    itself: bucketOf(sluice.limiter(name), key).consume(),
    tiers: tiers.map((tier) => bucketOf(sluice.limiter(name).tier(tier), key).consume()),
  }),
});
