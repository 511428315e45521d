// hono-rate-limiter's memory store, and the comparison that its middleware makes
// with the answer. The middleware awaits it, although it need not.

import { MemoryStore } from "hono-rate-limiter";
import type { Rival } from "./rival.js";
import { windowMsOf } from "./window.js";

export const rival: Rival = {
  name: "hono-rate-limiter",
  package: "hono-rate-limiter",
  what: "MemoryStore; fixed window",
  answers: "sync",
  readsClock: true,
  make({ rate, burst }) {
    const store = new MemoryStore();
    store.init({ windowMs: windowMsOf({ rate, burst }) } as Parameters<typeof store.init>[0]);
    return {
      ask: (key) => store.increment(key as string).totalHits <= burst,
      close: () => store.shutdown(),
    };
  },
};
