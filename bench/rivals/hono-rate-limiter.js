// hono-rate-limiter's memory store, and the comparison that its middleware
// makes with the answer. The middleware awaits it, which it need not.

import { MemoryStore } from "hono-rate-limiter";
import { windowMsOf } from "../window.js";

export const rival = {
  name: "hono-rate-limiter",
  package: "hono-rate-limiter",
  what: "MemoryStore; fixed window",
  answers: "sync",
  readsClock: true,
  make({ rate, burst }) {
    const store = new MemoryStore();
    store.init({ windowMs: windowMsOf({ rate, burst }) });
    return {
      ask: (key) => store.increment(key).totalHits <= burst,
      close: () => store.shutdown(),
    };
  },
};
