// The store of @fastify/rate-limit, and the comparison that the plug-in makes
// with its answer. It is a list of the keys used last, as long as it is told.

import LocalStore from "@fastify/rate-limit/store/LocalStore.js";
import { windowMsOf } from "../window.js";

export const rival = {
  name: "@fastify/rate-limit",
  package: "@fastify/rate-limit",
  what: "LocalStore; fixed window; forgets the keys used least recently",
  answers: "sync",
  readsClock: true,
  make({ rate, burst, capacity }) {
    const windowMs = windowMsOf({ rate, burst });
    const store = new LocalStore(false, false, capacity);
    let current;
    const keep = (error, answer) => (current = answer.current);
    const ask = (key) => {
      store.incr(key, keep, windowMs, burst);
      return current <= burst;
    };
    return { ask, close: () => store.lru.clear() };
  },
};
