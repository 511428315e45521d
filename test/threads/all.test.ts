// Groups of buckets that several threads charge at once, all or nothing.

import type { Entry, Key, Limiter, Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import { callsOf, create } from "../tables.js";
import { Crew, sum } from "./crew.js";
import type { LimiterJobs, NamedEntry } from "./limiter.worker.js";

const hire = Crew.of<LimiterJobs>(new URL("./limiter.worker.ts", import.meta.url));

/** The entry of a key, or without one of the global bucket. */
function entryOf(limiter: Limiter, key: Key | undefined, cost: number): Entry {
  return key === undefined ? [limiter.global, cost] : [limiter, key, cost];
}

describe("4 threads on shared parts", { timeout: 60_000 }, () => {
  it.each<[string, (sluice: Sluice, name: string, most: number) => Limiter]>([
    ["token buckets", (sluice, name, most) => sluice.tokenBucket(name, { rate: 1, burst: most })],
    ["fixed windows", (sluice, name, most) => sluice.fixedWindow(name, { limit: most, windowMs: 60_000 })],
    ["sliding windows", (sluice, name, most) => sluice.slidingWindow(name, { limit: most, windowMs: 60_000 })],
    [
      "windows with slots",
      (sluice, name, most) => sluice.slidingWindow(name, { limit: most, windowMs: 60_000, slots: 4 }),
    ],
    [
      "several limits",
      (sluice, name, most) =>
        sluice.tokenBucket(name, { limits: [{ rate: 1, burst: most }, { rate: 2, burst: 2 * most }] }),
    ],
  ])("of %s never pass any of them, and at rest exactly all of the allowance is admitted", async (kind, make) => {
    const { sluice } = create();
    const [userMost, tenantMost, globalMost] = [100_000, 160_000, 260_000];
    const user = make(sluice, "user", userMost);
    const tenant = make(sluice, "tenant", tenantMost);
    const global = make(sluice, "global", globalMost);
    const groups: NamedEntry[][] = [
      [["user", "a", 1], ["tenant", "t", 1], ["global", undefined, 1]],
      [["global", undefined, 1], ["tenant", "t", 1], ["user", "b", 1]],
      [["tenant", "u", 1], ["user", "c", 1], ["global", undefined, 1]],
      [["global", undefined, 2], ["tenant", "u", 1]],
    ];
    // Every bucket has been used once, so that none is fresh.
    const used = new Map<string, number>();
    for (
      const [limiter, key] of [[user, "a"], [user, "b"], [user, "c"], [tenant, "t"], [tenant, "u"], [
        global,
        undefined,
      ]] as const
    ) {
      callsOf(limiter, key).allow();
      used.set(`${limiter.name} ${key}`, 1);
    }
    const crew = await hire(4, "groups", sluice.handle, {
      groups,
      calls: 130_000,
    });
    const reports = await crew.work();
    const admitted = groups.map((_, i) => sum(reports.map((report) => report[i])));
    const tally = (counts: readonly number[]): void =>
      groups.forEach((group, i) =>
        group.forEach(([name, key, cost]) => used.set(`${name} ${key}`, used.get(`${name} ${key}`)! + cost * counts[i]))
      );
    tally(admitted);
    expect(sluice.stats().contended).toBeGreaterThan(0);

    const most = { user: userMost, tenant: tenantMost, global: globalMost };
    const left = (name: string, key: string | undefined): number =>
      callsOf(sluice.limiter(name), key).peek(0).remaining;
    for (const [bucket, count] of used) {
      const [name, key] = bucket.split(" ");
      const allowance = most[name as keyof typeof most];
      expect(count, bucket).toBeLessThanOrEqual(allowance);
      // At rest, refused calls have left nothing behind.
      expect(left(name, key === "undefined" ? undefined : key), bucket).toBe(allowance - count);
    }
    // Now alone: the rest of the allowance.
    const limiters = { user, tenant, global };
    const late = groups.map((group) => {
      let count = 0;
      while (
        sluice.all(group.map(([name, key, cost]) => entryOf(limiters[name as keyof typeof limiters], key, cost)))
          .allowed
      ) count++;
      return count;
    });
    tally(late);
    expect(
      left("global", undefined) < 1
        || groups.every((group) => group.some(([name, key, cost]) => left(name, key) < cost)),
    ).toBe(true);
    console.log(`${kind}: ${sum(admitted)} groups admitted by 4 threads at once, ${sum(late)} more at rest`);
    expect(sluice.audit().clean).toBe(true);
  });

  it("admit at rest what a charge that was taken back kept out for its moment", async () => {
    const most = 40_000;
    let contended = 0;
    // On busy cores four threads may take turns: repeat until they have met.
    for (let round = 1; contended === 0; round++) {
      expect(round, "rounds without contention").toBeLessThan(30);
      const { sluice } = create();
      const shared = sluice.tokenBucket("shared", { rate: 1, burst: most + 1 });
      sluice.tokenBucket("closed", { rate: 0, burst: 0 });
      shared.allow("key");
      // Each admissible call once, as many as there are tokens; and as often one that charges the bucket and
      // is then denied.
      const groups: NamedEntry[][] = [[["shared", "key", 1]], [["shared", "key", 1], ["closed", "key", 1]]];
      const crew = await hire(4, "groups", sluice.handle, {
        groups,
        calls: most / 2,
      });
      const reports = await crew.work();
      const admitted = sum(reports.map((report) => report[0]));
      expect(sum(reports.map((report) => report[1]))).toBe(0);
      expect(admitted).toBeLessThanOrEqual(most);
      expect(shared.peek("key", 0).remaining).toBe(most - admitted);
      contended = sluice.stats().contended;
      console.log(
        `${most - admitted} of ${most} admissible groups were refused for the moment of a charge that was taken back`,
      );
    }
  });
});
