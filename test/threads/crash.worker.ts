// A worker that is there to be terminated: everything that writes to a table,
// as fast as it goes, until the end comes. It says when it is at
// work, and counts in word 0 what it was admitted on the hot bucket.

import { parentPort, workerData } from "node:worker_threads";
import { Sluice, type SluiceHandle } from "sluice";

export interface Victim {
  handle: SluiceHandle;
  words: Int32Array;
  kind: "hammer" | "setter" | "definer" | "reserver";
  /** The first of the numbers that this worker makes its keys of. */
  stream: number;
  /** Rates for a setter to leap between. */
  rates: readonly number[];
}

const { handle, words, kind, stream, rates }: Victim = workerData;
const sluice = Sluice.attach(handle);
const hot = sluice.limiter("hot").global;
const slow = sluice.limiter("slow");
const crowd = sluice.limiter("crowd");
const shaken = sluice.limiter("shaken");
const lined = sluice.limiter("lined");
const keys = Array.from({ length: 8 }, (_, i) => `hot ${i}`);

for (let i = 0;; i++) {
  if (hot.allow()) Atomics.add(words, 0, 1);
  slow.allow("key");
  for (const key of keys) crowd.allow(key);
  // New keys: claims, and evictions in a table so small.
  for (let n = 0; n < 20; n++) crowd.allow(stream + i * 20 + n);
  for (let n = 0; n < 5; n++) lined.global.allow();
  lined.allow(stream + i);
  shaken.allow(`shaken ${i % 50}`);
  if (kind === "setter") shaken.setRate(rates[i % rates.length]);
  if (kind === "definer") sluice.tokenBucket(`policy ${(stream + i) % 500}`, { rate: 1, burst: 1 }).allow("key");
  if (kind === "reserver") {
    const reservation = crowd.reserve(keys[i % 8]);
    if (i % 2) reservation.cancel();
    crowd.refund(keys[i % 8]);
  }
  if (i === 3) parentPort!.postMessage("at work");
}
