// The memory store of @joint-ops/hitlimit, and the comparison that its middleware
// makes with the answer.

import { memoryStore } from "@joint-ops/hitlimit/stores/memory";
import type { Rival } from "./rival.js";
import { windowMsOf } from "./window.js";

export const rival: Rival = {
  name: "@joint-ops/hitlimit",
  package: "@joint-ops/hitlimit",
  what: "memoryStore; fixed window",
  answers: "sync",
  readsClock: true,
  make({ rate, burst }) {
    const windowMs = windowMsOf({ rate, burst });
    const store = memoryStore();
    return {
      ask: (key) => store.hit(key, windowMs, burst).count <= burst,
      close: () => store.shutdown(),
    };
  },
};
