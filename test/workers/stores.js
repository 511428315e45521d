// What the workers of test/stores-threads.test.ts do without a server: count
// hits in one store, as fast as they go, so many times and until they are stopped.

import { SluiceStore } from "sluice/stores/express-rate-limit";
import { sluiceStore } from "sluice/stores/fastify";
import { SluiceStorage } from "sluice/stores/nest";
import { isStopped, work } from "./crew.js";

const goesOn = (i, calls) => i < calls || !isStopped();

await work({
  /** Hits one client: the numbers that its hits were given. */
  numbers: (sluice, { calls, windowMs }) => {
    const store = new SluiceStore({ sluice, prefix: "numbers" });
    store.init({ windowMs });
    return () => {
      const numbers = [];
      for (let i = 0; goesOn(i, calls); i++) numbers.push(store.increment("alice").totalHits);
      return numbers;
    };
  },

  /** Hits a client whose windows end all the time: the numbers of the hits that were let through. */
  windows: (sluice, { calls, windowMs, limit }) => {
    const store = new SluiceStore({ sluice, prefix: "windows" });
    store.init({ windowMs });
    return () => {
      const seen = [];
      for (let i = 0; goesOn(i, calls); i++) {
        const { totalHits } = store.increment("alice");
        if (totalHits <= limit) seen.push(totalHits);
      }
      return seen;
    };
  },

  /** Hits and takes back: what is left. */
  givesBack: (sluice, { calls, windowMs }) => {
    const store = new SluiceStore({ sluice, prefix: "gives back" });
    store.init({ windowMs });
    return () => {
      let kept = 0;
      for (let i = 0; goesOn(i, calls); i++) {
        store.increment("alice");
        if (i % 100) store.decrement("alice");
        else kept++;
      }
      return kept;
    };
  },

  /** Hits a client that is over its maximum, whose window each hit begins anew: how often it was let through. */
  continues: (sluice, { calls, windowMs, limit }) => {
    const store = new (sluiceStore({ sluice, prefix: "continues" }))({ continueExceeding: true });
    return () => {
      let admitted = 0;
      for (let i = 0; goesOn(i, calls); i++) {
        store.incr("alice", (_, { current }) => (admitted += Number(current <= limit)), windowMs, limit);
      }
      return admitted;
    };
  },

  /** Hits a client that is blocked from its first hit beyond the limit on: how often it was let through. */
  blocks: (sluice, { calls, windowMs, limit }) => {
    const storage = new SluiceStorage({ sluice, prefix: "blocks" });
    return async () => {
      let admitted = 0;
      for (let i = 0; goesOn(i, calls); i++) {
        if (!(await storage.increment("alice", windowMs, limit, 10 * windowMs, "default")).isBlocked) admitted++;
      }
      return admitted;
    };
  },
});
