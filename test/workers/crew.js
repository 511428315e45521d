// The worker's side of test/crew.ts: attach, stand at the gate, work, report.

import { parentPort, workerData } from "node:worker_threads";
import { Sluice } from "sluice";

const { words, index } = workerData;

export const isStopped = () => Atomics.load(words, 1) === 1;

/** The limiter bound to a key; without one, its global bucket. */
export const bucketOf = (limiter, key) => (key === undefined ? limiter.global : limiter.key(key));

/** Publishes what this worker has counted. */
export const publishCount = (count) => Atomics.store(words, 2 + index, count);

/** Runs the job that the crew was hired for: `jobs[name](sluice, workerData)` returns the report. */
export async function work(jobs) {
  const sluice = Sluice.attach(workerData.handle);
  const job = jobs[workerData.job](sluice, workerData);
  parentPort.postMessage({ ready: true });
  Atomics.wait(words, 0, 0);
  parentPort.postMessage({ report: await job() });
}
