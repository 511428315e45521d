// A batch reads the clock once and loads the sets of all its keys at once. From
// what size on does that pay, in a table far larger than the caches?

import { Sluice } from "sluice";
import { address, draws } from "../measure/addresses.js";
import { fill, inBatches, singly } from "../measure/keyed.js";
import { interleave } from "../measure/rounds.js";
import { ratioFigure, sample, speedRatio } from "../measure/statistics.js";
import { type Case, lineChart, type Question } from "../question.js";
import type { Target } from "../report/run.js";

const ALLOW = "allow";
/** Never used up here. */
const policy = { rate: 100, burst: 1_000_000 };
const sizes = [1, 4, 16, 64, 256, 1024, 4096];
/** The size that the figures are about. */
const TYPICAL = 256;
const nameOf = (size: number): string => `allowMany, ${size}`;

const roundsOf = (small: boolean): number => (small ? 6 : 60);
const decisionsOf = (small: boolean): number => (small ? 4096 : 8192);

interface Options {
  keys: number;
  /** Keys of a small run. */
  few: number;
  target?: Target;
}

const among = ({ keys, few, target }: Options): Case => async (small) => {
  const count = small ? few : keys;
  const rounds = roundsOf(small);
  const decisions = decisionsOf(small);
  const sluice = Sluice.create({ capacity: count });
  const limiter = sluice.tokenBucket("address", policy);
  await fill([(key) => limiter.allow(key)], count, address);
  const work = { order: draws(3 * rounds * decisions, count), keyOf: address, decisions };
  const entrants = [
    singly(ALLOW, (key) => limiter.allow(key), work),
    ...sizes.map((size) => inBatches(nameOf(size), limiter, size, work)),
  ];
  const times = await interleave(entrants, { rounds, decisions });
  sluice.close();
  const label = keys.toLocaleString("en");
  const figureName = `${nameOf(TYPICAL)}, ${label} random keys: decisions/s of allow`;
  return {
    samples: sizes.flatMap((size) => [
      sample("sizes", `allowMany, ${label} keys`, size, "ns", times.get(nameOf(size))!),
      // One by one, whatever the size: a line to compare with.
      sample("sizes", `allow, ${label} keys`, size, "ns", times.get(ALLOW)!),
    ]),
    figures: [ratioFigure(figureName, speedRatio(times, nameOf(TYPICAL), ALLOW), target)],
  };
};

const x = { label: "keys a batch", scale: "log" } as const;
const y = { label: "ns a decision", scale: "linear" } as const;

export const question: Question = {
  question: "What does a batch save?",
  size: (small) => {
    const instead = small ? "; among 3,000 and 10,000 keys instead" : "";
    return `${roundsOf(small)} rounds of ${decisionsOf(small)} decisions each, precise clock${instead}`;
  },
  charts: [lineChart("sizes", "A string key out of many, in batches", x, y)],
  cases: {
    "1e6": among({ keys: 1e6, few: 3000 }),
    "1e7": among({ keys: 1e7, few: 10_000, target: { least: 2 } }),
  },
  notMeasured: [
    "gathering keys into a batch, and the wait for it",
    "the coarse clock, with which a batch saves less",
    "huge pages",
  ],
};
