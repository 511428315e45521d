// A task of a Piscina pool: attaches as every task would, keeps nothing, and
// asks for one key.

import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { threadId, workerData } from "node:worker_threads";
import { Sluice } from "sluice";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");

export default function task({ name, key, calls }) {
  let admitted = 0;
  for (let i = 0; i < calls; i++) if (Sluice.attach(workerData).limiter(name).allow(key)) admitted++;
  return { admitted, threadId, threads: Sluice.attach(workerData).stats().threads };
}

/** As the default, once what the tasks before attached has been collected. */
export async function collected(options) {
  await setImmediate();
  collect();
  await setImmediate();
  return task(options);
}
