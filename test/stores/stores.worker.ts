// What the workers of threads.test.ts do without a server: count hits in one
// store, as fast as they go, `calls` times and on until the crew stops.

import type { Sluice } from "sluice";
import { SluiceStore } from "sluice/stores/express-rate-limit";
import { sluiceStore } from "sluice/stores/fastify";
import { SluiceStorage } from "sluice/stores/nest";
import { isStopped, work } from "../threads/crew-member.js";

interface Hits {
  calls: number;
  windowMs: number;
}
interface LimitedHits extends Hits {
  limit: number;
}

const goesOn = (i: number, calls: number): boolean => i < calls || !isStopped();

const jobs = {
  /** Hits one client. Reports the numbers that its hits were given. */
  numbers: (sluice: Sluice, { calls, windowMs }: Hits) => {
    const store = new SluiceStore({ sluice, prefix: "numbers" });
    store.init({ windowMs });
    return (): number[] => {
      const numbers: number[] = [];
      for (let i = 0; goesOn(i, calls); i++) numbers.push(store.increment("alice").totalHits);
      return numbers;
    };
  },

  /** Hits a client whose windows end all the time. Reports the numbers of the hits that were let through. */
  windows: (sluice: Sluice, { calls, windowMs, limit }: LimitedHits) => {
    const store = new SluiceStore({ sluice, prefix: "windows" });
    store.init({ windowMs });
    return (): number[] => {
      const seen: number[] = [];
      for (let i = 0; goesOn(i, calls); i++) {
        const { totalHits } = store.increment("alice");
        if (totalHits <= limit) seen.push(totalHits);
      }
      return seen;
    };
  },

  /** Hits and takes back. Reports what is left. */
  givesBack: (sluice: Sluice, { calls, windowMs }: Hits) => {
    const store = new SluiceStore({ sluice, prefix: "gives back" });
    store.init({ windowMs });
    return (): number => {
      let kept = 0;
      for (let i = 0; goesOn(i, calls); i++) {
        store.increment("alice");
        if (i % 100) store.decrement("alice");
        else kept++;
      }
      return kept;
    };
  },

  /**
   * Hits a client that is over its maximum, whose window each hit begins anew. Reports how often it was
   * let through.
   */
  continues: (sluice: Sluice, { calls, windowMs, limit }: LimitedHits) => {
    const store = new (sluiceStore({ sluice, prefix: "continues" }))({ continueExceeding: true });
    return (): number => {
      let admitted = 0;
      for (let i = 0; goesOn(i, calls); i++) {
        store.incr("alice", (_, hits) => (admitted += Number(hits!.current <= limit)), windowMs, limit);
      }
      return admitted;
    };
  },

  /** Hits a client that is blocked from its first hit beyond the limit on. Reports how often it was let through. */
  blocks: (sluice: Sluice, { calls, windowMs, limit }: LimitedHits) => {
    const storage = new SluiceStorage({ sluice, prefix: "blocks" });
    return async (): Promise<number> => {
      let admitted = 0;
      for (let i = 0; goesOn(i, calls); i++) {
        if (!(await storage.increment("alice", windowMs, limit, 10 * windowMs, "default")).isBlocked) admitted++;
      }
      return admitted;
    };
  },
};

export type StoreJobs = typeof jobs;
await work(jobs);
