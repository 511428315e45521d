// What the workers of test/fetch.test.ts do.

import { limitedFetch } from "sluice/fetch";
import { work } from "./crew.js";

await work({
  /** Calls so many times at once, with no patience: how many were answered, and how many had no turn. */
  calls: (sluice, { url, calls, name = "api" }) => {
    const limited = limitedFetch(sluice.limiter(name), { timeoutMs: 0 });
    return async () => {
      const all = await Promise.allSettled(Array.from({ length: calls }, async () => (await limited(url)).text()));
      const refused = all.filter(({ reason }) => reason?.code === "ERR_SLUICE_TIMEOUT").length;
      return { answered: all.filter(({ status }) => status === "fulfilled").length, refused };
    };
  },
});
