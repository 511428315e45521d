// What the workers of fetch.test.ts do.

import type { Sluice } from "sluice";
import { limitedFetch } from "sluice/fetch";
import { work } from "./threads/crew-member.js";

const jobs = {
  /** Makes `calls` calls at once, with no patience. Reports how many were answered, and how many had no turn. */
  calls: (sluice: Sluice, { url, calls, name = "api" }: { url: string; calls: number; name?: string }) => {
    const limited = limitedFetch(sluice.limiter(name), { timeoutMs: 0 });
    return async (): Promise<{ answered: number; refused: number }> => {
      const all = await Promise.allSettled(Array.from({ length: calls }, async () => (await limited(url)).text()));
      const refused = all.filter((each) => each.status === "rejected" && each.reason?.code === "ERR_SLUICE_TIMEOUT");
      return { answered: all.filter(({ status }) => status === "fulfilled").length, refused: refused.length };
    };
  },
};

export type FetchJobs = typeof jobs;
await work(jobs);
