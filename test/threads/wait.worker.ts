// Waits synchronously for what each message asks, and says how that ended.

import { parentPort, workerData } from "node:worker_threads";
import { type Key, Sluice, type WaitOptions } from "sluice";
import { bucketOf } from "./crew-member.js";

const limiter = Sluice.attach(workerData.handle).limiter("test");

parentPort!.on("message", ({ key, cost, options }: { key?: Key; cost?: number; options?: WaitOptions }) => {
  parentPort!.postMessage("waits");
  try {
    bucketOf(limiter, key).waitSync(cost, options);
    parentPort!.postMessage("done");
  } catch (error) {
    parentPort!.postMessage((error as { code?: string }).code ?? String(error));
  }
});
