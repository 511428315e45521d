// bottleneck: a group of limiters, each with a reservoir that is filled again
// at the end of the window. It schedules work rather than answers: the work
// here is `true`, and what may not start at once is dropped instead of queued.
// Each decision goes through three timers of a millisecond, one after the
// other, and the decisions of one key take turns.

import Bottleneck from "bottleneck";
import { windowMsOf } from "../window.js";

const work = async () => true;
const dropped = (reason) => {
  if (reason.message !== "This job has been dropped by Bottleneck") throw reason;
  return false;
};

export const rival = {
  name: "bottleneck",
  package: "bottleneck",
  what: "Group; a reservoir a window; a promise and three timers a call",
  answers: "promise",
  readsClock: true,
  bears: { calls: 1000, keys: 10_000 },
  make({ rate, burst }) {
    const windowMs = windowMsOf({ rate, burst });
    const group = new Bottleneck.Group({
      reservoir: burst,
      reservoirRefreshAmount: burst,
      reservoirRefreshInterval: windowMs,
      // It looks for the end of the window every so often; as long as the window is the least work.
      heartbeatInterval: windowMs,
      highWater: 0,
      strategy: Bottleneck.strategy.OVERFLOW,
      timeout: 2 ** 31 - 1,
    });
    return {
      ask: (key) => group.key(key).schedule(work).catch(dropped),
      async close() {
        clearInterval(group.interval);
        await Promise.all(group.keys().map((key) => group.deleteKey(key)));
      },
    };
  },
};
