// What a limit in front of a handler adds to a request. In memory: real servers
// whose connection is a stream in this process, so neither a kernel nor a client
// blurs the difference. Over TCP: under load from another process, by the
// processor time of the server's own process. Node needs time to send any two
// header fields; what a limit adds to that is its own cost.

import fastifyRateLimit from "@fastify/rate-limit";
import express, { type RequestHandler } from "express";
import { rateLimit } from "express-rate-limit";
import Fastify, { type FastifyInstance } from "fastify";
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { perDay, Sluice } from "sluice";
import { limitExpress } from "sluice/http/express";
import { limitFastify } from "sluice/http/fastify";
import { clientAddress, limitHttp } from "sluice/http/node";
import { openConnection } from "../measure/memory-connection.js";
import { interleave } from "../measure/rounds.js";
import { costRatio, type Quartiles, quartiles, ratioFigure, sample, type Times } from "../measure/statistics.js";
import { barChart, type Case, type Question } from "../question.js";
import type { Sample } from "../report/run.js";
import type { LoadResult, LoadTask } from "../workers/http-load.js";

const BARE = "node:http, bare";
const ONE = "node:http, one limit";
const CHANGING = "node:http, one limit, never the same left";
const TWO = "node:http, two limits";
const REFUSED = "node:http, refused";
const WITHOUT_HEADERS = "node:http, one limit, headers: 'none'";
const HEADERS = "node:http, no limit, two headers";
/** Target: what one limit adds, as a share of a bare request over TCP. */
const MAX_SHARE = 0.03;

const loadProgram = fileURLToPath(new URL("../workers/http-load.js", import.meta.url));
/** Never used up here. */
const PLENTY = 2 ** 31 - 1;
/** Of a client that stays well within its limit: what is left is nearly always the same. */
const AMPLE = { rate: 1e6, burst: 1000 };
const REQUESTS = 100;
const roundsOf = (small: boolean): number => (small ? 10 : 400);
const tcpRoundsOf = (small: boolean): number => (small ? 1 : 12);
const tcpRequestsOf = (small: boolean): number => (small ? 500 : 10_000);

function makeLimits() {
  const sluice = Sluice.create({ capacity: 10_000 });
  const perClient = sluice.tokenBucket("client", AMPLE);
  const everybody = sluice.tokenBucket("everybody", AMPLE);
  const draining = sluice.tokenBucket("draining", { rate: perDay(1), burst: PLENTY });
  const nothing = sluice.tokenBucket("nothing", { rate: perDay(1), burst: 0 });
  const key = clientAddress();
  return {
    one: { limits: [{ limiter: perClient, key }] },
    two: { limits: [{ limiter: perClient, key }, { limiter: everybody }] },
    changing: { limits: [{ limiter: draining, key }] },
    none: { limits: [{ limiter: nothing, key }] },
    close: () => sluice.close(),
  };
}

type HttpOptions = Parameters<typeof limitHttp>[0];

const answer = (response: ServerResponse): unknown => response.end("ok");

function nodeServer(options: HttpOptions): Server {
  const guard = limitHttp(options);
  return createServer((request, response) => {
    if (guard(request, response)) answer(response);
  });
}

function expressServer(...middleware: RequestHandler[]): Server {
  const app = express();
  app.get("/", ...middleware, (_, response) => void answer(response));
  return createServer(app);
}

async function fastifyServer(prepare?: (app: FastifyInstance) => unknown): Promise<Server> {
  const app = Fastify();
  await prepare?.(app);
  app.get("/", (_, reply) => {
    reply.send("ok");
  });
  await app.ready();
  return app.server;
}

/** Rounds over connections in memory. All servers answer 200, except the one named `refused`. */
function timeInMemory(servers: Record<string, Server>, small: boolean, refused?: string): Promise<Times> {
  const entrants = Object.entries(servers).map(([name, server]) => {
    const ask = openConnection(server, name === refused ? 429 : 200);
    return { name, isAsync: true, run: () => ask(REQUESTS), isRight: (answered: number) => answered === REQUESTS };
  });
  return interleave(entrants, { rounds: roundsOf(small), decisions: REQUESTS });
}

function memorySamples(times: Times): Sample[] {
  return [...times].map(([name, ns]) => sample("memory", name, null, "µs", ns.map((each) => each / 1000)));
}

const frameworks: Case = async (small) => {
  const limits = makeLimits();
  const times = await timeInMemory({
    "Express, bare": expressServer(),
    "Express, one limit": expressServer(limitExpress(limits.one) as RequestHandler),
    "Express, express-rate-limit": expressServer(
      rateLimit({ windowMs: 86_400_000, limit: PLENTY, standardHeaders: "draft-8", legacyHeaders: false }),
    ),
    "Fastify, bare": await fastifyServer(),
    "Fastify, one limit": await fastifyServer((app) => app.addHook("onRequest", limitFastify(limits.one))),
    "Fastify, @fastify/rate-limit": await fastifyServer((app) =>
      app.register(fastifyRateLimit, { max: PLENTY, timeWindow: 86_400_000, enableDraftSpec: true })
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
};

interface Load {
  /** Makes requests to a port; resolves to requests a second. */
  ask(task: LoadTask): Promise<number>;
  stop(): unknown;
}

/** Starts the process of the clients. */
function startLoad(): Load {
  const child = fork(loadProgram);
  return {
    async ask(task) {
      child.send(task);
      const [{ perSecond, wrong }] = (await once(child, "message")) as [LoadResult];
      if (wrong > 0) throw new Error(`${wrong} of ${task.requests} requests were not answered ${task.status}`);
      return perSecond;
    },
    stop: () => child.kill(),
  };
}

interface Listener {
  name: string;
  server: Server;
  status: number;
}

/** Requests a second, and µs of this process's time for a request, by name. */
type Loaded = Map<string, { speeds: number[]; costs: number[] }>;

async function loadOverTcp(listeners: Listener[], small: boolean): Promise<Loaded> {
  const load = startLoad();
  const requests = tcpRequestsOf(small);
  const found: Loaded = new Map(listeners.map(({ name }) => [name, { speeds: [], costs: [] }]));
  for (const { server } of listeners) await once(server.listen(0, "127.0.0.1"), "listening");
  // Rounds below 0 are to warm up.
  for (let round = small ? 0 : -2; round < tcpRoundsOf(small); round++) {
    for (let turn = 0; turn < listeners.length; turn++) {
      const { name, server, status } = listeners[(Math.max(0, round) + turn) % listeners.length];
      const before = process.cpuUsage();
      const perSecond = await load.ask({ port: (server.address() as AddressInfo).port, requests, status });
      const { user, system } = process.cpuUsage(before);
      if (round < 0) continue;
      found.get(name)!.speeds.push(perSecond);
      found.get(name)!.costs.push((user + system) / requests);
    }
  }
  load.stop();
  for (const { server } of listeners) server.closeAllConnections();
  return found;
}

function nodeServers(limits: ReturnType<typeof makeLimits>): Record<string, Server> {
  return {
    [BARE]: createServer((_, response) => answer(response)),
    [ONE]: nodeServer(limits.one),
    [CHANGING]: nodeServer(limits.changing),
    [TWO]: nodeServer(limits.two),
    [REFUSED]: nodeServer(limits.none),
    [WITHOUT_HEADERS]: nodeServer({ ...limits.one, headers: "none" }),
    [HEADERS]: createServer((_, response) => {
      response.setHeader("RateLimit-Policy", "\"client\";q=1000;w=1");
      response.setHeader("RateLimit", "\"client\";r=999;t=1");
      answer(response);
    }),
  };
}

const node: Case = async (small) => {
  const limits = makeLimits();
  const servers = nodeServers(limits);
  const times = await timeInMemory(servers, small, REFUSED);
  const overTcp = [BARE, ONE, REFUSED].map((name) => ({
    name,
    server: servers[name],
    status: name === REFUSED ? 429 : 200,
  }));
  const loaded = await loadOverTcp(overTcp, small);
  limits.close();
  // In memory a difference is sharp, since neither kernel nor clients blur it. It is
  // given as a share of a request as servers see it.
  const requestNs = 1000 * quartiles(loaded.get(BARE)!.costs).median;
  const share = (name: string, reference: string): Quartiles => {
    const others = times.get(reference)!;
    return quartiles(times.get(name)!.map((ns, round) => (ns - others[round]) / requestNs));
  };
  const what = "share of the server's time for a bare request over TCP";
  const added = [ONE, CHANGING, WITHOUT_HEADERS, HEADERS, TWO, REFUSED].map((name) =>
    ratioFigure(`${name}: what it adds, ${what}`, share(name, BARE))
  );
  return {
    samples: [
      ...memorySamples(times),
      ...[...loaded].flatMap(([name, { speeds, costs }]) => [
        sample("speed", name, null, "requests/s", speeds),
        sample("cost", name, null, "µs", costs),
      ]),
    ],
    figures: [
      ratioFigure(`${ONE}: what it adds to two header fields, ${what}`, share(ONE, HEADERS), { most: MAX_SHARE }),
      ...added,
    ],
  };
};

export const question: Question = {
  question: "What does a limit add to a request?",
  size: (small) => {
    const overTcp = `${tcpRoundsOf(small)} of ${tcpRequestsOf(small).toLocaleString("en")}, over TCP`;
    return `${roundsOf(small)} rounds of ${REQUESTS} requests each, in memory; ${overTcp}`;
  },
  charts: [
    barChart("memory", "A request over a connection in memory", "µs a request"),
    barChart("speed", "Requests over TCP, 50 connections", "requests/s", "linear", "higher"),
    barChart("cost", "A request over TCP, by the server's processor time", "µs a request"),
  ],
  cases: { node, frameworks },
  notMeasured: [
    "keys and costs that the user's functions look up",
    "clients behind proxies",
    "TLS and HTTP/2",
    "several threads on one port",
  ],
};
