// Tables that a test makes, and that are closed when it ends.

import { type Key, type KeyedLimiter, type Limiter, ManualClock, Sluice, type SluiceOptions } from "sluice";
import { onTestFinished } from "vitest";

/** Tables to be closed at the end of the test; a test that closes its last one itself takes it off. */
export const open: Sluice[] = [];

function closeAll(): void {
  for (const sluice of open.splice(0)) sluice.close();
}

/** A table that is closed at the end of the test. */
export function openTable(options: Partial<SluiceOptions> = {}): Sluice {
  if (open.length === 0) onTestFinished(closeAll);
  const sluice = Sluice.create({ capacity: 1000, ...options });
  open.push(sluice);
  return sluice;
}

/** A table whose clock is moved by hand. */
export function create(
  startMs = 1000,
  options: Omit<Partial<SluiceOptions>, "clock"> = {},
): { sluice: Sluice; clock: ManualClock } {
  const clock = new ManualClock(startMs);
  return { clock, sluice: openTable({ ...options, clock }) };
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
