// fast-ratelimit. It reads no clock: a timer for each key ends its window.

import { FastRateLimit } from "fast-ratelimit";
import { windowMsOf } from "../window.js";

/** As the package's own, but its timers let the process end. */
class Unreferenced extends FastRateLimit {
  __scheduleExpireToken(namespace) {
    setTimeout(() => this.__tokens.delete(namespace), this.__options.ttl_millisec).unref();
  }
}

export const rival = {
  name: "fast-ratelimit",
  package: "fast-ratelimit",
  what: "fixed window; a timer a key, no clock",
  answers: "sync",
  readsClock: false,
  make({ rate, burst }) {
    const limiter = new Unreferenced({ threshold: burst, ttl: windowMsOf({ rate, burst }) / 1000 });
    return { ask: (key) => limiter.consumeSync(key), close: () => limiter.__tokens.clear() };
  },
};
