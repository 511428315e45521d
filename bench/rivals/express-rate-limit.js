// express-rate-limit's memory store, and the comparison that its middleware
// makes with the answer.

import { MemoryStore } from "express-rate-limit";
import { windowMsOf } from "../window.js";

export const rival = {
  name: "express-rate-limit",
  package: "express-rate-limit",
  what: "MemoryStore; fixed window; a promise a call",
  answers: "promise",
  readsClock: true,
  make({ rate, burst }) {
    const store = new MemoryStore();
    const isWithin = ({ totalHits }) => totalHits <= burst;
    store.init({ windowMs: windowMsOf({ rate, burst }) });
    return {
      ask: (key) => store.increment(key).then(isWithin),
      close: () => store.shutdown(),
    };
  },
};
