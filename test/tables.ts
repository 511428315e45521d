// Tables that a test makes, and that are closed when it ends.

import { type Key, type KeyedLimiter, type Limiter, ManualClock, Sluice } from "sluice";
import { afterEach } from "vitest";

/** Those that are to be closed; a test that closes its last one itself takes it off. */
export const open: Sluice[] = [];

afterEach(() => {
  for (const sluice of open.splice(0)) sluice.close();
});

/** A table whose clock is moved by hand. */
export function create(startMs = 1000, capacity = 1000): { sluice: Sluice; clock: ManualClock } {
  const clock = new ManualClock(startMs);
  const sluice = Sluice.create({ capacity, clock });
  open.push(sluice);
  return { sluice, clock };
}

/** The calls of a limiter with their key filled in; without a key, those of its global bucket. */
export function callsOf(
  limiter: Limiter,
  key: Key | undefined,
): Pick<KeyedLimiter, "allow" | "consume" | "peek" | "reserve" | "wait" | "refund" | "charge" | "reset"> {
  if (key === undefined) return limiter.global;
  return {
    allow: (cost) => limiter.allow(key, cost),
    consume: (cost) => limiter.consume(key, cost),
    peek: (cost) => limiter.peek(key, cost),
    reserve: (cost, options) => limiter.reserve(key, cost, options),
    wait: (cost, options) => limiter.wait(key, cost, options),
    refund: (cost) => limiter.refund(key, cost),
    charge: (cost) => limiter.charge(key, cost),
    reset: () => limiter.reset(key),
  };
}
