/**
 * The demo's clients, in a thread of their own, made by autocannon. Each message asks
 * for one run, and the thread posts the result. "stop" ends a run of clients early.
 */
import autocannon from "autocannon";
import { once } from "node:events";
import type { IncomingHttpHeaders } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { parentPort } from "node:worker_threads";
import { apiKey, type Bucket, bucketOf, CLASSES, type ClientClass } from "./classes.js";
import { newTally, type Tally } from "./verdict.js";

/** Requests with one API key, as fast as possible. */
export interface Race {
  url: string;
  apiKey: string;
  ms: number;
}

export interface RaceResult {
  perSecond: number;
  /** Answers by status. */
  statuses: Record<number, number>;
}

/** All classes at once, each at its own pace. */
export interface ClientsRun {
  url: string;
  seconds: number;
}

export interface ClientsResult {
  /** By the bucket's id. */
  tallies: Map<string, Tally>;
  /** Answers that were not expected. */
  wrong: number;
  /** Requests without an answer. */
  errors: number;
}

export type ToLoad = { race: Race } | { clients: ClientsRun } | "stop";

const RACE_CONNECTIONS = 32;
/** Longer than any run. autocannon needs a duration, but the run is stopped before. */
const FOREVER_SECONDS = 86_400;

async function race({ url, apiKey: key, ms }: Race): Promise<RaceResult> {
  let statuses: Record<number, number> = {};
  const run = autocannon({
    url,
    connections: RACE_CONNECTIONS,
    duration: FOREVER_SECONDS,
    sampleInt: 50,
    headers: { "x-api-key": key },
  });
  run.on("response", (_, status) => {
    statuses[status] = (statuses[status] ?? 0) + 1;
  });
  // The measurement begins when the connections are open.
  await once(run, "response");
  statuses = {};
  const startedMs = performance.now();
  await sleep(ms);
  const seconds = (performance.now() - startedMs) / 1000;
  const perSecond = Object.values(statuses).reduce((sum, count) => sum + count, 0) / seconds;
  run.stop();
  await run;
  return { perSecond, statuses };
}

/** What the clients saw, by bucket. */
class Notes {
  readonly tallies = new Map<string, Tally>();
  wrong = 0;

  /** Notes an answer. It is wrong unless it is a 200 or a 429, from the limiter that is expected. */
  add(bucket: Bucket, sentMs: number, status: number, headers: IncomingHttpHeaders): void {
    const nowMs = performance.now();
    const tally = this.#tallyOf(bucket);
    const [, policy, remaining] = /^"(.*)";r=(\d+)/.exec(String(headers.RateLimit)) ?? [];
    if (policy !== bucket.policy || (status !== 200 && status !== 429)) this.wrong++;
    tally.requested++;
    if (status === 429) {
      tally.lastRefusedMs = Math.max(tally.lastRefusedMs, sentMs);
      return;
    }
    tally.admitted++;
    tally.firstAdmittedMs = Math.min(tally.firstAdmittedMs, sentMs);
    tally.lastAdmittedMs = nowMs;
    if (Number(remaining) === bucket.burst - 1) tally.lastFullMs = nowMs;
  }

  #tallyOf({ id }: Bucket): Tally {
    let tally = this.tallies.get(id);
    if (!tally) this.tallies.set(id, tally = newTally());
    return tally;
  }
}

function startClass(each: ClientClass, { url, seconds }: ClientsRun, notes: Notes): autocannon.Run {
  let i = 0;
  return autocannon<{ bucket: Bucket; sentMs: number }>({
    url: url + each.path,
    connections: each.connections,
    overallRate: each.requestsPerSecond,
    // An amount, not a duration: it ends when every request is answered, so that all of them are counted.
    amount: Math.ceil(each.requestsPerSecond * seconds),
    requests: [{
      setupRequest(request, context) {
        const turn = Math.floor(i++ / each.turn);
        context.bucket = bucketOf(each, turn);
        context.sentMs = performance.now();
        return { ...request, headers: { "x-api-key": apiKey(each, turn) } };
      },
      onResponse: (status, _, { bucket, sentMs }, headers) => notes.add(bucket, sentMs, status, headers),
    }],
  });
}

async function runClients(clients: ClientsRun, stopped: Promise<unknown>): Promise<ClientsResult> {
  const notes = new Notes();
  const runs = CLASSES.map((each) => startClass(each, clients, notes));
  void stopped.then(() => runs.forEach((run) => run.stop()));
  const errors = (await Promise.all(runs)).reduce((sum, run) => sum + run.errors, 0);
  return { tallies: notes.tallies, wrong: notes.wrong, errors };
}

const main = parentPort!;
main.on("message", async (message: ToLoad) => {
  if (message === "stop") return;
  if ("race" in message) main.postMessage(await race(message.race));
  else main.postMessage(await runClients(message.clients, once(main, "message")));
});
