// What the workers of changes.test.ts do: take all that they can get of one key.

import type { Key, Sluice } from "sluice";
import { bucketOf, isStopped, type Member, publishCount, work } from "./crew-member.js";

const jobs = {
  /** Takes tokens, one at a time, until it is stopped: how many. */
  takes(sluice: Sluice, { name, key }: Member & { name: string; key: Key | undefined }) {
    const bucket = bucketOf(sluice.limiter(name), key);
    return () => {
      let taken = 0;
      for (let calls = 0; !isStopped(); calls++) {
        if (bucket.allow()) taken++;
        if (calls % 64 === 0) publishCount(taken);
      }
      return taken;
    };
  },
};

export type ChangesJobs = typeof jobs;

await work(jobs);
