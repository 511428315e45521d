// What a limit in front of a handler adds to a request. In memory: real servers,
// whose connection is a stream in this process, so that neither a kernel nor a
// client weighs on the difference. Over TCP: under load from another process,
// by the processor time of the server's own. Node takes its time to send any two
// header fields; what a limit adds to that is its own cost.

import fastifyRateLimit from "@fastify/rate-limit";
import express from "express";
import { rateLimit } from "express-rate-limit";
import Fastify from "fastify";
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { perDay, Sluice } from "sluice";
import { limitExpress } from "sluice/http/express";
import { limitFastify } from "sluice/http/fastify";
import { clientAddress, limitHttp } from "sluice/http/node";
import { openConnection } from "../memory-connection.js";
import { costRatio, interleave, quartiles, ratioFigure, sample, WARM } from "../rounds.js";

const BARE = "node:http, bare";
const ONE = "node:http, one limit";
const CHANGING = "node:http, one limit, never the same left";
const TWO = "node:http, two limits";
const REFUSED = "node:http, refused";
const UNTOLD = "node:http, one limit, headers: 'none'";
const HEADERS = "node:http, no limit, two headers";
const LOAD = fileURLToPath(new URL("../http-load.js", import.meta.url));
/** Never used up here. */
const MOST = 2 ** 31 - 1;
/** Of a client that keeps well within it: what is left is nearly always the same. */
const AMPLE = { rate: 1e6, burst: 1000 };
const REQUESTS = 100;
const roundsOf = (small) => (small ? 10 : 400);
const tcpRoundsOf = (small) => (small ? 1 : 12);
const tcpRequestsOf = (small) => (small ? 500 : 10_000);

function makeLimits() {
  const sluice = Sluice.create({ capacity: 10_000 });
  const perClient = sluice.tokenBucket("client", AMPLE);
  const everybody = sluice.tokenBucket("everybody", AMPLE);
  const draining = sluice.tokenBucket("draining", { rate: perDay(1), burst: MOST });
  const nobody = sluice.tokenBucket("nobody", { rate: perDay(1), burst: 0 });
  const key = clientAddress();
  return {
    one: { limits: [{ limiter: perClient, key }] },
    two: { limits: [{ limiter: perClient, key }, { limiter: everybody }] },
    changing: { limits: [{ limiter: draining, key }] },
    none: { limits: [{ limiter: nobody, key }] },
    close: () => sluice.close(),
  };
}

const answer = (response) => response.end("ok");

function nodeServer(options) {
  if (!options) return createServer((_, response) => answer(response));
  const guard = limitHttp(options);
  return createServer((request, response) => {
    if (guard(request, response)) answer(response);
  });
}

function expressServer(...middleware) {
  const app = express();
  app.get("/", ...middleware, (_, response) => answer(response));
  return createServer(app);
}

async function fastifyServer(prepare) {
  const app = Fastify();
  await prepare?.(app);
  app.get("/", (_, reply) => {
    reply.send("ok");
  });
  await app.ready();
  return app.server;
}

/** Rounds over connections in memory, ns a request by name. All answer 200 but those in `refused`. */
function timeInMemory(servers, small, refused) {
  const entrants = Object.entries(servers).map(([name, server]) => {
    const ask = openConnection(server, name === refused ? 429 : 200);
    return { name, isAsync: true, run: () => ask(REQUESTS), isRight: (answered) => answered === REQUESTS };
  });
  return interleave(entrants, { rounds: roundsOf(small), decisions: REQUESTS, slots: WARM });
}

const memorySamples = (times) =>
  [...times].map(([name, ns]) => sample("memory", name, null, "µs", ns.map((each) => each / 1000)));

async function frameworks(small) {
  const limits = makeLimits();
  const times = await timeInMemory({
    "Express, bare": expressServer(),
    "Express, one limit": expressServer(limitExpress(limits.one)),
    "Express, express-rate-limit": expressServer(
      rateLimit({ windowMs: 86_400_000, limit: MOST, standardHeaders: "draft-8", legacyHeaders: false }),
    ),
    "Fastify, bare": await fastifyServer(),
    "Fastify, one limit": await fastifyServer((app) => app.addHook("onRequest", limitFastify(limits.one))),
    "Fastify, @fastify/rate-limit": await fastifyServer((app) =>
      app.register(fastifyRateLimit, { max: MOST, timeWindow: 86_400_000, enableDraftSpec: true })
    ),
  }, small);
  limits.close();
  return {
    samples: memorySamples(times),
    figures: [...times.keys()].filter((name) => !name.endsWith("bare")).map((name) => {
      const bare = `${name.split(",")[0]}, bare`;
      return ratioFigure(`${name}: cost of a request in memory, of that of ${bare}`, costRatio(times, name, bare));
    }),
  };
}

/** Starts the process of the clients: a function that makes requests to a port and resolves to requests a second. */
function startLoad() {
  const child = fork(LOAD);
  return {
    async ask(port, requests, status) {
      child.send({ port, requests, status });
      const [{ perSecond, wrong }] = await once(child, "message");
      if (wrong > 0) throw new Error(`${wrong} of ${requests} requests were not answered ${status}`);
      return perSecond;
    },
    stop: () => child.kill(),
  };
}

/** Requests a second, and µs of this process's time for a request, of each [name, server, status]. */
async function loadOverTcp(servers, small) {
  const load = startLoad();
  const requests = tcpRequestsOf(small);
  const found = new Map(servers.map(([name]) => [name, { speeds: [], costs: [] }]));
  for (const [, server] of servers) await once(server.listen(0, "127.0.0.1"), "listening");
  for (let round = small ? 0 : -2; round < tcpRoundsOf(small); round++) {
    for (let turn = 0; turn < servers.length; turn++) {
      const [name, server, status] = servers[(Math.max(0, round) + turn) % servers.length];
      const before = process.cpuUsage();
      const perSecond = await load.ask(server.address().port, requests, status);
      const { user, system } = process.cpuUsage(before);
      if (round < 0) continue;
      found.get(name).speeds.push(perSecond);
      found.get(name).costs.push((user + system) / requests);
    }
  }
  load.stop();
  for (const [, server] of servers) server.closeAllConnections();
  return found;
}

async function node(small) {
  const limits = makeLimits();
  const servers = {
    [BARE]: nodeServer(),
    [ONE]: nodeServer(limits.one),
    [CHANGING]: nodeServer(limits.changing),
    [TWO]: nodeServer(limits.two),
    [REFUSED]: nodeServer(limits.none),
    [UNTOLD]: nodeServer({ ...limits.one, headers: "none" }),
    [HEADERS]: createServer((_, response) => {
      response.setHeader("RateLimit-Policy", "\"client\";q=1000;w=1");
      response.setHeader("RateLimit", "\"client\";r=999;t=1");
      answer(response);
    }),
  };
  const times = await timeInMemory(servers, small, REFUSED);
  const loaded = await loadOverTcp([[BARE, servers[BARE], 200], [ONE, servers[ONE], 200], [
    REFUSED,
    servers[REFUSED],
    429,
  ]], small);
  limits.close();
  // In memory both are free of kernel and clients, so their difference is sharp; what it is a share of is a request as servers meet it.
  const requestNs = 1000 * quartiles(loaded.get(BARE).costs).median;
  const share = (name, than) =>
    quartiles(times.get(name).map((ns, round) => (ns - times.get(than)[round]) / requestNs));
  return {
    samples: [
      ...memorySamples(times),
      ...[...loaded].flatMap((
        [name, { speeds, costs }],
      ) => [sample("speed", name, null, "requests/s", speeds), sample("cost", name, null, "µs", costs)]),
    ],
    figures: [
      ratioFigure(
        "node:http, one limit: what it adds to two header fields, share of the server's time for a bare request over TCP",
        share(ONE, HEADERS),
        { most: 0.03 },
      ),
      ...[ONE, CHANGING, UNTOLD, HEADERS, TWO, REFUSED].map((name) =>
        ratioFigure(`${name}: what it adds, share of the server's time for a bare request over TCP`, share(name, BARE))
      ),
    ],
  };
}

const chart = (id, title, label, better) => ({
  id,
  title,
  kind: "bars",
  x: null,
  y: { label, scale: "linear" },
  better,
});

export const question = {
  question: "What does a limit add to a request?",
  size: (small) =>
    `${roundsOf(small)} rounds of ${REQUESTS} requests each, in memory; ${tcpRoundsOf(small)} of ${
      tcpRequestsOf(small).toLocaleString("en")
    }, over TCP`,
  charts: [
    chart("memory", "A request over a connection in memory", "µs a request", "lower"),
    chart("speed", "Requests over TCP, 50 connections", "requests/s", "higher"),
    chart("cost", "A request over TCP, by the server's processor time", "µs a request", "lower"),
  ],
  cases: { node, frameworks },
  notMeasured: [
    "keys and costs that the user's functions fetch",
    "clients behind proxies",
    "TLS and HTTP/2",
    "several threads on one port",
  ],
};
