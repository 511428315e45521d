// Strings out of ever more keys, until neither the strings nor the buckets are
// in the caches. All alike often, and few of them most of the time.

import { Sluice } from "sluice";
import { address, draws, zipfDraws } from "../addresses.js";
import { outsideSamples, quickest, withOutside } from "../before-and-after.js";
import { fill, inBatches, singly } from "../keyed.js";
import { bearing } from "../rivals/index.js";
import { interleave, quartiles, ratioFigure, sample, speedRatio, unpairedRatio, WARM } from "../rounds.js";
import { checkSamePolicy } from "../same-policy.js";

const BATCH = 256;
const ALLOW = "sluice allow";
const ALLOW_MANY = `sluice allowMany, ${BATCH}`;
/** Never used up here. */
const policy = { rate: 100, burst: 1_000_000 };
const CHECKED = 200;

const skews = [0, 0.99, 1.1];
const UNIFORM = skews[0];

const roundsOf = (small) => (small ? 8 : 40);
const decisionsOf = (small) => (small ? 4 : 32) * BATCH;

const outsideName = (each) => `${each.name}, ${each.case}`;

/** `keys` of a full run, `few` of a small one. `field` picks the rivals out of those that bear it; `beside` asks for the programs in other languages too. */
const among =
  ({ keys, few, clock, field, drawsOurs = true, beside = false, asked = {}, isSkewed = false }) => async (small) => {
    const count = small ? few : keys;
    const rounds = roundsOf(small);
    const decisions = decisionsOf(small);
    // Each round has a slot that is not timed, and as many at most warm up.
    const length = 3 * rounds * decisions;
    const sluice = Sluice.create({ capacity: count, clock });
    const limiter = sluice.tokenBucket("address", policy);
    const rivals = bearing({ keys: count, calls: length, callsAKey: isSkewed ? length : length / count }).filter(field);
    const made = rivals.map((rival) => ({ ...rival, ...rival.make({ ...policy, capacity: count }) }));
    await fill([(key) => limiter.allow(key), ...made.map(({ ask }) => ask)], count, address);

    const measure = (order) => {
      const work = { order, keyOf: address, decisions };
      const entrants = [
        singly(ALLOW, (key) => limiter.allow(key), work),
        inBatches(ALLOW_MANY, limiter, BATCH, work),
        ...made.map(({ name, ask, answers }) => singly(name, ask, work, answers === "promise")),
      ];
      return interleave(entrants, { rounds, decisions, slots: WARM });
    };
    // Ours is measured beside each rival that has a process to itself, and drawn once.
    const isDrawn = (name) => drawsOurs || made.some((each) => each.name === name);
    const samplesOf = (chart, x, times) =>
      [...times].filter(([name]) => isDrawn(name)).map(([name, ns]) => sample(chart, name, x, "ns", ns));

    const order = draws(length, count);
    const { ours: times, theirs } = beside && (!small || isSkewed)
      ? await withOutside("keys", { rounds, decisions, keys: count, order }, small, () => measure(order))
      : { ours: await measure(order), theirs: [] };
    const samples = [...samplesOf(clock, keys, times), ...outsideSamples(clock, keys, theirs, outsideName)];
    if (isSkewed) samples.push(...samplesOf("skew", UNIFORM, times));
    for (const s of isSkewed ? skews.slice(1) : []) {
      samples.push(...samplesOf("skew", s, await measure(zipfDraws(length, count, s))));
    }
    sluice.close();
    await checkSamePolicy(rivals, Array.from({ length: CHECKED }, (_, i) => address(i)), clock);

    const label = `${keys.toLocaleString("en")} keys, ${clock} clock: decisions/s of`;
    // What is asked is asked beside the quickest of those that read a clock, as we do.
    const best = rivals.filter(({ readsClock }) => readsClock)
      .map(({ name }) => ({ name, ns: quartiles(times.get(name)).median }))
      .reduce((a, b) => (a && a.ns <= b.ns ? a : b), undefined)?.name;
    const figure = (name, asked) => ratioFigure(`${name}, ${label} ${best}`, speedRatio(times, name, best), asked);
    const figures = best === undefined ? [] : [figure(ALLOW, asked.allow), figure(ALLOW_MANY, asked.allowMany)];
    const go = quickest(theirs, ({ name }) => name.startsWith("Go"));
    if (go) {
      for (const name of [ALLOW, ALLOW_MANY]) {
        figures.push(
          ratioFigure(
            `${name}, ${label} Go's limiters in a map`,
            unpairedRatio(go, quartiles(times.get(name))),
            name === ALLOW ? asked.go : {},
          ),
        );
      }
    }
    return { samples, figures };
  };

/** Those whose ten million buckets leave the garbage collector time for anything else. */
const hardy = ["Map"];
const isMap = ({ name }) => name === "Map";

const medium = { asked: { allow: { least: 1.3 } } };
const large = { asked: { allow: { least: 3 }, allowMany: { least: 5 } } };
const huge = { asked: { allow: { least: 4 } } };

/** All rivals in one process, while they leave each other room in the caches. */
const together = (options) => among({ clock: "coarse", field: () => true, ...options });

/**
 * Where a rival's buckets fill the heap, each has a process to itself: beside
 * nine other heaps the Map took 1.7 times as long.
 */
const apart = (keys, few, names, options) =>
  names.map((
    name,
  ) => [
    `${keys} keys, ${name}`,
    among({
      keys,
      few,
      clock: "coarse",
      field: (rival) => rival.name === name,
      drawsOurs: name === "Map",
      ...options(name),
    }),
  ]);

const precise = (keys, few) => [`${keys} keys, precise`, among({ keys, few, clock: "precise", field: isMap })];

const chart = (id, title, x) => ({
  id,
  title,
  kind: "lines",
  x,
  y: { label: "ns a decision", scale: "log" },
  better: "lower",
});

export const question = {
  question: "What does a decision cost by the key, among a thousand to ten million keys?",
  size: (small) =>
    `${roundsOf(small)} rounds of ${decisionsOf(small)} decisions each${
      small ? "; among a hundred to ten thousand keys instead" : ""
    }`,
  charts: [
    chart("coarse", "A string key out of many; our coarse clock", { label: "keys", scale: "log" }),
    chart("precise", "A string key out of many; our precise clock", { label: "keys", scale: "log" }),
    chart("skew", "A string key out of 1,000,000, by Zipf's law; our coarse clock", {
      label: "s; 0: all alike often",
      scale: "linear",
    }),
  ],
  cases: {
    "1000 keys": together({ keys: 1e3, few: 100 }),
    "10000 keys": together({ keys: 1e4, few: 300, beside: true, ...medium }),
    "100000 keys": together({ keys: 1e5, few: 1000, beside: true, field: ({ bears }) => bears === undefined }),
    ...Object.fromEntries([
      ...apart(
        1e6,
        3000,
        bearing({ keys: 1e6, calls: 1e7, callsAKey: 30 }).map(({ name }) => name),
        (name) => (name === "Map"
          ? { ...large, asked: { ...large.asked, go: { least: 4 } }, beside: true, isSkewed: true }
          : large),
      ),
      ...apart(1e7, 10_000, hardy, () => huge),
      precise(1e4, 300),
      precise(1e5, 1000),
      precise(1e6, 3000),
    ]),
  },
  notMeasured: [
    "making the string, which comes from a socket or a parser",
    "long keys and keys beyond Latin-1",
    "garbage collection beyond what falls into the slots: many buckets of a rival lengthen pauses elsewhere too",
    "bottleneck, sharedmap and @nestjs/throttler among so many keys that each decision takes 20 µs or more",
    "our precise clock among 10,000,000 keys",
    "huge pages",
  ],
};
