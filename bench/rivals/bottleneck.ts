// bottleneck: a group of limiters, each with a reservoir that is refilled at the
// end of the window. It schedules work instead of answering; here the work is
// `true`, and what cannot start at once is dropped and not queued. Each decision
// goes through three timers of a millisecond, one after the other, and the
// decisions of one key take turns.

import Bottleneck from "bottleneck";
import type { Rival } from "./rival.js";
import { windowMsOf } from "./window.js";

const work = async (): Promise<boolean> => true;
const dropped = (reason: Error): boolean => {
  if (reason.message !== "This job has been dropped by Bottleneck") throw reason;
  return false;
};

export const rival: Rival = {
  name: "bottleneck",
  package: "bottleneck",
  what: "Group; a reservoir a window; a promise and three timers a call",
  answers: "promise",
  readsClock: true,
  limits: { calls: 1000, keys: 10_000 },
  make({ rate, burst }) {
    const windowMs = windowMsOf({ rate, burst });
    const group = new Bottleneck.Group({
      reservoir: burst,
      reservoirRefreshAmount: burst,
      reservoirRefreshInterval: windowMs,
      // It looks for the end of the window at this interval: one look a window is the least work.
      heartbeatInterval: windowMs,
      highWater: 0,
      strategy: Bottleneck.strategy.OVERFLOW,
      timeout: 2 ** 31 - 1,
    });
    return {
      ask: (key) => group.key(String(key)).schedule(work).catch(dropped),
      async close() {
        clearInterval((group as unknown as { interval: NodeJS.Timeout }).interval);
        await Promise.all(group.keys().map((key) => group.deleteKey(key)));
      },
    };
  },
};
