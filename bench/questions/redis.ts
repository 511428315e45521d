// What one decision in Redis costs: one round trip each, one after the other and
// with many under way. All entrants use the same server through the same client.

import { Redis } from "ioredis";
import { createClient, type RedisClientType } from "redis";
import { perMinute, perSecond, Sluice } from "sluice";
import { RedisSluice } from "sluice/redis";
import { type Entrant, interleave } from "../measure/rounds.js";
import { figure, quartiles, ratioFigure, sample, speedRatio, type Times } from "../measure/statistics.js";
import { barChart, type Case, type Question } from "../question.js";
import type { Sample } from "../report/run.js";
import { redisAbsent, startRedis } from "../rivals/redis-server.js";
import { type Client, overRedis } from "../rivals/redis.js";
import type { ClientLibrary } from "../rivals/rival.js";

const OURS = "sluice, token bucket";
const LEASED = "sluice, leased";
const IN_FLIGHT = 64;
const KEYS = Array.from({ length: 1000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
/** Never used up here. */
const PLENTY = 1_000_000_000;
/** Targets: decisions a second as a multiple of a rival's, and calls of Redis. */
const LEAST_SPEED = 1;
const LEAST_LEASED_SPEED = 50;
const MAX_LEASED_CALLS = 10_000;

interface Size {
  rounds: number;
  decisions: number;
  /** Decisions under way at a time. */
  width: number;
}

type Way = "serial" | "in-flight";

const sizes: Record<Way, (small: boolean) => Size> = {
  serial: (small) => ({ rounds: small ? 3 : 150, decisions: small ? 10 : 64, width: 1 }),
  "in-flight": (small) => ({ rounds: small ? 3 : 150, decisions: small ? 64 : 512, width: IN_FLIGHT }),
};

function connect(library: ClientLibrary, port: number): Promise<Client> {
  if (library === "ioredis") return Promise.resolve(new Redis({ host: "127.0.0.1", port }));
  const client: RedisClientType = createClient({ url: `redis://127.0.0.1:${port}` });
  return client.on("error", () => {}).connect();
}

/** Asks for a key: whether it is admitted, by Redis. */
type AskRedis = (key: string) => Promise<boolean>;
type NamedAsk = [name: string, ask: AskRedis];

/** Asks for the keys of a slot, `width` at a time. Resolves to how many were admitted. */
const askAll = (ask: AskRedis, { decisions, width }: Size) => async (slot: number): Promise<number> => {
  let next = slot * decisions;
  const end = next + decisions;
  let admitted = 0;
  const lane = async (): Promise<void> => {
    while (next < end) if (await ask(KEYS[next++ % KEYS.length])) admitted++;
  };
  await Promise.all(Array.from({ length: width }, lane));
  return admitted;
};

function asEntrant([name, ask]: NamedAsk, size: Size): Entrant {
  const isRight = (admitted: number): boolean => admitted === size.decisions;
  return { name, isAsync: true, run: askAll(ask, size), isRight };
}

function oursOver(client: Client): NamedAsk[] {
  const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 10_000 });
  const window = { limit: PLENTY, windowMs: 60_000 };
  const limiters = {
    [OURS]: redis.tokenBucket("bucket", { rate: perMinute(600), burst: PLENTY }),
    "sluice, fixed window": redis.fixedWindow("fixed", window),
    "sluice, sliding window": redis.slidingWindow("sliding", window),
  };
  return Object.entries(limiters).map(([name, limiter]) => [name, async (key) => {
    const { allowed, degraded } = await limiter.consume(key);
    return allowed && !degraded;
  }]);
}

function rivalsOver(client: Client, library: ClientLibrary): Promise<NamedAsk[]> {
  const able = overRedis.filter(({ clients }) => clients.includes(library));
  return Promise.all(able.map(async ({ name, make }): Promise<NamedAsk> => [name, await make(client, library)]));
}

function speedSamples(chart: string, times: Times): Sample[] {
  return [...times].map(([name, ns]) => sample(chart, name, null, "decisions/s", ns.map((each) => 1e9 / each)));
}

const measure = (library: ClientLibrary, way: Way): Case => async (small) => {
  const size = sizes[way](small);
  const client = await connect(library, await startRedis());
  const theirs = await rivalsOver(client, library);
  const entrants = [...oursOver(client), ...theirs].map((each) => asEntrant(each, size));
  const times = await interleave(entrants, size);
  return {
    samples: speedSamples(`${library}-${way}`, times),
    figures: theirs.map(([name]) => {
      const figureName = `${library}, ${way}: ${OURS}, decisions of ${name}`;
      return ratioFigure(figureName, speedRatio(times, OURS, name), { least: LEAST_SPEED });
    }),
  };
};

// --- leases ---------------------------------------------------------------------

const leasedSizes = (small: boolean): { decisions: number; seconds: number } => ({
  decisions: small ? 100_000 : 500_000,
  seconds: small ? 1 : 10,
});
const LEASED_KEYS = 100;
/** Leases arrive while the event loop turns, as it would between requests. */
const CALLS_A_TURN = 2000;

type LeasedLimiter = ReturnType<RedisSluice["leased"]>;

/**
 * As `askAll`, one after the other, most of them without a promise, and over fewer
 * keys: a lease is for keys that are asked for often.
 */
const askLeased = (limiter: LeasedLimiter, decisions: number) => async (slot: number): Promise<number> => {
  let admitted = 0;
  for (let next = slot * decisions; next < (slot + 1) * decisions; next++) {
    const key = KEYS[next % LEASED_KEYS];
    if (limiter.allow(key) || (await limiter.consume(key)).allowed) admitted++;
    if (next % CALLS_A_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  return admitted;
};

/** Scripts that Redis has run. */
async function scriptsRun(client: Redis): Promise<number> {
  const stats = await client.info("commandstats");
  return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Calls of Redis for a million decisions, second by second under a steady load. */
async function callsAMillion(limiter: LeasedLimiter, client: Redis, small: boolean): Promise<number[]> {
  const { decisions, seconds } = leasedSizes(small);
  const run = askLeased(limiter, decisions);
  const callsBySecond: number[] = [];
  for (let slot = 0; callsBySecond.length < seconds;) {
    const before = await scriptsRun(client);
    const startMs = performance.now();
    let made = 0;
    for (; performance.now() - startMs < 1000; slot++) made += await run(slot);
    callsBySecond.push(((await scriptsRun(client)) - before) / (made / 1e6));
  }
  return callsBySecond;
}

const leased: Case = async (small) => {
  const size = sizes["in-flight"](small);
  const { decisions } = leasedSizes(small);
  const client = (await connect("ioredis", await startRedis())) as Redis;
  const redis = RedisSluice.create({
    client,
    onFailure: "closed",
    deadlineMs: 250,
    local: Sluice.create({ capacity: 10_000 }),
  });
  const limiter = redis.leased("leased", { rate: perSecond(1_000_000), burst: PLENTY });
  const theirs = await rivalsOver(client, "ioredis");
  const own: Entrant = {
    name: LEASED,
    isAsync: true,
    run: askLeased(limiter, decisions),
    isRight: (admitted) => admitted === decisions,
    decisions,
  };
  const others = [...oursOver(client).slice(0, 1), ...theirs].map((each) => asEntrant(each, size));
  const times = await interleave([own, ...others], size);
  const calls = await callsAMillion(limiter, client, small);
  await redis.close();
  const speeds = theirs.map(([name]) =>
    ratioFigure(`${LEASED}, decisions of ${name}`, speedRatio(times, LEASED, name), { least: LEAST_LEASED_SPEED })
  );
  const callFigure = figure("calls of Redis for a million leased decisions", quartiles(calls), "", {
    most: MAX_LEASED_CALLS,
  });
  return {
    samples: [...speedSamples("leased", times), sample("leased-calls", LEASED, null, "calls", calls)],
    figures: [...speeds, callFigure],
  };
};

// --- the question ---------------------------------------------------------------

const libraries: ClientLibrary[] = ["ioredis", "node-redis"];
const ways: Way[] = ["serial", "in-flight"];
/** Empty without a server. */
const places = redisAbsent() ? [] : libraries.flatMap((library) => ways.map((way) => ({ library, way })));
const titles: Record<Way, string> = { serial: "one after the other", "in-flight": `${IN_FLIGHT} under way` };

export const question: Question = {
  question: "What does one decision in Redis cost?",
  size: (small) => {
    const { rounds, decisions } = sizes.serial(small);
    const many = `${sizes["in-flight"](small).decisions} with ${IN_FLIGHT} under way, over 1,000 keys`;
    const lease = `leased ${leasedSizes(small).decisions.toLocaleString("en")} a round, over ${LEASED_KEYS} keys`;
    return `${rounds} rounds of ${decisions} decisions one after the other, and of ${many}; ${lease}`;
  },
  charts: places.length === 0 ? [] : [
    ...places.map(({ library, way }) => {
      const title = `Decisions through ${library}, ${titles[way]}`;
      return barChart(`${library}-${way}`, title, "decisions a second", "linear", "higher");
    }),
    barChart(
      "leased",
      `Leased decisions, beside those of others with ${IN_FLIGHT} under way`,
      "decisions a second",
      "log",
      "higher",
    ),
    barChart("leased-calls", "Calls of Redis for a million leased decisions", "calls"),
  ],
  cases: {
    ...Object.fromEntries(places.map(({ library, way }) => [`${library}, ${way}`, measure(library, way)])),
    ...(places.length > 0 ? { leased } : {}),
  },
  notMeasured: [
    "a network: the server is on this machine and shares its cores with the client",
    "refusals: ours asks Redis for each, while others may remember them in the process for the rest of a window",
    "what others do when Redis is gone",
  ],
};
