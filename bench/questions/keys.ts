// Strings out of ever more keys, until neither the strings nor the buckets are in
// the caches. Every key equally often, and a few of them most of the time.

import { type Limiter, Sluice } from "sluice";
import { address, draws, zipfDraws } from "../measure/addresses.js";
import { type OutsideRun, outsideSamples, quickest, withOutside } from "../measure/before-and-after.js";
import { fill, inBatches, singly } from "../measure/keyed.js";
import { interleave } from "../measure/rounds.js";
import { checkSamePolicy } from "../measure/same-policy.js";
import { quartiles, ratioFigure, sample, speedRatio, type Times, unpairedRatio } from "../measure/statistics.js";
import { type Case, lineChart, type Question } from "../question.js";
import type { Axis, Chart, Figure, Sample, Target } from "../report/run.js";
import { withinLimits } from "../rivals/index.js";
import type { MadeRival, Rival } from "../rivals/rival.js";

const BATCH = 256;
const ALLOW = "sluice allow";
const ALLOW_MANY = `sluice allowMany, ${BATCH}`;
/** Never used up here. */
const policy = { rate: 100, burst: 1_000_000 };
const CHECKED = 200;

/** Exponents of Zipf's law. */
const skews = [0, 0.99, 1.1];
const UNIFORM = skews[0];

const roundsOf = (small: boolean): number => (small ? 8 : 40);
const decisionsOf = (small: boolean): number => (small ? 4 : 32) * BATCH;
/** Draws of a run: each round has an untimed slot too, and the warm-up takes at most as many as the rounds. */
const lengthOf = (small: boolean): number => 3 * roundsOf(small) * decisionsOf(small);

/** Decisions a second as a multiple of the rivals' that read a clock, and of Go's. */
interface Targets {
  allow?: Target;
  allowMany?: Target;
  go?: Target;
}

interface Options {
  keys: number;
  /** Keys of a small run. */
  few: number;
  clock: "coarse" | "precise";
  /** Picks rivals out of those that can take this many keys. */
  field(rival: Rival): boolean;
  /** Ours is measured beside each rival that has a process to itself, and shown once. */
  showsOurs?: boolean;
  /** Measures the programs in other languages too. */
  beside?: boolean;
  targets?: Targets;
  isSkewed?: boolean;
}

type NamedRival = Rival & MadeRival;

function measureOrder(order: Uint32Array, limiter: Limiter, made: NamedRival[], small: boolean): Promise<Times> {
  const work = { order, keyOf: address, decisions: decisionsOf(small) };
  const entrants = [
    singly(ALLOW, (key: string) => limiter.allow(key), work),
    inBatches(ALLOW_MANY, limiter, BATCH, work),
    ...made.map(({ name, ask, answers }) => singly(name, ask, work, answers === "promise")),
  ];
  return interleave(entrants, { rounds: roundsOf(small), decisions: decisionsOf(small) });
}

/**
 * Ours against the quickest rival that reads a clock, as a time-based limiter
 * must, and against the rivals that read none. Targets apply to the former.
 */
function rivalFigures({ keys, clock, targets = {} }: Options, rivals: Rival[], times: Times): Figure[] {
  const label = `${keys.toLocaleString("en")} keys, ${clock} clock: decisions/s of`;
  const medianOf = ({ name }: Rival): number => quartiles(times.get(name)!).median;
  const best = rivals.filter(({ readsClock }) => readsClock).sort((a, b) => medianOf(a) - medianOf(b)).slice(0, 1);
  return [...best, ...rivals.filter(({ readsClock }) => !readsClock)].flatMap(({ name, readsClock }) => {
    const rival = readsClock ? name : `${name}, which reads no clock`;
    const figure = (ours: string, target?: Target): Figure =>
      ratioFigure(`${ours}, ${label} ${rival}`, speedRatio(times, ours, name), readsClock ? target : {});
    return [figure(ALLOW, targets.allow), figure(ALLOW_MANY, targets.allowMany)];
  });
}

function goFigures({ keys, clock, targets = {} }: Options, { ours, theirs }: OutsideRun<Times>): Figure[] {
  const go = quickest(theirs.filter(({ name }) => name.startsWith("Go")));
  if (go === undefined) return [];
  const label = `${keys.toLocaleString("en")} keys, ${clock} clock: decisions/s of Go's limiters in a map`;
  return [ALLOW, ALLOW_MANY].map((name) =>
    ratioFigure(
      `${name}, ${label}`,
      unpairedRatio(go, quartiles(ours.get(name)!)),
      name === ALLOW ? targets.go : {},
    )
  );
}

const among = (options: Options): Case => async (small) => {
  const { keys, few, clock, field, showsOurs = true, beside = false, isSkewed = false } = options;
  const count = small ? few : keys;
  const length = lengthOf(small);
  const sluice = Sluice.create({ capacity: count, clock });
  const limiter = sluice.tokenBucket("address", policy);
  const rivals = withinLimits({ keys: count, calls: length, callsAKey: isSkewed ? length : length / count })
    .filter(field);
  const made = rivals.map((rival) => ({ ...rival, ...rival.make({ ...policy, capacity: count }) }));
  await fill([(key: string) => limiter.allow(key), ...made.map(({ ask }) => ask)], count, address);

  const isShown = (name: string): boolean => showsOurs || made.some((each) => each.name === name);
  const samplesOf = (chart: string, x: number, times: Times): Sample[] =>
    [...times].filter(([name]) => isShown(name)).map(([name, ns]) => sample(chart, name, x, "ns", ns));

  const order = draws(length, count);
  const measureOurs = (): Promise<Times> => measureOrder(order, limiter, made, small);
  const scope = { rounds: roundsOf(small), decisions: decisionsOf(small), keys: count, order };
  const found = beside && (!small || isSkewed)
    ? await withOutside("keys", scope, small, measureOurs)
    : { ours: await measureOurs(), theirs: [] };
  const samples = [
    ...samplesOf(clock, keys, found.ours),
    ...outsideSamples(clock, keys, found.theirs, (each) => `${each.name}, ${each.case}`),
  ];
  if (isSkewed) {
    samples.push(...samplesOf("skew", UNIFORM, found.ours));
    for (const s of skews.slice(1)) {
      samples.push(...samplesOf("skew", s, await measureOrder(zipfDraws(length, count, s), limiter, made, small)));
    }
  }
  sluice.close();
  await checkSamePolicy(rivals, Array.from({ length: CHECKED }, (_, i) => address(i)), clock);
  return { samples, figures: [...rivalFigures(options, rivals, found.ours), ...goFigures(options, found)] };
};

const isMap = ({ name }: Rival): boolean => name === "Map";

const medium: Targets = { allow: { least: 1.3 } };
const large: Targets = { allow: { least: 3 }, allowMany: { least: 5 } };
const huge: Targets = { allow: { least: 4 } };

/** All rivals in one process, while they leave each other room in the caches. */
const together = (options: Pick<Options, "keys" | "few"> & Partial<Options>): Case =>
  among({ clock: "coarse", field: () => true, ...options });

type Cases = Record<string, Case>;

/**
 * Where a rival's buckets fill the heap, each has a process to itself: beside nine
 * other heaps the Map took 1.7 times as long.
 */
function apart(keys: number, few: number, names: string[], optionsFor: (name: string) => Partial<Options>): Cases {
  const caseOf = (name: string): Case =>
    together({ keys, few, field: (rival) => rival.name === name, showsOurs: name === "Map", ...optionsFor(name) });
  return Object.fromEntries(names.map((name) => [`${keys} keys, ${name}`, caseOf(name)]));
}

function precise(keys: number, few: number): Cases {
  return { [`${keys} keys, precise`]: among({ keys, few, clock: "precise", field: isMap }) };
}

const millionRivals = withinLimits({ keys: 1e6, calls: 1e7, callsAKey: 30 }).map(({ name }) => name);
/** Rivals whose ten million buckets leave the garbage collector time for anything else. */
const hardy = ["Map"];

const chart = (id: string, title: string, x: Axis): Chart =>
  lineChart(id, title, x, { label: "ns a decision", scale: "log" });

export const question: Question = {
  question: "What does a decision cost by the key, among a thousand to ten million keys?",
  size: (small) => {
    const instead = small ? "; among a hundred to ten thousand keys instead" : "";
    return `${roundsOf(small)} rounds of ${decisionsOf(small)} decisions each${instead}`;
  },
  charts: [
    chart("coarse", "A string key out of many; our coarse clock", { label: "keys", scale: "log" }),
    chart("precise", "A string key out of many; our precise clock", { label: "keys", scale: "log" }),
    chart("skew", "A string key out of 1,000,000, by Zipf's law; our coarse clock", {
      label: "s; 0: all equally often",
      scale: "linear",
    }),
  ],
  cases: {
    "1000 keys": together({ keys: 1e3, few: 100 }),
    "10000 keys": together({ keys: 1e4, few: 300, beside: true, targets: medium }),
    "100000 keys": together({ keys: 1e5, few: 1000, beside: true, field: ({ limits }) => limits === undefined }),
    ...apart(1e6, 3000, millionRivals, (name) =>
      name === "Map"
        ? { targets: { ...large, go: { least: 4 } }, beside: true, isSkewed: true }
        : { targets: large }),
    ...apart(1e7, 10_000, hardy, () => ({ targets: huge })),
    ...precise(1e4, 300),
    ...precise(1e5, 1000),
    ...precise(1e6, 3000),
  },
  notMeasured: [
    "making the string, which comes from a socket or a parser",
    "long keys and keys beyond Latin-1",
    "garbage collection outside the slots: many buckets of a rival lengthen pauses elsewhere too",
    "bottleneck, sharedmap and @nestjs/throttler among so many keys that each decision takes 20 µs or more",
    "our precise clock among 10,000,000 keys",
    "huge pages",
  ],
};
