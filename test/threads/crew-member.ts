// The worker's side of crew.ts: attaches, stands at the gate, works, reports.

import { parentPort, workerData } from "node:worker_threads";
import { type Key, type KeyedLimiter, type Limiter, Sluice, type SluiceHandle } from "sluice";

/** What every member of a crew is given besides its job's own options. */
export interface Member {
  handle: SluiceHandle;
  job: string;
  /** This worker's number in its crew, from 0. */
  index: number;
  /** Workers in the crew. */
  size: number;
  /** Flags and counts; see crew.ts. */
  words: Int32Array;
}

/** Gets ready, and returns the part that begins when the gate opens. Its result is the worker's report. */
export type Job = (sluice: Sluice, options: never) => () => unknown;

const member: Member = workerData;

export const isStopped = (): boolean => Atomics.load(member.words, 1) === 1;

/** Publishes what this worker has counted. */
export const publishCount = (count: number): void => void Atomics.store(member.words, 2 + member.index, count);

/** A key's handle; without a key, the limiter's global bucket. */
export const bucketOf = (limiter: Limiter, key: Key | undefined): KeyedLimiter =>
  key === undefined ? limiter.global : limiter.key(key);

/** Runs the job that the crew was hired for. */
export async function work(jobs: Record<string, Job>): Promise<void> {
  const sluice = Sluice.attach(member.handle);
  const job = jobs[member.job](sluice, workerData as never);
  parentPort!.postMessage({ ready: true });
  Atomics.wait(member.words, 0, 0);
  parentPort!.postMessage({ report: await job() });
}
