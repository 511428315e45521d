/**
 * The demo: an upstream, a gateway, and clients that ask for more than they may
 * have. Says what the limits cost and whether they were kept.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { bucketOf, CLASSES, demoConfig } from "./classes.js";
import { openGateway } from "./gateway.js";
import { costs, verdict } from "./report.js";
import { judge, newTally, rowOf } from "./verdict.js";

/** The races go round and round, so that what else the machine does falls on all of them; the first round warms up. */
const ROUNDS = 4;
const ROUND_MS = 500;

/** @returns {Promise<number>} the exit code */
export async function runDemo({ seconds, workers }) {
  /** Aborted by a signal, to end early. `on`, not `once`: under npm a Ctrl-C arrives twice. */
  const early = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => early.abort());

  const threads = ["upstream", "upstream", "load"].map((name, i) =>
    new Worker(new URL(`./${name}.js`, import.meta.url), { workerData: { port: 0, workMs: [0, 10][i] } })
  );
  const [quick, slow, load] = threads;
  const [[quickPort], [slowPort]] = await Promise.all([once(quick, "message"), once(slow, "message")]);
  const ask = async (message) => {
    load.postMessage(message);
    const [answer] = await once(load, "message");
    return answer;
  };
  const open = (port, hasLimits) =>
    openGateway(demoConfig({ workers, upstreamUrl: `http://127.0.0.1:${port}`, hasLimits }), console.error);

  const plain = await open(quickPort, false);
  const limited = await open(quickPort, true);
  console.log(`http://127.0.0.1:${limited.port}: ${workers} workers, one table; what do limits cost?\n`);
  console.log(costs(await runRaces({ plain, limited, ask, early: early.signal })));
  await Promise.all([plain.close(), limited.close()]);

  let exitCode = 0;
  if (!early.signal.aborted) {
    const gateway = await open(slowPort, true);
    early.signal.addEventListener("abort", () => load.postMessage("stop"));
    exitCode = await runClients({ gateway, ask, seconds, early: early.signal });
    await gateway.close();
  }
  await Promise.all(threads.map((thread) => thread.terminate()));
  return exitCode;
}

/** Lets every class ask for what it wants, and judges what it got. @returns {Promise<number>} the exit code */
async function runClients({ gateway, ask, seconds, early }) {
  const url = `http://127.0.0.1:${gateway.port}`;
  console.log(
    `\n${url}: ${
      CLASSES.reduce((sum, each) => sum + each.tenants, 0)
    } tenants ask for ${seconds} s; are limits kept?\n`,
  );
  const startedMs = performance.now();
  const elapsed = () => (performance.now() - startedMs) / 1000;
  const ticker = setInterval(() => {
    const { allowed, denied } = gateway.sluice.stats();
    console.log(
      `${elapsed().toFixed(0).padStart(4)} s ${String(allowed).padStart(8)} admitted ${
        String(denied).padStart(8)
      } refused`,
    );
  }, 1000);
  const { tallies, ...seen } = await ask({ clients: { url, seconds } });
  clearInterval(ticker);

  const rows = CLASSES.map((each) => {
    const buckets = new Map(
      Array.from({ length: each.tenants }, (_, i) => bucketOf(each, i)).map((bucket) => [bucket.id, bucket]),
    );
    return rowOf({
      name: each.name,
      policy: bucketOf(each, 0).policy,
      isModest: each.isModest === true,
      buckets: [...buckets.values()].map(({ id, rate, burst }) => ({
        rate,
        burst,
        tally: tallies.get(id) ?? newTally(),
      })),
    });
  });
  const isWhole = !early.aborted;
  const findings = judge(rows, { ...seen, isWhole }, gateway.sluice.stats(), gateway.sluice.audit());
  console.log(`\n${verdict({ seconds: elapsed(), isWhole, rows, findings })}`);
  return findings.some(({ holds }) => holds === false) ? 1 : 0;
}

/** Requests per second, and how long the workers were busy with each: without limits, admitted, and refused. */
async function runRaces({ plain, limited, ask, early }) {
  const races = [
    { name: "no limits", gateway: plain, apiKey: "secret-of-open", status: 200 },
    { name: "admitted", gateway: limited, apiKey: "secret-of-open", status: 200 },
    { name: "refused", gateway: limited, apiKey: "secret-of-shut", status: 429 },
  ].map((each) => ({ ...each, rounds: [] }));
  // The only one that it admits.
  await fetch(`http://127.0.0.1:${limited.port}`, { headers: { "x-api-key": "secret-of-shut" } });
  for (let round = 0; round < ROUNDS && !early.aborted; round++) {
    for (const { gateway, apiKey, status, rounds } of races) {
      const busyMs = () =>
        [...gateway.workers.keys()].reduce((sum, worker) => sum + worker.performance.eventLoopUtilization().active, 0);
      const before = busyMs();
      const { perSecond, statuses } = await ask({
        race: { url: `http://127.0.0.1:${gateway.port}`, apiKey, ms: ROUND_MS },
      });
      const answers = statuses[status] ?? 0;
      if (Object.keys(statuses).join() !== String(status)) {
        throw new Error(`every answer expected to be ${status}, got ${JSON.stringify(statuses)}`);
      }
      if (round > 0) rounds.push({ perSecond, busyUs: ((busyMs() - before) / answers) * 1000 });
    }
  }
  return races;
}
