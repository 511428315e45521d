// The app that is bundled: a main thread and worker threads that share a
// table, and the package's other doors. Prints what came of it as JSON.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { every, Sluice } from "sluice";
import { Limiter } from "sluice/go";
import { RateLimiter } from "sluice/guava";
import { LeakyPool } from "sluice/pool";

const WORKERS = 3;
const QUOTA = 1_000_000;

async function main(): Promise<void> {
  // A quota that never refills is exact; a coarse clock moves only if the ticker's thread runs.
  const sluice = Sluice.create({ capacity: 1000, clock: "coarse" });
  const quota = sluice.tokenBucket("quota", { rate: 0, burst: QUOTA });
  sluice.tokenBucket("requests", { rate: 0, burst: 100 });
  sluice.leakyBucket("paced", { rate: every(5), queue: 1000 });

  const gate = new Int32Array(new SharedArrayBuffer(4));
  const workers = Array.from(
    { length: WORKERS },
    () => new Worker(new URL("./worker.js", import.meta.url), { workerData: { handle: sluice.handle, gate } }),
  );
  await Promise.all(workers.map((worker) => once(worker, "message")));
  const reports = workers.map((worker) => once(worker, "message"));
  Atomics.store(gate, 0, 1);
  Atomics.notify(gate, 0);
  const answers = (await Promise.all(reports)).map(([report]) => report);
  const attached = sluice.stats().threads;
  await Promise.all(workers.map((worker) => worker.terminate()));

  const pool = new LeakyPool({
    filename: new URL("./task.mjs", import.meta.url).href,
    workers: 1,
    rate: 1000,
    queue: 1,
  });
  const doubled = await pool.run(21);
  await pool.close();

  console.log(JSON.stringify({
    admitted: answers.map(({ admitted }) => admitted),
    answered: answers.map(({ answered }) => answered),
    left: quota.peek("alice").remaining,
    attached,
    attachedAfterDeaths: sluice.stats().threads,
    isClean: sluice.audit().clean,
    doubled,
    go: new Limiter(1, 1).allow(),
    guava: await RateLimiter.create(1).acquire(),
  }));
  sluice.close();
}

main();
