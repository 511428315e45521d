// Every decision timed by itself, for what a mean hides: the slow ones. Each
// entrant has a process of its own, so it meets its own garbage only. Alone, and
// beside a thread that decides all the time: in the same table where one can be
// shared, otherwise in one of its own.

import { createHistogram, performance, type RecordableHistogram } from "node:perf_hooks";
import { Piscina } from "piscina";
import { Sluice, type SluiceHandle } from "sluice";
import { address, draws } from "../measure/addresses.js";
import { fill } from "../measure/keyed.js";
import { sample } from "../measure/statistics.js";
import { type Case, type Question } from "../question.js";
import type { Chart, Sample } from "../report/run.js";
import { rivals } from "../rivals/index.js";
import type { Ask, MadeRival } from "../rivals/rival.js";
import { type Neighbour, STARTED, STOP } from "../workers/latency-neighbour.js";

const PERCENTILES = [50, 90, 99, 99.9, 99.99, 100];
const TIMER = "nothing: the timer alone";
const OURS = { coarse: "sluice allow, coarse clock", precise: "sluice allow, precise clock" };
const RIVALS = ["Map", "limiter", "rate-limiter-flexible", "express-rate-limit"];
const LIMITER = "latency";
/** Never used up here. */
const policy = { rate: 100, burst: 1_000_000 };
/** Decisions whose keys are made at once, and whose times are kept until they are counted. */
const SLOT = 1000;

const countOf = (small: boolean): number => (small ? 2_000 : 1_000_000);
const roundsOf = (small: boolean): number => (small ? 2 : 10);
const decisionsOf = (small: boolean): number => (small ? 10 : 100) * SLOT;

/** Times `ask` for each key by itself, in ns. Returns how many were admitted. */
function timeEach(ask: Ask, keys: string[], times: Float64Array): number {
  let admitted = 0;
  for (let i = 0; i < keys.length; i++) {
    const startMs = performance.now();
    const answer = ask(keys[i]);
    times[i] = (performance.now() - startMs) * 1e6;
    if (answer) admitted++;
  }
  return admitted;
}

/** The same for a promise, until the code behind its `await` runs. */
async function timeEachPromise(ask: Ask, keys: string[], times: Float64Array): Promise<number> {
  let admitted = 0;
  for (let i = 0; i < keys.length; i++) {
    const startMs = performance.now();
    const answer = await ask(keys[i]);
    times[i] = (performance.now() - startMs) * 1e6;
    if (answer) admitted++;
  }
  return admitted;
}

interface Made extends MadeRival {
  isAsync?: boolean;
  handle?: SluiceHandle;
  rivalName?: string;
}

type Make = (count: number) => Made;

const makeOurs = (clock: keyof typeof OURS): Make => (count) => {
  const sluice = Sluice.create({ capacity: count, clock });
  const limiter = sluice.tokenBucket(LIMITER, policy);
  return { ask: (key) => limiter.allow(key), handle: sluice.handle, close: () => sluice.close() };
};

const makeRival = (name: string): Make => (count) => {
  const rival = rivals.find((each) => each.name === name)!;
  return { ...rival.make({ ...policy, capacity: count }), isAsync: rival.answers === "promise", rivalName: name };
};

const entrants: Record<string, Make> = {
  [TIMER]: () => ({ ask: () => true, close() {} }),
  [OURS.coarse]: makeOurs("coarse"),
  [OURS.precise]: makeOurs("precise"),
  ...Object.fromEntries(RIVALS.map((name) => [name, makeRival(name)])),
};

/** Starts the other thread. Resolves, once it decides, to a function that stops it. */
async function startNeighbour({ handle, rivalName }: Made, count: number): Promise<() => Promise<void>> {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const pool = new Piscina<Neighbour, number>({
    filename: new URL("../workers/latency-neighbour.js", import.meta.url).href,
    minThreads: 1,
    maxThreads: 1,
  });
  const task = pool.run({ handle, limiterName: LIMITER, rivalName, policy, count, words });
  await Promise.race([task, Atomics.waitAsync(words, STARTED, 0).value]);
  return async () => {
    Atomics.store(words, STOP, 1);
    const decisions = await task;
    await pool.destroy();
    if (decisions === 0) throw new Error("the other thread decided nothing");
  };
}

const measure = (chart: string, name: string): Case => async (small) => {
  const count = countOf(small);
  const made = entrants[name](count);
  await fill([made.ask], name === TIMER ? 0 : count, address);
  const stop = chart === "beside" ? await startNeighbour(made, count) : undefined;
  const order = draws(4 * decisionsOf(small), count);
  const keys = new Array<string>(SLOT);
  const times = new Float64Array(SLOT);
  const time = made.isAsync ? timeEachPromise : timeEach;
  let at = 0;
  const slot = async (histogram?: RecordableHistogram): Promise<void> => {
    for (let i = 0; i < SLOT; i++) keys[i] = address(order[(at + i) % order.length]);
    at += SLOT;
    if ((await time(made.ask, keys, times)) !== SLOT) throw new Error(`${name}: refused what its limit admits`);
    for (const ns of times) histogram?.record(Math.max(1, Math.round(ns)));
  };
  for (let i = 0; i < decisionsOf(small) / SLOT / 2; i++) await slot();
  globalThis.gc!();
  const rounds: RecordableHistogram[] = [];
  for (let round = 0; round < roundsOf(small); round++) {
    const histogram = createHistogram({ lowest: 1, highest: 1e11, figures: 3 });
    for (let i = 0; i < decisionsOf(small); i += SLOT) await slot(histogram);
    rounds.push(histogram);
  }
  await stop?.();
  await made.close();
  const percentileOf = (each: RecordableHistogram, percentile: number): number =>
    percentile === 100 ? each.max : each.percentile(percentile);
  const samples: Sample[] = PERCENTILES.map((percentile) =>
    sample(chart, name, percentile, "ns", rounds.map((each) => percentileOf(each, percentile)))
  );
  return { samples };
};

function cases(chart: string, names: string[]): Record<string, Case> {
  return Object.fromEntries(names.map((name) => [`${chart}, ${name}`, measure(chart, name)]));
}

const chart = (id: string, title: string): Chart => ({
  id,
  title,
  kind: "percentiles",
  x: { label: "percentile", scale: "log" },
  y: { label: "ns, the timer's own included", scale: "log" },
  better: "lower",
});

export const question: Question = {
  question: "How long can a single decision take?",
  size: (small) => {
    const decisions = decisionsOf(small).toLocaleString("en");
    const keys = countOf(small).toLocaleString("en");
    return `${roundsOf(small)} rounds of ${decisions} decisions, each timed by itself, among ${keys} string keys`;
  },
  charts: [
    chart("alone", "One decision, no other thread"),
    chart("beside", "One decision, beside a thread that decides all the time"),
  ],
  cases: {
    ...cases("alone", Object.keys(entrants)),
    ...cases("beside", [OURS.coarse, OURS.precise, "Map", "rate-limiter-flexible"]),
  },
  figures(samples) {
    const at = (chart: string, series: string, x: number): number =>
      samples.find((each) => each.chart === chart && each.series === series && each.x === x)!.median;
    return ["alone", "beside"].flatMap((chart) =>
      [50, 99.9].map((percentile) => ({
        name: `${chart}, percentile ${percentile}: ${OURS.coarse}, share of the Map's`,
        measured: at(chart, OURS.coarse, percentile) / at(chart, "Map", percentile),
        unit: " x",
      }))
    );
  },
  notMeasured: [
    "the time until an event loop gets to the decision, which is where a server's latency comes from",
    "decisions that come in bursts: here the next one is asked when the last one is answered",
    "what is below the timer's own time: a reading of the clock before and after is in every value",
  ],
};
