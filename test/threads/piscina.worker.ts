// A task of a Piscina pool: attaches as every task would, keeps nothing, and
// asks for one key.

import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { threadId, workerData } from "node:worker_threads";
import { type Key, Sluice } from "sluice";

export interface Task {
  name: string;
  key: Key;
  calls: number;
}

export interface Report {
  admitted: number;
  threadId: number;
  /** Threads attached to the table. */
  threads: number;
}

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

export default function task({ name, key, calls }: Task): Report {
  let admitted = 0;
  for (let i = 0; i < calls; i++) if (Sluice.attach(workerData).limiter(name).allow(key)) admitted++;
  return { admitted, threadId, threads: Sluice.attach(workerData).stats().threads };
}

/** The same, after a collection of what earlier tasks attached. */
export async function collected(options: Task): Promise<Report> {
  await setImmediate();
  collect();
  await setImmediate();
  return task(options);
}
