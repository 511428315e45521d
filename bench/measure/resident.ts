// Resident memory of this process.

import { setTimeout as sleep } from "node:timers/promises";

export const MIB = 2 ** 20;

/**
 * Resident bytes after garbage collection. The engine returns its pages in the
 * background, so this is the least of several readings.
 */
export async function residentBytes(readings = 6): Promise<number> {
  let least = Infinity;
  for (let i = 0; i < readings; i++) {
    globalThis.gc!();
    await sleep(50);
    least = Math.min(least, process.memoryUsage.rss());
  }
  return least;
}
