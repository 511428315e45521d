// The store of @fastify/rate-limit, and the comparison that the plug-in makes
// with its answer. It keeps the keys used last, up to a number that it is given.

import LocalStore from "@fastify/rate-limit/store/LocalStore.js";
import type { Rival } from "./rival.js";
import { windowMsOf } from "./window.js";

export const rival: Rival = {
  name: "@fastify/rate-limit",
  package: "@fastify/rate-limit",
  what: "LocalStore; fixed window; forgets the keys used least recently",
  answers: "sync",
  readsClock: true,
  make({ rate, burst, capacity }) {
    const windowMs = windowMsOf({ rate, burst });
    const store = new LocalStore(false, false, capacity);
    let current = 0;
    const keep = (_: Error | null, answer: { current: number }): void => {
      current = answer.current;
    };
    return {
      ask(key) {
        store.incr(key, keep, windowMs, burst);
        return current <= burst;
      },
      close: () => store.lru.clear(),
    };
  },
};
