// fast-ratelimit. A decision reads no clock: it counts down a number in a Map,
// and a timer that the key's first call starts removes the number. This is why it
// is cheap, and what it costs: a timer and a Map entry for every key, a window as
// long as the event loop happens to make it, no time until the next token, and up
// to twice the limit around a window's end.

import { FastRateLimit } from "fast-ratelimit";
import type { Rival } from "./rival.js";
import { windowMsOf } from "./window.js";

/** The package's own class, with timers that let the process end. */
class Unreferenced extends FastRateLimit {
  override __scheduleExpireToken(namespace: string): void {
    setTimeout(() => this.__tokens.delete(namespace), this.__options.ttl_millisec).unref();
  }
}

export const rival: Rival = {
  name: "fast-ratelimit",
  package: "fast-ratelimit",
  what: "fixed window; a timer a key, no clock",
  answers: "sync",
  readsClock: false,
  make({ rate, burst }) {
    const limiter = new Unreferenced({ threshold: burst, ttl: windowMsOf({ rate, burst }) / 1000 });
    return { ask: (key) => limiter.consumeSync(key as string), close: () => limiter.__tokens.clear() };
  },
};
