/**
 * A worker of the gateway: an HTTP server that checks the limits of each request and
 * forwards those that may go ahead.
 *
 * Posts `{ port }` when it listens, and `{ counts }` of its calls to Redis. `Settings`
 * replace its configuration and table; "stop" ends it when the open requests are done.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import { Sluice, type SluiceHandle } from "sluice";
import { readBalancerLine } from "./balancer.js";
import type { Config } from "./config.js";
import { limitersOf, type Limits, limitsOf } from "./limits.js";
import { openUpstream, type OwnHeaders, type Upstream } from "./proxy.js";
import { type CountsByName, openRedis } from "./redis.js";
import type { Address } from "./sections.js";

export interface Settings {
  config: Config;
  handle: SluiceHandle;
}

export interface WorkerData extends Settings {
  listen: Address;
  /** Whether connections come from the balancer. */
  hasBalancer: boolean;
}

export type ToWorker = Settings | "stop";
export type FromWorker = { port: number } | { counts: CountsByName };

const main = parentPort!;
const { listen, hasBalancer, ...initial }: WorkerData = workerData;
const redis = initial.config.store && (await openRedis(initial.config.store, (counts) => {
  if (server.listening) post({ counts });
}));

/** What requests are served by; replaced as a whole on a reload. */
interface Service {
  config: Config;
  sluice: Sluice;
  limits: Limits;
  upstream: Upstream;
}

let service = serviceOf(initial);
let isStopping = false;

function serviceOf({ config, handle }: Settings): Service {
  // Attaching to the same table again returns the same Sluice.
  const sluice = Sluice.attach(handle);
  return {
    config,
    sluice,
    limits: limitsOf(limitersOf(config, sluice, redis), config),
    upstream: openUpstream(config.upstream),
  };
}

async function replaceService(settings: Settings): Promise<void> {
  const former = service;
  service = serviceOf(settings);
  // What was forwarded finishes with the former upstream, what is being decided with the former limits.
  void former.upstream.close();
  await former.limits.close();
  if (former.sluice !== service.sluice) former.sluice.close();
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  // A client that has disconnected has no address any more, and needs no answer.
  if (request.socket.remoteAddress === undefined) {
    response.destroy();
    return;
  }
  if (isStopping) {
    response.setHeader("connection", "close");
    response.once("finish", () => setImmediate(() => server.closeIdleConnections()));
  }
  // The upstream and the limits could read anything but a path in different ways.
  if (!request.url?.startsWith("/")) {
    response.writeHead(400, { "content-type": "text/plain" }).end("the request target expected a path\n");
    return;
  }
  const current = service;
  const { config, limits } = current;
  if (limits.auth && request.url === config.forwardAuth?.path && !limits.isStranger(request)) {
    limits.auth(request, response);
    return;
  }
  if (!(await limits.guard(request, response))) return;
  // The client may have disconnected while Redis was asked.
  if (response.destroyed) return;
  if (limits.isStranger(request)) {
    response.writeHead(401, { "content-type": "text/plain" }).end(
      `"${config.apiKeyHeader}" expected an API key that this gateway knows\n`,
    );
    return;
  }
  // Through the present upstream: a reload while Redis was asked has closed the former one.
  await service.upstream.forward(request, response, ownHeaders(request, current));
}

/** The headers that the gateway sets for the upstream, in place of the client's. */
function ownHeaders(request: IncomingMessage, { config, limits }: Service): OwnHeaders {
  const peer = request.socket.remoteAddress;
  return {
    // Only a trusted proxy's header is passed on; any other could be forged.
    "x-forwarded-for": limits.addressOf(request) === peer ? peer : `${request.headers["x-forwarded-for"]}, ${peer}`,
    forwarded: undefined,
    "x-forwarded-host": request.headers.host,
    "x-forwarded-proto": "http",
    "x-tenant": limits.tenantOf(request)?.name,
    host: undefined,
    [config.apiKeyHeader]: undefined,
  };
}

const server = createServer(serve);
if (hasBalancer) readBalancerLine(server);
server.listen({ ...listen, reusePort: !hasBalancer }, () => post({ port: (server.address() as AddressInfo).port }));

function stop(): void {
  isStopping = true;
  server.close(async () => {
    await Promise.all([service.upstream.close(), service.limits.close()]);
    redis?.close();
    service.sluice.close();
    main.close();
  });
  setTimeout(() => server.closeAllConnections(), service.config.drainMs).unref();
}

function post(message: FromWorker): void {
  main.postMessage(message);
}

main.on("message", (message: ToWorker) => {
  if (message === "stop") stop();
  else void replaceService(message);
});
