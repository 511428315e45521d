// The storage of @nestjs/throttler, as its guard asks it. It keeps a time for
// every call that it admitted within the window, and walks over all those of a
// key at each call. It blocks for the rest of the window, which is its default;
// without blocking it would walk twice.

import { createRequire } from "node:module";
import type { Rival } from "./rival.js";
import { windowMsOf } from "./window.js";

const require = createRequire(import.meta.url);

export const rival: Rival = {
  name: "@nestjs/throttler",
  package: "@nestjs/throttler",
  what: "ThrottlerStorageService; a time for every admitted call; a promise a call",
  answers: "promise",
  readsClock: true,
  limits: { callsAKey: 1000, keys: 100_000 },
  make({ rate, burst }) {
    // Loaded on demand: it brings a framework, which would cost every case of every question half a second.
    require("reflect-metadata");
    const { ThrottlerStorageService } = require("@nestjs/throttler") as typeof import("@nestjs/throttler");
    const windowMs = windowMsOf({ rate, burst });
    const storage = new ThrottlerStorageService();
    return {
      ask: async (key) => !(await storage.increment(key as string, windowMs, burst, windowMs, "default")).isBlocked,
      close: () => storage.onApplicationShutdown(),
    };
  },
};
