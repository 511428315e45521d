/**
 * One worker of the gateway: an HTTP server that asks the limits about every
 * request and passes on those that may go ahead.
 *
 * Posts `{ port }` once it listens, and `{ counts }` of what it asked Redis. Told
 * `{ config, handle }`, it goes on with that configuration and that table; told
 * 'stop', it ends once what is open is done.
 */
import { createServer } from "node:http";
import { parentPort, workerData } from "node:worker_threads";
import { Sluice } from "sluice";
import { nodeReader } from "sluice/http/node";
import { behindBalancer } from "./balancer.js";
import { limitersOf, limitsOf } from "./limits.js";
import { openUpstream } from "./proxy.js";
import { openRedis } from "./redis.js";

const { listen, hasBalancer } = workerData;
const redis = workerData.config.store && (await openRedis(workerData.config.store, (counts) => {
  if (server.listening) parentPort.postMessage({ counts });
}));

/** @type {Sluice} */
let sluice;
/** @type {import('./config.js').Config} */
let config;
/** @type {ReturnType<typeof limitsOf>} */
let limits;
/** @type {ReturnType<typeof openUpstream>} */
let upstream;
let isStopping = false;

function use(wanted) {
  const former = { upstream, limits, sluice };
  // The same one, if it is attached to it already.
  sluice = Sluice.attach(wanted.handle);
  config = wanted.config;
  limits = limitsOf(limitersOf(config, sluice, redis), config);
  upstream = openUpstream(config.upstream);
  // They let open requests finish.
  former.upstream?.close();
  former.limits?.close().then(() => {
    if (former.sluice !== sluice) former.sluice.close();
  });
}

/** @type {import('node:http').RequestListener} */
async function serve(request, response) {
  // Of a client that has hung up the address is not known any more, and nobody waits for an answer.
  if (request.socket.remoteAddress === undefined) {
    response.destroy();
    return;
  }
  if (isStopping) {
    response.setHeader("connection", "close");
    response.once("finish", () => setImmediate(() => server.closeIdleConnections()));
  }
  // What is no path could mean one to the upstream and another to the limits.
  if (!request.url.startsWith("/")) {
    response.writeHead(400, { "content-type": "text/plain" }).end("the request target expected a path\n");
    return;
  }
  const { guard, auth, isStranger, tenantOf, addressOf } = limits;
  if (auth && request.url === config.forwardAuth.path && !isStranger(request)) {
    auth(request, response);
    return;
  }
  if (!(await guard(request, response))) return;
  if (isStranger(request)) {
    response.writeHead(401, { "content-type": "text/plain" }).end(
      `"${config.apiKeyHeader}" expected an API key that this gateway knows\n`,
    );
    return;
  }
  const peer = request.socket.remoteAddress;
  const client = addressOf(request, nodeReader);
  upstream.forward(request, response, {
    // Whoever is not one of our proxies may have made up what it says.
    "x-forwarded-for": client === peer ? peer : `${request.headers["x-forwarded-for"]}, ${peer}`,
    forwarded: undefined,
    "x-forwarded-host": request.headers.host,
    "x-forwarded-proto": "http",
    "x-tenant": tenantOf(request)?.name,
    host: undefined,
    [config.apiKeyHeader]: undefined,
  });
}

const server = createServer(serve);
if (hasBalancer) behindBalancer(server);
use(workerData);
server.listen({ ...listen, reusePort: !hasBalancer }, () => parentPort.postMessage({ port: server.address().port }));

function stop() {
  isStopping = true;
  server.close(async () => {
    await Promise.all([upstream.close(), limits.close()]);
    redis?.close();
    sluice.close();
    parentPort.close();
  });
  setTimeout(() => server.closeAllConnections(), config.drainMs).unref();
}

parentPort.on("message", (message) => (message === "stop" ? stop() : use(message)));
