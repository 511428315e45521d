// Acquires synchronously what each message asks for, and says how that ended.

import { parentPort, workerData } from "node:worker_threads";
import { Sluice } from "sluice";
import { RateLimiter } from "sluice/guava";

const limiter = RateLimiter.create(5, { home: { sluice: Sluice.attach(workerData.handle), name: "guava" } });

parentPort!.on("message", ({ permits, timeoutMs }: { permits: number; timeoutMs?: number }) => {
  parentPort!.postMessage("waits");
  const answer = timeoutMs === undefined ? limiter.acquireSync(permits) : limiter.tryAcquireSync(permits, timeoutMs);
  parentPort!.postMessage(answer);
});
