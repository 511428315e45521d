// rate-limiter-flexible in memory. Without a prefix it need not make a new string
// of every key. It answers with a promise, which it rejects for a key over its
// limit, and keeps a timer for each key.

import { RateLimiterMemory } from "rate-limiter-flexible";
import type { Rival } from "./rival.js";
import { windowMsOf } from "./window.js";

const yes = (): boolean => true;
const no = (reason: unknown): boolean => {
  if (reason instanceof Error) throw reason;
  return false;
};

export const rival: Rival = {
  name: "rate-limiter-flexible",
  package: "rate-limiter-flexible",
  what: "memory; fixed window; a promise a call, a timer a key",
  answers: "promise",
  readsClock: true,
  make({ rate, burst }) {
    const limiter = new RateLimiterMemory({
      points: burst,
      duration: windowMsOf({ rate, burst }) / 1000,
      keyPrefix: "",
    });
    return {
      ask: (key) => limiter.consume(key).then(yes, no),
      close() {
        for (const { key } of limiter.dump().storage) void limiter.delete(key);
      },
    };
  },
};
