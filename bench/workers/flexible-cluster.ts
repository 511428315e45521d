// rate-limiter-flexible for processes of a cluster: the primary process owns all
// counters, and the others ask it by messages between processes, one by one or
// with many questions under way. This module is both the primary's side and the
// program of the other processes.

import cluster, { type Worker } from "node:cluster";
import { fileURLToPath } from "node:url";
import { RateLimiterCluster, RateLimiterClusterMaster } from "rate-limiter-flexible";
import { address } from "../measure/addresses.js";
import type { Crew } from "../measure/crew.js";
import type { Policy } from "../rivals/rival.js";
import { windowMsOf } from "../rivals/window.js";
import type { Done } from "./crew-member.js";

const KEYS = 10_000;
const SHARED = "10.0.0.1";
const WINDOW = 256;

interface ClusterJob {
  policy: string;
  /** Decisions under way at a time. */
  underWay: number;
  /** Whether all processes ask for one key. */
  isShared: boolean;
}

const jobs: Record<string, ClusterJob> = {
  "serial: own keys, strings": { policy: "plenty", underWay: 1, isShared: false },
  "serial: one key, refused": { policy: "few", underWay: 1, isShared: true },
  "pipelined: own keys, strings": { policy: "plenty", underWay: WINDOW, isShared: false },
  "pipelined: one key, refused": { policy: "few", underWay: WINDOW, isShared: true },
};

export const clusterJobs = Object.keys(jobs);

// --- the primary process ------------------------------------------------------------

type Policies = Record<string, Policy>;

/** Other messages are the library's own. */
interface Message {
  job?: string;
  me: number;
  lengthMs: number;
}

/** The next answer of a process. */
function answerOf(worker: Worker): Promise<Done | "ready"> {
  return new Promise((resolve, reject) => {
    const end = (): unknown => worker.off("message", receive).off("exit", fail);
    const fail = (code: number): void => {
      end();
      reject(new Error(`a process of the cluster ended with ${code}`));
    };
    const receive = ({ done }: { done?: Done | "ready" }): void => {
      if (done === undefined) return;
      end();
      resolve(done);
    };
    worker.on("message", receive).on("exit", fail);
  });
}

/** Starts `size` processes whose limiters this process owns. */
export async function hireCluster(size: number, policies: Policies): Promise<Crew> {
  new RateLimiterClusterMaster();
  cluster.setupPrimary({ exec: fileURLToPath(import.meta.url), args: [JSON.stringify(policies)], execArgv: [] });
  const workers = Array.from({ length: size }, () => cluster.fork());
  await Promise.all(workers.map(answerOf));
  return {
    work(job, count, lengthMs) {
      const answers = workers.slice(0, count).map(answerOf);
      workers.slice(0, count).forEach((worker, me) => worker.send({ job, me, lengthMs }));
      return Promise.all(answers) as Promise<Done[]>;
    },
    dismiss: () => new Promise((resolve) => cluster.disconnect(() => resolve())),
  };
}

// --- every other process ------------------------------------------------------------

async function serve(policies: Policies): Promise<void> {
  const limiters = new Map(
    Object.entries(policies).map(([name, policy]) => [
      name,
      new RateLimiterCluster({
        keyPrefix: name,
        points: policy.burst,
        duration: windowMsOf(policy) / 1000,
        timeoutMs: 60_000,
      }),
    ]),
  );
  // An answer shows that the primary process knows the limiter. Earlier questions would be held back.
  await Promise.all([...limiters.values()].map((limiter) => limiter.get("nobody")));
  process.on("message", async ({ job, me, lengthMs }: Message) => {
    if (job === undefined) return;
    const { policy, ...rest } = jobs[job];
    process.send!({ done: await work(limiters.get(policy)!, rest, me, lengthMs) });
  });
  process.send!({ done: "ready" });
}

async function work(
  limiter: RateLimiterCluster,
  { underWay, isShared }: Omit<ClusterJob, "policy">,
  me: number,
  lengthMs: number,
): Promise<Done> {
  const keys = isShared ? [SHARED] : Array.from({ length: KEYS }, (_, i) => address((1 + me) * KEYS + i));
  let decisions = 0;
  let admitted = 0;
  const admit = (): void => {
    admitted++;
  };
  const refuse = (reason: unknown): void => {
    if (reason instanceof Error) throw reason;
  };
  const startMs = performance.now();
  const lane = async (): Promise<void> => {
    while (performance.now() - startMs < lengthMs) {
      await limiter.consume(keys[decisions++ % keys.length]).then(admit, refuse);
    }
  };
  await Promise.all(Array.from({ length: underWay }, lane));
  return { decisions, admitted, ms: performance.now() - startMs };
}

if (cluster.isWorker) await serve(JSON.parse(process.argv[2]) as Policies);
