// What the workers do that share one limiter, or several.

import type { Decision, Entry, Key, Sluice } from "sluice";
import { bucketOf, type Member, work } from "./crew-member.js";

interface Calls {
  name: string;
  key?: Key;
  calls: number;
}

/** An entry of `sluice.all`, with the limiter's name for the limiter. */
export type NamedEntry = readonly [name: string, key: string | undefined, cost: number];

const jobs = {
  /** Calls allow() `calls` times. Reports how often it was admitted. */
  allows: (sluice: Sluice, { name, key, calls }: Calls) => {
    const bucket = bucketOf(sluice.limiter(name), key);
    return (): number => {
      let admitted = 0;
      for (let i = 0; i < calls; i++) if (bucket.allow()) admitted++;
      return admitted;
    };
  },

  /** Reserves `calls` times, whatever the delay. Reports how often it was granted. */
  reserves: (sluice: Sluice, { name, key, calls }: Calls) => {
    const bucket = bucketOf(sluice.limiter(name), key);
    return (): number => {
      let granted = 0;
      for (let i = 0; i < calls; i++) if (bucket.reserve().granted) granted++;
      return granted;
    };
  },

  /** Takes and gives back, `calls` times. Reports what is left taken. */
  givesBack: (sluice: Sluice, { name, key, calls }: Calls) => {
    const bucket = bucketOf(sluice.limiter(name), key);
    return (): number => {
      let kept = 0;
      for (let i = 0; i < calls; i++) {
        const reservation = bucket.reserve(1, { maxWaitMs: 0 });
        if (reservation.granted && !(i % 100 && reservation.cancel())) kept++;
      }
      return kept;
    };
  },

  /** Asks once for each of `count` new keys. Reports how often it was admitted. */
  newKeys: (sluice: Sluice, { name, count }: { name: string; count: number }) => (): number => {
    const limiter = sluice.limiter(name);
    let admitted = 0;
    for (let i = 0; i < count; i++) if (limiter.allow(`new ${i}`)) admitted++;
    return admitted;
  },

  /** Decides groups of entries in turn. Reports how often each group was admitted. */
  groups: (
    sluice: Sluice,
    { groups, calls, index }: Member & { groups: readonly (readonly NamedEntry[])[]; calls: number },
  ) => {
    const entries = groups.map((group) =>
      group.map(([name, key, cost]): Entry => [bucketOf(sluice.limiter(name), key), cost])
    );
    return (): number[] => {
      const admitted = groups.map(() => 0);
      for (let i = 0; i < calls; i++) {
        const which = (i + index) % entries.length;
        if (sluice.all(entries[which]).allowed) admitted[which]++;
      }
      return admitted;
    };
  },

  /** Reports the decision of the limiter `name`, and of each of its tiers. */
  tiers:
    (sluice: Sluice, { name, tiers, key }: { name: string; tiers: readonly string[]; key: Key }) =>
    (): { itself: Decision; tiers: Decision[] } => ({
      itself: sluice.limiter(name).consume(key),
      tiers: tiers.map((tier) => sluice.limiter(name).tier(tier).consume(key)),
    }),
};

export type LimiterJobs = typeof jobs;
await work(jobs);
