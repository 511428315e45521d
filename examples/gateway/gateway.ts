/** The gateway: its table, its policies, its workers, and the admin port with /health and /metrics. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Worker } from "node:worker_threads";
import { Counter, Registry } from "prom-client";
import { Sluice } from "sluice";
import { registerMetrics } from "sluice/metrics";
import { checkReload, type Config } from "./config.js";
import { policiesOf } from "./limits.js";
import type { CountsByName } from "./redis.js";
import type { Address } from "./sections.js";
import { Workers } from "./workers.js";

export interface Gateway {
  readonly port: number;
  readonly adminPort: number | undefined;
  /** The table; with a store in Redis, the one that decides, or holds leases, in place of Redis. */
  readonly sluice: Sluice;
  /** The workers that listen, each with its port. */
  readonly workers: ReadonlyMap<Worker, number>;
  /** Puts another configuration in force. Throws, and changes nothing, if that takes a restart. */
  reload(wanted: Config): void;
  /** Accepts no more connections, lets open requests finish for `drainMs`, and ends. */
  close(): Promise<void>;
}

/** Starts a gateway; resolves when all its workers listen. */
export async function openGateway(config: Config, log: (message: string) => void): Promise<Gateway> {
  let running = config;
  let sluice = Sluice.create({ capacity: config.capacity });
  const definePolicies = config.store ? () => {} : policiesOf(sluice);
  definePolicies(config);
  const registry = new Registry();
  const onCounts = config.store ? redisCounters(registry) : () => {};
  if (!config.store) registerMetrics(sluice, { registry });

  const workers = await Workers.open({ config, handle: sluice.handle }, { log, onCounts });
  const admin = config.admin && (await openAdmin(config.admin, registry, () => workers.isReady));

  return {
    port: workers.port,
    adminPort: admin && (admin.address() as AddressInfo).port,
    get sluice() {
      return sluice;
    },
    workers: workers.ports,
    reload(wanted) {
      checkReload(running, wanted);
      definePolicies(wanted);
      running = wanted;
      if (running.store) {
        // Limiters in Redis define their policies with fixed limits in the table, so new limits need a new table.
        // The workers move to it, and return what they leased into the old one.
        sluice.close();
        sluice = Sluice.create({ capacity: running.capacity });
      }
      workers.update({ config: running, handle: sluice.handle });
    },
    async close() {
      await workers.stop();
      admin?.close();
      sluice.close();
    },
  };
}

/** Adds counters of the workers' calls to Redis, named as a table's; returns the function that increments them. */
function redisCounters(registry: Registry): (counts: CountsByName) => void {
  const counter = (name: string, help: string) =>
    new Counter({ name: `sluice_${name}_total`, help, labelNames: ["table", "limiter"], registers: [registry] });
  const counters = {
    allowed: counter("allowed", "Calls admitted."),
    denied: counter("denied", "Calls refused."),
    degraded: counter("degraded", "Calls among these that were decided without Redis."),
  };
  return (counts) => {
    for (const [limiter, { allowed, denied, degraded }] of counts) {
      counters.allowed.inc({ table: "redis", limiter }, allowed);
      counters.denied.inc({ table: "redis", limiter }, denied);
      counters.degraded.inc({ table: "redis", limiter }, degraded);
    }
  };
}

/** Serves /health and /metrics. */
async function openAdmin(listen: Address, registry: Registry, isReady: () => boolean): Promise<Server> {
  const server = createServer(async (request, response) => {
    if (request.url === "/health") {
      const ready = isReady();
      response.writeHead(ready ? 200 : 503).end(ready ? "ready\n" : "not ready\n");
    } else if (request.url === "/metrics") {
      response.writeHead(200, { "content-type": registry.contentType }).end(await registry.metrics());
    } else response.writeHead(404).end();
  });
  server.listen(listen);
  await once(server, "listening");
  return server;
}
