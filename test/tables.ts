// Tables that a test makes, and that are closed when it ends.

import { ManualClock, Sluice } from "sluice";
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
