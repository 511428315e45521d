// express-rate-limit's memory store, and the comparison that its middleware makes
// with the answer.

import { type ClientRateLimitInfo, MemoryStore, type Options } from "express-rate-limit";
import type { Rival } from "./rival.js";
import { windowMsOf } from "./window.js";

export const rival: Rival = {
  name: "express-rate-limit",
  package: "express-rate-limit",
  what: "MemoryStore; fixed window; a promise a call",
  answers: "promise",
  readsClock: true,
  make({ rate, burst }) {
    const store = new MemoryStore();
    const isWithin = ({ totalHits }: ClientRateLimitInfo): boolean => totalHits <= burst;
    store.init({ windowMs: windowMsOf({ rate, burst }) } as Options);
    return {
      ask: (key) => store.increment(key as string).then(isWithin),
      close: () => store.shutdown(),
    };
  },
};
