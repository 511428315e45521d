/**
 * The gateway: its table, its workers behind one port, and the port on which it
 * tells how it is. Workers that die are replaced.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { Counter, Registry } from "prom-client";
import { Sluice } from "sluice";
import { registerMetrics } from "sluice/metrics";
import { CAN_SHARE_PORT, openBalancer } from "./balancer.js";
import { checkReload } from "./config.js";
import { policiesOf } from "./limits.js";

/** Between a worker's death and the start of the next, so that one that cannot live does not keep the gateway busy. */
const RESTART_MS = 200;

/**
 * Starts a gateway; resolves once all its workers listen.
 * @param {import('./config.js').Config} config
 * @param {(message: string) => void} log
 */
export async function openGateway(config, log) {
  /** Has the buckets; with a store in Redis, what is decided or leased in its place. */
  let sluice = Sluice.create({ capacity: config.capacity });
  const definePolicies = config.store ? () => {} : policiesOf(sluice);
  definePolicies(config);
  const registry = new Registry();
  const count = config.store ? redisCounters(registry) : undefined;
  if (!config.store) registerMetrics(sluice, { registry });

  /** The port of each worker that listens. @type {Map<Worker, number>} */
  const workers = new Map();
  const balancer = CAN_SHARE_PORT ? undefined : await openBalancer(config.listen);
  let port = balancer?.port ?? config.listen.port;
  let isStopping = false;

  async function start() {
    const listen = balancer ? { host: "127.0.0.1", port: 0 } : { host: config.listen.host, port };
    const worker = new Worker(new URL("./worker.js", import.meta.url), {
      workerData: { handle: sluice.handle, config, listen, hasBalancer: balancer !== undefined },
    });
    const started = config;
    const ended = once(worker, "exit").then(() => {
      throw new Error("it ended before it listened");
    });
    const [message] = await Promise.race([once(worker, "message"), ended]);
    ended.catch(() => {});
    workers.set(worker, message.port);
    // What it missed while it started.
    if (isStopping) worker.postMessage("stop");
    if (started !== config) worker.postMessage({ config, handle: sluice.handle });
    worker.on("message", ({ counts }) => count(counts));
    balancer?.spreadOver([...workers.values()]);
    worker.on("error", (error) => log(`worker ${worker.threadId} failed: ${error.stack}`));
    worker.once("exit", () => {
      workers.delete(worker);
      balancer?.spreadOver([...workers.values()]);
      if (!isStopping) replace();
    });
    return message.port;
  }

  async function replace() {
    log(`a worker died, ${workers.size} go on; another one takes its place`);
    for (;;) {
      await sleep(RESTART_MS);
      if (isStopping) return;
      try {
        await start();
        return;
      } catch (error) {
        log(`a worker could not start: ${error.message}`);
      }
    }
  }

  // The first one settles which port it is, if it was 0.
  const first = await start();
  port = balancer?.port ?? first;
  await Promise.all(Array.from({ length: config.workers - 1 }, start));
  const admin = config.admin && (await openAdmin(config.admin, registry, () => !isStopping && workers.size > 0));

  return {
    port,
    adminPort: admin?.address().port,
    get sluice() {
      return sluice;
    },
    workers,
    /** Goes on with another configuration; throws, and changes nothing, if that takes a restart. */
    reload(wanted) {
      checkReload(config, wanted);
      definePolicies(wanted);
      config = wanted;
      if (config.store) {
        // A table's limits are what they were defined with: the workers go over to a new one, and give back what they leased into this one.
        sluice.close();
        sluice = Sluice.create({ capacity: config.capacity });
      }
      for (const worker of workers.keys()) worker.postMessage({ config, handle: sluice.handle });
    },
    /** Takes no more connections, lets open requests finish for `drainMs`, and ends. */
    async close() {
      isStopping = true;
      balancer?.stop();
      const ended = [...workers.keys()].map((worker) => once(worker, "exit"));
      for (const worker of workers.keys()) worker.postMessage("stop");
      await Promise.all(ended);
      balancer?.cut();
      admin?.close();
      sluice.close();
    },
  };
}

/** Metrics of what the workers ask Redis, named as a table's; returns what adds to them. */
function redisCounters(registry) {
  const counter = (name, help) =>
    new Counter({ name: `sluice_${name}_total`, help, labelNames: ["table", "limiter"], registers: [registry] });
  const counters = {
    allowed: counter("allowed", "Calls admitted."),
    denied: counter("denied", "Calls refused."),
    degraded: counter("degraded", "Calls among these that were decided without Redis."),
  };
  /** @param {[name: string, import('./redis.js').Counts][]} counts */
  return (counts) => {
    for (const [limiter, counted] of counts) {
      for (const [name, calls] of Object.entries(counted)) counters[name].inc({ table: "redis", limiter }, calls);
    }
  };
}

/** Where the gateway tells how it is: /health and /metrics. */
async function openAdmin(listen, registry, isReady) {
  const server = createServer(async (request, response) => {
    if (request.url === "/health") response.writeHead(isReady() ? 200 : 503).end(isReady() ? "ready\n" : "not ready\n");
    else if (request.url === "/metrics") {
      response.writeHead(200, { "content-type": registry.contentType }).end(await registry.metrics());
    } else response.writeHead(404).end();
  });
  server.listen(listen);
  await once(server, "listening");
  return server;
}
