// rate-limiter-flexible for processes of a cluster: the primary process owns
// all counters, and the others ask it by messages between processes. One by
// one, or with many questions on the way. Both sides of it.

import cluster from "node:cluster";
import { fileURLToPath } from "node:url";
import { RateLimiterCluster, RateLimiterClusterMaster } from "rate-limiter-flexible";
import { address } from "../addresses.js";
import { windowMsOf } from "../window.js";

const KEYS = 10_000;
const SHARED = "10.0.0.1";
const WINDOW = 256;

/** How many decisions a process has on the way, and the key of each. */
const jobs = {
  "serial: own keys, strings": { policy: "plenty", onTheWay: 1, isShared: false },
  "serial: one key, refused": { policy: "few", onTheWay: 1, isShared: true },
  "pipelined: own keys, strings": { policy: "plenty", onTheWay: WINDOW, isShared: false },
  "pipelined: one key, refused": { policy: "few", onTheWay: WINDOW, isShared: true },
};

export const clusterJobs = Object.keys(jobs);

const answerOf = (worker) =>
  new Promise((resolve, reject) => {
    const end = (settle) => (value) => {
      worker.off("message", receive).off("exit", fail);
      settle(value);
    };
    const done = end(resolve);
    const fail = end((code) => reject(new Error(`a process of the cluster ended with ${code}`)));
    const receive = ({ done: what }) => what && done(what);
    worker.on("message", receive).on("exit", fail);
  });

/** `size` processes whose limiters this process owns; asked for work as a crew is (crew.js). */
export async function hireCluster(size, policies) {
  new RateLimiterClusterMaster();
  cluster.setupPrimary({ exec: fileURLToPath(import.meta.url), args: [JSON.stringify(policies)], execArgv: [] });
  const workers = Array.from({ length: size }, () => cluster.fork());
  await Promise.all(workers.map(answerOf));
  return {
    work(job, count, lengthMs) {
      const answers = workers.slice(0, count).map(answerOf);
      workers.slice(0, count).forEach((worker, me) => worker.send({ job, me, lengthMs }));
      return Promise.all(answers);
    },
    async dismiss() {
      await new Promise((resolve) => cluster.disconnect(resolve));
    },
  };
}

// --- in each process of the cluster ----------------------------------------------

async function serve(policies) {
  const limiters = Object.fromEntries(
    Object.entries(policies).map((
      [name, policy],
    ) => [
      name,
      new RateLimiterCluster({
        keyPrefix: name,
        points: policy.burst,
        duration: windowMsOf(policy) / 1000,
        timeoutMs: 60_000,
      }),
    ]),
  );
  // An answer means that the primary knows the limiter: before, questions are held back.
  await Promise.all(Object.values(limiters).map((limiter) => limiter.get("nobody")));
  process.on("message", async ({ job, me, lengthMs }) => {
    if (job === undefined) return;
    process.send({ done: await work(limiters, jobs[job], me, lengthMs) });
  });
  process.send({ done: "ready" });
}

async function work(limiters, { policy, onTheWay, isShared }, me, lengthMs) {
  const limiter = limiters[policy];
  const keys = isShared ? [SHARED] : Array.from({ length: KEYS }, (_, i) => address((1 + me) * KEYS + i));
  let decisions = 0;
  let admitted = 0;
  const admit = () => admitted++;
  const refuse = (reason) => {
    if (reason instanceof Error) throw reason;
  };
  const startMs = performance.now();
  const askOn = async () => {
    while (performance.now() - startMs < lengthMs) {
      await limiter.consume(keys[decisions++ % keys.length]).then(admit, refuse);
    }
  };
  await Promise.all(Array.from({ length: onTheWay }, askOn));
  return { decisions, admitted, ms: performance.now() - startMs };
}

if (cluster.isWorker) await serve(JSON.parse(process.argv[2]));
