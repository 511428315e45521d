// What one decision in Redis costs: one round trip each, one after the other and
// with many under way. Everybody asks the same server through the same client.

import { Redis } from "ioredis";
import { createClient } from "redis";
import { perMinute, perSecond, Sluice } from "sluice";
import { RedisSluice } from "sluice/redis";
import { redisAbsent, startRedis } from "../redis-server.js";
import { overRedis } from "../rivals/redis.js";
import { interleave, quartiles, ratioFigure, sample, speedRatio, WARM } from "../rounds.js";

const OURS = "sluice, token bucket";
const LEASED = "sluice, leased";
const IN_FLIGHT = 64;
const KEYS = Array.from({ length: 1000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
/** Never used up here. */
const MOST = 1_000_000_000;
const sizes = {
  serial: (small) => ({ rounds: small ? 3 : 150, decisions: small ? 10 : 64, width: 1 }),
  "in-flight": (small) => ({ rounds: small ? 3 : 150, decisions: small ? 64 : 512, width: IN_FLIGHT }),
};

const connect = {
  ioredis: async (port) => new Redis({ host: "127.0.0.1", port }),
  "node-redis": (port) => createClient({ url: `redis://127.0.0.1:${port}` }).on("error", () => {}).connect(),
};

/** Asks for as many keys, so many at a time: how many were admitted. */
const askAll = (ask, decisions, width) => async (slot) => {
  let next = slot * decisions;
  const end = next + decisions;
  let admitted = 0;
  const lane = async () => {
    while (next < end) if (await ask(KEYS[next++ % KEYS.length])) admitted++;
  };
  await Promise.all(Array.from({ length: width }, lane));
  return admitted;
};

function oursOver(client) {
  const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 10_000 });
  const limits = { limit: MOST, windowMs: 60_000 };
  const limiters = {
    [OURS]: redis.tokenBucket("bucket", { rate: perMinute(600), burst: MOST }),
    "sluice, fixed window": redis.fixedWindow("fixed", limits),
    "sluice, sliding window": redis.slidingWindow("sliding", limits),
  };
  return Object.entries(limiters).map(([name, limiter]) => [name, async (key) => {
    const { allowed, degraded } = await limiter.consume(key);
    return allowed && !degraded;
  }]);
}

const measure = (library, chart) => async (small) => {
  const { rounds, decisions, width } = sizes[chart](small);
  const client = await connect[library](await startRedis());
  const theirs = await Promise.all(
    overRedis.filter(({ clients }) => clients.includes(library)).map(async (
      { name, make },
    ) => [name, await make(client, library)]),
  );
  const asks = [...oursOver(client), ...theirs];
  const times = await interleave(
    asks.map(([name, ask]) => ({
      name,
      isAsync: true,
      run: askAll(ask, decisions, width),
      isRight: (admitted) => admitted === decisions,
    })),
    { rounds, decisions, slots: WARM },
  );
  return {
    samples: [...times].map(([name, ns]) =>
      sample(`${library}-${chart}`, name, null, "decisions/s", ns.map((each) => 1e9 / each))
    ),
    figures: theirs.map(([name]) =>
      ratioFigure(`${library}, ${chart}: ${OURS}, decisions of ${name}`, speedRatio(times, OURS, name), { least: 1 })
    ),
  };
};

const leasedSizes = (small) => ({ decisions: small ? 100_000 : 500_000, seconds: small ? 1 : 10 });
const LEASED_KEYS = 100;
/** Leases come in while the loop turns, as it would between requests. */
const CALLS_A_TURN = 2000;

/** As `askAll`, one after the other, most of them without a promise, and over fewer keys: a lease is for keys that are asked for often. */
const askLeased = (limiter, decisions) => async (slot) => {
  let admitted = 0;
  for (let next = slot * decisions; next < (slot + 1) * decisions; next++) {
    const key = KEYS[next % LEASED_KEYS];
    if (limiter.allow(key) || (await limiter.consume(key)).allowed) admitted++;
    if (next % CALLS_A_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  return admitted;
};

/** Scripts that Redis has run. */
async function scriptsRun(client) {
  return [...(await client.info("commandstats")).matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );
}

/** Calls of Redis for a million decisions, second by second under a steady load. */
async function callsAMillion(limiter, client, decisions, seconds) {
  const run = askLeased(limiter, decisions);
  const callsBySecond = [];
  for (let slot = 0; callsBySecond.length < seconds;) {
    const before = await scriptsRun(client);
    const startMs = performance.now();
    let made = 0;
    for (; performance.now() - startMs < 1000; slot++) made += await run(slot);
    callsBySecond.push(((await scriptsRun(client)) - before) / (made / 1e6));
  }
  return callsBySecond;
}

async function measureLeased(small) {
  const { rounds, decisions: theirDecisions, width } = sizes["in-flight"](small);
  const { decisions, seconds } = leasedSizes(small);
  const client = await connect.ioredis(await startRedis());
  const redis = RedisSluice.create({
    client,
    onFailure: "closed",
    deadlineMs: 250,
    local: Sluice.create({ capacity: 10_000 }),
  });
  const limiter = redis.leased("leased", { rate: perSecond(1_000_000), burst: MOST });
  const theirs = await Promise.all(overRedis.map(async ({ name, make }) => [name, await make(client, "ioredis")]));
  const times = await interleave(
    [
      {
        name: LEASED,
        isAsync: true,
        run: askLeased(limiter, decisions),
        isRight: (admitted) => admitted === decisions,
        decisions,
      },
      ...[...oursOver(client).slice(0, 1), ...theirs].map(([name, ask]) => ({
        name,
        isAsync: true,
        run: askAll(ask, theirDecisions, width),
        isRight: (admitted) => admitted === theirDecisions,
      })),
    ],
    { rounds, decisions: theirDecisions, slots: WARM },
  );
  const calls = await callsAMillion(limiter, client, decisions, seconds);
  const { lower, median, upper } = quartiles(calls);
  await redis.close();
  return {
    samples: [
      ...[...times].map(([name, ns]) => sample("leased", name, null, "decisions/s", ns.map((each) => 1e9 / each))),
      sample("leased-calls", LEASED, null, "calls", calls),
    ],
    figures: [
      ...theirs.map(([name]) =>
        ratioFigure(`${LEASED}, decisions of ${name}`, speedRatio(times, LEASED, name), { least: 50 })
      ),
      {
        name: "calls of Redis for a million leased decisions",
        measured: median,
        spread: { lower, upper },
        unit: "",
        most: 10_000,
      },
    ],
  };
}

/** Without a server there is nothing to ask. */
const places = redisAbsent()
  ? []
  : Object.keys(connect).flatMap((library) => Object.keys(sizes).map((chart) => [library, chart]));
const titles = { serial: "one after the other", "in-flight": `${IN_FLIGHT} under way` };

export const question = {
  question: "What does one decision in Redis cost?",
  size: (small) =>
    `${sizes.serial(small).rounds} rounds of ${sizes.serial(small).decisions} decisions one after the other, and of ${
      sizes["in-flight"](small).decisions
    } with ${IN_FLIGHT} under way, over 1,000 keys; leased ${
      leasedSizes(small).decisions.toLocaleString("en")
    } a round, over ${LEASED_KEYS} keys`,
  charts: places.length === 0 ? [] : [
    ...places.map(([library, chart]) => ({
      id: `${library}-${chart}`,
      title: `Decisions through ${library}, ${titles[chart]}`,
      kind: "bars",
      x: null,
      y: { label: "decisions a second", scale: "linear" },
      better: "higher",
    })),
    {
      id: "leased",
      title: `Leased decisions, beside those of others with ${IN_FLIGHT} under way`,
      kind: "bars",
      x: null,
      y: { label: "decisions a second", scale: "log" },
      better: "higher",
    },
    {
      id: "leased-calls",
      title: "Calls of Redis for a million leased decisions",
      kind: "bars",
      x: null,
      y: { label: "calls", scale: "linear" },
      better: "lower",
    },
  ],
  cases: {
    ...Object.fromEntries(places.map(([library, chart]) => [`${library}, ${chart}`, measure(library, chart)])),
    ...(places.length > 0 && { leased: measureLeased }),
  },
  notMeasured: [
    "a network: the server is on this machine, and takes turns with the client on its cores",
    "refusals: ours asks Redis for each, where others may remember them in the process for the rest of a window",
    "what others do about a Redis that is gone",
  ],
};
