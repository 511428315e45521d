// What a thread of a crew runs (crew.js).

import { workerData } from "piscina";
import { ARRIVED } from "./crew.js";

const { context, words } = workerData;
const { jobs } = await import(workerData.jobs);
const made = new Map();
let me;
let ports;

function waitForAll(arrivals) {
  Atomics.add(words, ARRIVED, 1);
  Atomics.notify(words, ARRIVED);
  for (let arrived; (arrived = Atomics.load(words, ARRIVED)) < arrivals;) Atomics.wait(words, ARRIVED, arrived);
}

async function jobOf(name) {
  if (!made.has(name)) made.set(name, await jobs[name](context, me, ports));
  return made.get(name);
}

/** The first task is to be told one's number; every other is a job. */
export default async function task({ arrivals, job, lengthMs, ...told }) {
  if (job === undefined) {
    ({ me, ports } = told);
    return waitForAll(arrivals);
  }
  const { decide, count } = await jobOf(job);
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
