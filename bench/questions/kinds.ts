// Every kind of limiter beside the token bucket: on a hot key with each clock,
// and among a million keys. The targets are for the precise clock, the default:
// with the coarse one a hot token bucket takes 9 ns, and everything is a multiple
// of that.

import { type Limiter, perDay, Sluice } from "sluice";
import { draws, userId } from "../measure/addresses.js";
import { fill, singly } from "../measure/keyed.js";
import { askOneKey } from "../measure/loops.js";
import { interleave } from "../measure/rounds.js";
import { costRatio, ratioFigure, type Times, timeSamples } from "../measure/statistics.js";
import { barChart, type Case, type Found, type Question } from "../question.js";

// Every limiter is so generous that no call is refused here.
const PLENTY = 2 ** 31 - 1;
const DAY_MS = 86_400_000;
/** The sliding window counter's largest limit for a day. */
const MAX_A_DAY = 2 ** 23 - 1;
const bucket = { rate: perDay(1), burst: PLENTY };

/** What the other kinds are compared with. */
const REFERENCE = "tokenBucket";

interface Kind {
  /** Where a key's state is: in one word, or in a cache line of its own. */
  place: "word" | "line";
  make(sluice: Sluice, name: string): Limiter;
}

const kinds: Record<string, Kind> = {
  [REFERENCE]: { place: "word", make: (sluice, name) => sluice.tokenBucket(name, bucket) },
  "leakyBucket, meter": { place: "word", make: (sluice, name) => sluice.leakyBucket(name, bucket) },
  "leakyBucket, queue": { place: "word", make: (sluice, name) => sluice.leakyBucket(name, { ...bucket, queue: 100 }) },
  fixedWindow: {
    place: "word",
    make: (sluice, name) => sluice.fixedWindow(name, { limit: PLENTY, windowMs: DAY_MS }),
  },
  "slidingWindow, counter": {
    place: "word",
    make: (sluice, name) => sluice.slidingWindow(name, { limit: MAX_A_DAY, windowMs: DAY_MS }),
  },
  "slidingWindow, 10 slots": {
    place: "line",
    make: (sluice, name) => sluice.slidingWindow(name, { limit: PLENTY, windowMs: DAY_MS, slots: 10 }),
  },
  "tokenBucket, 2 limits": {
    place: "line",
    make: (sluice, name) => sluice.tokenBucket(name, { limits: [bucket, bucket] }),
  },
  // The next caller pays, so a cost must take no noticeable time.
  warmUp: { place: "line", make: (sluice, name) => sluice.warmUp(name, { rate: 3e9, warmupMs: 1 }) },
};
const names = Object.keys(kinds);
const lineKinds = Object.values(kinds).filter(({ place }) => place === "line").length;

const HOT_DECISIONS = 5000;
const DECISIONS = 8000;

/** Targets: a kind's cost as a multiple of the token bucket's. */
const maxCost = { word: 1.2, line: 3 };

const keysOf = (small: boolean): number => (small ? 2000 : 1_000_000);
const roundsOf = (small: boolean): number => (small ? 8 : 100);
const decisionsOf = (small: boolean): number => (small ? 1000 : DECISIONS);

function found(chart: string, times: Times, hasTargets: boolean): Found {
  const figures = names.filter((name) => name !== REFERENCE).map((name) => {
    const target = hasTargets ? { most: maxCost[kinds[name].place] } : {};
    return ratioFigure(`${name}, ${chart}: cost of ${REFERENCE}`, costRatio(times, name, REFERENCE), target);
  });
  return { samples: timeSamples(chart, times), figures };
}

const hot = (clock: "coarse" | "precise"): Case => async (small) => {
  const sluice = Sluice.create({ capacity: 1000, clock });
  const entrants = names.map((name) => {
    const key = kinds[name].make(sluice, name).key("hot");
    return {
      name,
      run: askOneKey(() => key.allow(), undefined, HOT_DECISIONS),
      // The sliding counter's limit is used up in a long run.
      isRight: (admitted: number) => admitted === HOT_DECISIONS || name !== REFERENCE,
    };
  });
  const times = await interleave(entrants, { rounds: 2 * roundsOf(small), decisions: HOT_DECISIONS });
  sluice.close();
  return found(`hot, ${clock}`, times, clock === "precise");
};

const million: Case = async (small) => {
  const keys = keysOf(small);
  const rounds = roundsOf(small);
  const decisions = decisionsOf(small);
  const sluice = Sluice.create({ capacity: names.length * keys, lineCapacity: lineKinds * keys, clock: "coarse" });
  const limiters = names.map((name) => kinds[name].make(sluice, name));
  await fill(limiters.map((limiter) => (key: number) => limiter.allow(key)), keys, userId);
  const work = { order: draws(3 * rounds * decisions, keys), keyOf: userId, decisions };
  const entrants = names.map((name, i) => singly(name, (key: number) => limiters[i].allow(key), work));
  const times = await interleave(entrants, { rounds, decisions });
  sluice.close();
  return found("million", times, true);
};

export const question: Question = {
  question: "What does each kind of limiter cost beside the token bucket?",
  size: (small) => {
    const onHot = `${2 * roundsOf(small)} rounds of ${HOT_DECISIONS} decisions each on a hot key`;
    const keys = keysOf(small).toLocaleString("en");
    return `${onHot}; ${roundsOf(small)} of ${decisionsOf(small)} among ${keys} numbers as keys, with the coarse clock`;
  },
  charts: [
    barChart("hot, precise", "A hot key, precise clock", "ns a decision"),
    barChart("hot, coarse", "A hot key, coarse clock", "ns a decision"),
    barChart("million", "A key out of many, beyond the caches", "ns a decision"),
  ],
  cases: { "hot, precise": hot("precise"), "hot, coarse": hot("coarse"), million },
  notMeasured: ["refusals", "several threads (threads)", "string keys, which cost the same in all kinds"],
};
