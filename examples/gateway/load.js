/**
 * The demo's clients, by autocannon, in a thread of their own. Told
 * `{ race: { url, apiKey, ms } }`, it asks as fast as it can and posts
 * `{ perSecond, statuses }`. Told `{ clients: { url, seconds } }`, it lets every
 * class ask at its pace and posts `{ tallies, wrong, errors }`, earlier if it is
 * told 'stop' meanwhile.
 */
import autocannon from "autocannon";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { parentPort } from "node:worker_threads";
import { apiKey, bucketOf, CLASSES } from "./classes.js";
import { newTally } from "./verdict.js";

/** Of a race. */
const CONNECTIONS = 32;
/** More than any run: autocannon wants to know, but it is told when to stop. */
const FOREVER_SECONDS = 86_400;

async function race({ url, apiKey: key, ms }) {
  let statuses = {};
  const run = autocannon({
    url,
    connections: CONNECTIONS,
    duration: FOREVER_SECONDS,
    sampleInt: 50,
    headers: { "x-api-key": key },
  });
  run.on("response", (client, status) => (statuses[status] = (statuses[status] ?? 0) + 1));
  // Counts from when the connections are open.
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

async function runClients({ url, seconds }, stopped) {
  const tallies = new Map();
  let wrong = 0;

  /** Notes an answer; anything but a 200 or a 429 from the limit that is expected is wrong. */
  function note(bucket, sentMs, status, headers) {
    const nowMs = performance.now();
    if (!tallies.has(bucket.id)) tallies.set(bucket.id, newTally());
    const tally = tallies.get(bucket.id);
    const [, policy, remaining] = /^"(.*)";r=(\d+)/.exec(headers.RateLimit) ?? [];
    if (policy !== bucket.policy || (status !== 200 && status !== 429)) wrong++;
    tally.requested++;
    if (status === 429) {
      tally.lastRefusedMs = Math.max(tally.lastRefusedMs, sentMs);
    } else {
      tally.admitted++;
      tally.firstAdmittedMs = Math.min(tally.firstAdmittedMs, sentMs);
      tally.lastAdmittedMs = nowMs;
      if (Number(remaining) === bucket.burst - 1) tally.lastFullMs = nowMs;
    }
  }

  const runs = CLASSES.map((each) => {
    let i = 0;
    return autocannon({
      url: url + each.path,
      connections: each.connections,
      overallRate: each.asks,
      // It ends when all is answered: what was asked is known to the last request.
      amount: Math.ceil(each.asks * seconds),
      requests: [{
        setupRequest(request, context) {
          const turn = Math.floor(i++ / each.turn);
          context.bucket = bucketOf(each, turn);
          context.sentMs = performance.now();
          return { ...request, headers: { "x-api-key": apiKey(each, turn) } };
        },
        onResponse: (status, body, { bucket, sentMs }, headers) => note(bucket, sentMs, status, headers),
      }],
    });
  });
  stopped.then(() => runs.forEach((run) => run.stop()));
  const errors = (await Promise.all(runs)).reduce((sum, run) => sum + run.errors, 0);
  return { tallies, wrong, errors };
}

parentPort.on("message", async (message) => {
  if (message.race) parentPort.postMessage(await race(message.race));
  if (message.clients) parentPort.postMessage(await runClients(message.clients, once(parentPort, "message")));
});
