// Resident memory of this process, and keys that are asked for by the million.

import { setTimeout as sleep } from "node:timers/promises";

export const MIB = 2 ** 20;

/** Resident bytes, once garbage is gone: the engine hands its pages back in the background, so the least of some readings. */
export async function residentBytes(readings = 6) {
  let least = Infinity;
  for (let i = 0; i < readings; i++) {
    globalThis.gc();
    await sleep(50);
    least = Math.min(least, process.memoryUsage.rss());
  }
  return least;
}
