// A batch reads the clock once and loads the sets of all its keys at once. From
// how many keys on does that pay, where the table is far larger than the caches?

import { Sluice } from "sluice";
import { address, draws } from "../addresses.js";
import { fill, inBatches, singly } from "../keyed.js";
import { interleave, ratioFigure, sample, speedRatio, WARM } from "../rounds.js";

const ALLOW = "allow";
/** Never used up here. */
const policy = { rate: 100, burst: 1_000_000 };
const sizes = [1, 4, 16, 64, 256, 1024, 4096];
/** Of which a figure is asked. */
const TYPICAL = 256;
const nameOf = (size) => `allowMany, ${size}`;

const roundsOf = (small) => (small ? 6 : 60);
const decisionsOf = (small) => (small ? 4096 : 8192);

const among = ({ keys, few, asked }) => async (small) => {
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
  const times = await interleave(entrants, { rounds, decisions, slots: WARM });
  sluice.close();
  const label = keys.toLocaleString("en");
  return {
    samples: sizes.flatMap((size) => [
      sample("sizes", `allowMany, ${label} keys`, size, "ns", times.get(nameOf(size))),
      // One by one, whatever the size: a line to compare with.
      sample("sizes", `allow, ${label} keys`, size, "ns", times.get(ALLOW)),
    ]),
    figures: [
      ratioFigure(
        `${nameOf(TYPICAL)}, ${label} random keys: decisions/s of allow`,
        speedRatio(times, nameOf(TYPICAL), ALLOW),
        asked,
      ),
    ],
  };
};

export const question = {
  question: "What does a batch save?",
  size: (small) =>
    `${roundsOf(small)} rounds of ${decisionsOf(small)} decisions each, precise clock${
      small ? "; among 3,000 and 10,000 keys instead" : ""
    }`,
  charts: [{
    id: "sizes",
    title: "A string key out of many, in batches",
    kind: "lines",
    x: { label: "keys a batch", scale: "log" },
    y: { label: "ns a decision", scale: "linear" },
    better: "lower",
  }],
  cases: {
    "1e6": among({ keys: 1e6, few: 3000 }),
    "1e7": among({ keys: 1e7, few: 10_000, asked: { least: 2 } }),
  },
  notMeasured: [
    "gathering keys into a batch, and what they wait for it",
    "the coarse clock, which leaves a batch less to save",
    "huge pages",
  ],
};
