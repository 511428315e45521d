// Every decision timed by itself, for what a mean hides: the slow ones. Each
// entrant has a process of its own, so that it meets its own garbage and nobody
// else's. Alone, and beside a thread that decides all the time: in the same
// table where there is one to share, else in one of its own.

import { createHistogram, performance } from "node:perf_hooks";
import { Piscina } from "piscina";
import { Sluice } from "sluice";
import { address, draws } from "../addresses.js";
import { fill } from "../keyed.js";
import { rivals } from "../rivals/index.js";
import { sample } from "../rounds.js";

const PERCENTILES = [50, 90, 99, 99.9, 99.99, 100];
const TIMER = "nothing: the timer alone";
const OURS = { coarse: "sluice allow, coarse clock", precise: "sluice allow, precise clock" };
const RIVALS = ["Map", "limiter", "rate-limiter-flexible", "express-rate-limit"];
const LIMITER = "latency";
/** Never used up here. */
const policy = { rate: 100, burst: 1_000_000 };
/** Decisions whose keys are laid ready at once, and whose times are kept until they are counted. */
const SLOT = 1000;

const countOf = (small) => (small ? 2_000 : 1_000_000);
const roundsOf = (small) => (small ? 2 : 10);
const decisionsOf = (small) => (small ? 10 : 100) * SLOT;

/** Times `ask` for each of `keys` by itself, ns. */
function timeEach(ask, keys, times) {
  let admitted = 0;
  for (let i = 0; i < keys.length; i++) {
    const startMs = performance.now();
    const answer = ask(keys[i]);
    times[i] = (performance.now() - startMs) * 1e6;
    if (answer) admitted++;
  }
  return admitted;
}

/** The same of a promise, until the code behind its `await` runs. */
async function timeEachPromise(ask, keys, times) {
  let admitted = 0;
  for (let i = 0; i < keys.length; i++) {
    const startMs = performance.now();
    const answer = await ask(keys[i]);
    times[i] = (performance.now() - startMs) * 1e6;
    if (answer) admitted++;
  }
  return admitted;
}

function makeOurs(clock, count) {
  const sluice = Sluice.create({ capacity: count, clock });
  const limiter = sluice.tokenBucket(LIMITER, policy);
  return { ask: (key) => limiter.allow(key), handle: sluice.handle, close: () => sluice.close() };
}

function makeRival(name, count) {
  const rival = rivals.find((each) => each.name === name);
  return { ...rival.make({ ...policy, capacity: count }), isAsync: rival.answers === "promise", rivalName: name };
}

/** Starts the other thread; resolves, once it decides, to what stops it. */
async function startNeighbour({ handle, rivalName }, count) {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const pool = new Piscina({
    filename: new URL("../latency-neighbour.js", import.meta.url).href,
    minThreads: 1,
    maxThreads: 1,
  });
  const task = pool.run({ handle, limiterName: LIMITER, rivalName, policy, count, words });
  await Promise.race([task, Atomics.waitAsync(words, 1, 0).value]);
  return async () => {
    Atomics.store(words, 0, 1);
    const decisions = await task;
    await pool.destroy();
    if (decisions === 0) throw new Error("the other thread decided nothing");
  };
}

const measure = (chart, name, make) => async (small) => {
  const count = countOf(small);
  const made = make(count);
  await fill([made.ask], made.ask === readNothing ? 0 : count, address);
  const stop = chart === "beside" ? await startNeighbour(made, count) : undefined;
  const order = draws(4 * decisionsOf(small), count);
  const keys = new Array(SLOT);
  const times = new Float64Array(SLOT);
  const time = made.isAsync ? timeEachPromise : timeEach;
  let at = 0;
  const slot = async (histogram) => {
    for (let i = 0; i < SLOT; i++) keys[i] = address(order[(at + i) % order.length]);
    at += SLOT;
    if ((await time(made.ask, keys, times)) !== SLOT) throw new Error(`${name}: refused what its limit admits`);
    for (const ns of times) histogram?.record(Math.max(1, Math.round(ns)));
  };
  for (let i = 0; i < decisionsOf(small) / SLOT / 2; i++) await slot();
  globalThis.gc();
  const rounds = [];
  for (let round = 0; round < roundsOf(small); round++) {
    const histogram = createHistogram({ lowest: 1, highest: 1e11, figures: 3 });
    for (let i = 0; i < decisionsOf(small); i += SLOT) await slot(histogram);
    rounds.push(histogram);
  }
  await stop?.();
  await made.close();
  return {
    samples: PERCENTILES.map((percentile) =>
      sample(
        chart,
        name,
        percentile,
        "ns",
        rounds.map((each) => (percentile === 100 ? each.max : each.percentile(percentile))),
      )
    ),
  };
};

const readNothing = () => true;

const entrants = {
  [TIMER]: () => ({ ask: readNothing, close() {} }),
  [OURS.coarse]: (count) => makeOurs("coarse", count),
  [OURS.precise]: (count) => makeOurs("precise", count),
  ...Object.fromEntries(RIVALS.map((name) => [name, (count) => makeRival(name, count)])),
};

const cases = (chart, names) =>
  Object.fromEntries(names.map((name) => [`${chart}, ${name}`, measure(chart, name, entrants[name])]));

const chart = (id, title) => ({
  id,
  title,
  kind: "percentiles",
  x: { label: "percentile", scale: "log" },
  y: { label: "ns, the timer's own included", scale: "log" },
  better: "lower",
});

export const question = {
  question: "How long can a single decision take?",
  size: (small) =>
    `${roundsOf(small)} rounds of ${decisionsOf(small).toLocaleString("en")} decisions, each timed by itself, among ${
      countOf(small).toLocaleString("en")
    } string keys`,
  charts: [
    chart("alone", "One decision, nobody else about"),
    chart("beside", "One decision, beside a thread that decides all the time"),
  ],
  cases: {
    ...cases("alone", Object.keys(entrants)),
    ...cases("beside", [OURS.coarse, OURS.precise, "Map", "rate-limiter-flexible"]),
  },
  figures(samples) {
    const at = (chart, series, x) =>
      samples.find((each) => each.chart === chart && each.series === series && each.x === x).median;
    return ["alone", "beside"].flatMap((chart) =>
      [50, 99.9].map((percentile) => (
        {
          name: `${chart}, percentile ${percentile}: ${OURS.coarse}, share of the Map's`,
          measured: at(chart, OURS.coarse, percentile) / at(chart, "Map", percentile),
          unit: " x",
        }
      ))
    );
  },
  notMeasured: [
    "the time until an event loop gets to the decision, which is where a server's latency comes from",
    "decisions that come in bursts: here the next one is asked when the last one is answered",
    "what is below the timer's own time: a reading of the clock before and after is in every value",
  ],
};
