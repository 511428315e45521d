/**
 * The demo: an upstream, a gateway, and clients that send more requests than they
 * may. Reports what the limits cost, and whether they were kept.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { bucketOf, CLASSES, type ClientClass, demoConfig } from "./classes.js";
import { type Gateway, openGateway } from "./gateway.js";
import type { ClientsResult, ClientsRun, Race, RaceResult, ToLoad } from "./load.js";
import { costReport, type Round, verdictReport } from "./report.js";
import type { DemoUpstream } from "./upstream.js";
import { judge, newTally, rowOf, type Tally } from "./verdict.js";

/** The races take turns, so that other load on the machine affects all of them. The first round warms up. */
const ROUNDS = 4;
const ROUND_MS = 500;

/** The thread that sends the requests. */
class Load {
  readonly #worker = startThread("load");

  race(race: Race): Promise<RaceResult> {
    return this.#run({ race });
  }

  /** A run of all classes; shorter if `signal` aborts. */
  clients(clients: ClientsRun, signal: AbortSignal): Promise<ClientsResult> {
    const stop = () => this.#post("stop");
    signal.addEventListener("abort", stop);
    const result = this.#run<ClientsResult>({ clients });
    if (signal.aborted) stop();
    return result.finally(() => signal.removeEventListener("abort", stop));
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  async #run<Result>(message: ToLoad): Promise<Result> {
    this.#post(message);
    const [result] = await once(this.#worker, "message");
    return result as Result;
  }

  #post(message: ToLoad): void {
    this.#worker.postMessage(message);
  }
}

function startThread(name: string, workerData?: DemoUpstream): Worker {
  return new Worker(new URL(`./${name}.js`, import.meta.url), { workerData });
}

/** An upstream in a thread of its own. */
async function startUpstream(workMs: number): Promise<{ thread: Worker; url: string }> {
  const thread = startThread("upstream", { port: 0, workMs });
  const [port] = await once(thread, "message");
  return { thread, url: `http://127.0.0.1:${port}` };
}

/** Resolves to the exit code. */
export async function runDemo({ seconds, workers }: { seconds: number; workers: number }): Promise<number> {
  const interrupt = new AbortController();
  const { signal } = interrupt;
  // `on`, not `once`: under npm, Ctrl-C sends the signal twice.
  for (const name of ["SIGINT", "SIGTERM"]) process.on(name, () => interrupt.abort());

  const load = new Load();
  const [quick, slow] = await Promise.all([startUpstream(0), startUpstream(10)]);
  const open = (upstreamUrl: string, hasLimits: boolean) =>
    openGateway(demoConfig({ workers, upstreamUrl, hasLimits }), console.error);

  const plain = await open(quick.url, false);
  const limited = await open(quick.url, true);
  console.log(`${urlOf(limited)}: ${workers} workers, one table; what do limits cost?\n`);
  console.log(costReport(await runRaces(plain, limited, load, signal)));
  await Promise.all([plain.close(), limited.close()]);

  let exitCode = 0;
  if (!signal.aborted) {
    const gateway = await open(slow.url, true);
    exitCode = await runClients(gateway, load, seconds, signal);
    await gateway.close();
  }
  await Promise.all([load.end(), quick.thread.terminate(), slow.thread.terminate()]);
  return exitCode;
}

function urlOf({ port }: Gateway): string {
  return `http://127.0.0.1:${port}`;
}

/** Measures throughput and worker time: without limits, admitted, and refused. */
async function runRaces(
  plain: Gateway,
  limited: Gateway,
  load: Load,
  signal: AbortSignal,
): Promise<{ name: string; rounds: Round[] }[]> {
  const races = [
    { name: "no limits", gateway: plain, apiKey: "secret-of-open", status: 200 },
    { name: "admitted", gateway: limited, apiKey: "secret-of-open", status: 200 },
    { name: "refused", gateway: limited, apiKey: "secret-of-shut", status: 429 },
  ].map((race) => ({ ...race, rounds: [] as Round[] }));
  // Uses up the one token of this tenant, so that the races see refusals only.
  await fetch(urlOf(limited), { headers: { "x-api-key": "secret-of-shut" } });
  for (let round = 0; round < ROUNDS && !signal.aborted; round++) {
    for (const { gateway, apiKey, status, rounds } of races) {
      const before = busyMs(gateway);
      const { perSecond, statuses } = await load.race({ url: urlOf(gateway), apiKey, ms: ROUND_MS });
      if (Object.keys(statuses).join() !== String(status)) {
        throw new Error(`expected only answers with status ${status}, got ${JSON.stringify(statuses)}`);
      }
      if (round > 0) rounds.push({ perSecond, busyUs: ((busyMs(gateway) - before) / statuses[status]) * 1000 });
    }
  }
  return races;
}

/** How long the event loops of the gateway's workers have been busy. */
function busyMs({ workers }: Gateway): number {
  return [...workers.keys()].reduce((sum, worker) => sum + worker.performance.eventLoopUtilization().active, 0);
}

/** Runs the classes of clients and judges what they got. Resolves to the exit code. */
async function runClients(gateway: Gateway, load: Load, seconds: number, signal: AbortSignal): Promise<number> {
  const url = urlOf(gateway);
  const tenants = CLASSES.reduce((sum, each) => sum + each.tenants, 0);
  console.log(`\n${url}: ${tenants} tenants send requests for ${seconds} s; are the limits kept?\n`);
  const startedMs = performance.now();
  const elapsed = () => (performance.now() - startedMs) / 1000;
  const progress = setInterval(() => {
    const { allowed, denied } = gateway.sluice.stats();
    const time = elapsed().toFixed(0).padStart(4);
    console.log(`${time} s ${String(allowed).padStart(8)} admitted ${String(denied).padStart(8)} refused`);
  }, 1000);
  const { tallies, ...seen } = await load.clients({ url, seconds }, signal);
  clearInterval(progress);

  const rows = CLASSES.map((each) =>
    rowOf({
      name: each.name,
      policy: bucketOf(each, 0).policy,
      isModest: each.isModest === true,
      buckets: bucketsOf(each, tallies),
    })
  );
  const isWhole = !signal.aborted;
  const findings = judge(rows, { ...seen, isWhole }, gateway.sluice.stats(), gateway.sluice.audit());
  console.log(`\n${verdictReport({ seconds: elapsed(), isWhole, rows, findings })}`);
  return findings.some(({ holds }) => holds === false) ? 1 : 0;
}

/** The buckets of a class, each once, with what the clients saw of it. */
function bucketsOf(each: ClientClass, tallies: ReadonlyMap<string, Tally>) {
  const buckets = new Map(
    Array.from({ length: each.tenants }, (_, i) => bucketOf(each, i)).map((bucket) => [bucket.id, bucket]),
  );
  return [...buckets.values()].map(({ id, rate, burst }) => ({ rate, burst, tally: tallies.get(id) ?? newTally() }));
}
