// What a thread of a crew runs (measure/crew.ts).

import type { MessagePort } from "node:worker_threads";
import { workerData } from "piscina";
import type { Admitted } from "../measure/loops.js";

/** The index of a shared word: how many threads have begun a task, over all turns. */
const ARRIVED = 0;

/** A thread's ports, by name. */
export type Ports = Record<string, MessagePort>;

export interface Task {
  /** The task begins when this many threads have arrived, over all turns. */
  arrivals: number;
  /** The name of a job. The first task has none: it only gives the thread its number and ports. */
  job?: string;
  lengthMs?: number;
  me?: number;
  ports?: Ports;
}

/** What one thread did in one turn. */
export interface Done {
  decisions: number;
  admitted: number;
  ms: number;
}

/** A job of one thread. `decide()` makes `count` decisions and returns how many were admitted. */
export interface Job {
  decide(): Admitted;
  count: number;
}

/** Makes a job for thread `me`; the threads are numbered from 0. */
export type MakeJob<C> = (context: C, me: number, ports: Ports) => Job;

const { context, words, jobs: jobsModule } = workerData as { context: unknown; words: Int32Array; jobs: string };
const { jobs } = (await import(jobsModule)) as { jobs: Record<string, MakeJob<unknown>> };
const made = new Map<string, Job>();
let me = -1;
let ports: Ports = {};

function waitForAll(arrivals: number): void {
  Atomics.add(words, ARRIVED, 1);
  Atomics.notify(words, ARRIVED);
  for (let arrived; (arrived = Atomics.load(words, ARRIVED)) < arrivals;) Atomics.wait(words, ARRIVED, arrived);
}

function jobOf(name: string): Job {
  let job = made.get(name);
  if (job === undefined) made.set(name, job = jobs[name](context, me, ports));
  return job;
}

export default async function task({ arrivals, job, lengthMs = 0, ...rest }: Task): Promise<Done | undefined> {
  if (job === undefined) {
    me = rest.me!;
    ports = rest.ports!;
    waitForAll(arrivals);
    return undefined;
  }
  const { decide, count } = jobOf(job);
  waitForAll(arrivals);
  let decisions = 0;
  let admitted = 0;
  let ms = 0;
  const startMs = performance.now();
  while (ms < lengthMs) {
    const answer = decide();
    admitted += typeof answer === "number" ? answer : await answer;
    decisions += count;
    ms = performance.now() - startMs;
  }
  return { decisions, admitted, ms };
}
