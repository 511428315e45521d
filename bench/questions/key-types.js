// The same decision for the same users, known by different keys: strings that
// are kept and that the engine has made unique, strings that are new for every
// call, small integers, and handles, which are hashed beforehand.

import { Sluice } from "sluice";
import { address, draws, interned, userId } from "../addresses.js";
import { fill, singly } from "../keyed.js";
import { rival as map } from "../rivals/map.js";
import { interleave, ratioFigure, sample, speedRatio, WARM } from "../rounds.js";

/** Never used up here. */
const policy = { rate: 100, burst: 1_000_000 };
const keysOf = (small) => (small ? 500 : 10_000);
const roundsOf = (small) => (small ? 10 : 120);
const decisionsOf = (small) => (small ? 1000 : 8000);

/** Each makes, of the numbers of users, their keys. */
const kept = (keys) => (i) => keys[i];
const types = {
  "interned strings": (count) => kept(interned(Array.from({ length: count }, (_, i) => address(i)))),
  "new strings": () => address,
  numbers: () => userId,
};

async function measure(clock, type, small) {
  const count = keysOf(small);
  const rounds = roundsOf(small);
  const decisions = decisionsOf(small);
  const keyOf = types[type](count);
  const sluice = Sluice.create({ capacity: 2 * count, clock });
  const limiter = sluice.tokenBucket("user", policy);
  const { ask } = map.make(policy);
  await fill([(key) => limiter.allow(key), ask], count, keyOf);
  const work = { order: draws(2 * rounds * decisions, count), keyOf, decisions };
  const ours = `sluice, ${type}`;
  const theirs = `Map, ${type}`;
  const times = await interleave([singly(ours, (key) => limiter.allow(key), work), singly(theirs, ask, work)], {
    rounds,
    decisions,
    slots: WARM,
  });
  sluice.close();
  return {
    samples: [...times].map(([name, ns]) => sample(clock, name, null, "ns", ns)),
    figures: [ratioFigure(`${type}, ${clock} clock: decisions/s of the Map`, speedRatio(times, ours, theirs))],
  };
}

async function measureHandles(clock, small) {
  const count = keysOf(small);
  const rounds = roundsOf(small);
  const decisions = decisionsOf(small);
  const sluice = Sluice.create({ capacity: 2 * count, clock });
  const limiter = sluice.tokenBucket("user", policy);
  const handles = Array.from({ length: count }, (_, i) => limiter.key(address(i)));
  const work = { order: draws(2 * rounds * decisions, count), keyOf: kept(handles), decisions };
  const times = await interleave([singly("sluice, handles", (handle) => handle.allow(), work)], {
    rounds,
    decisions,
    slots: WARM,
  });
  sluice.close();
  return { samples: [...times].map(([name, ns]) => sample(clock, name, null, "ns", ns)) };
}

const casesOf = (clock) => [
  ...Object.keys(types).map((type) => [`${type}, ${clock}`, (small) => measure(clock, type, small)]),
  [`handles, ${clock}`, (small) => measureHandles(clock, small)],
];

const chart = (clock) => ({
  id: clock,
  title: `One of some thousand users; our ${clock} clock`,
  kind: "bars",
  x: null,
  y: { label: "ns a decision", scale: "linear" },
  better: "lower",
});

export const question = {
  question: "What does a decision cost by what the key is?",
  size: (small) =>
    `${keysOf(small).toLocaleString("en")} users; ${roundsOf(small)} rounds of ${decisionsOf(small)} decisions each`,
  charts: [chart("coarse"), chart("precise")],
  cases: Object.fromEntries([...casesOf("coarse"), ...casesOf("precise")]),
  notMeasured: [
    "making the string, which comes from a socket or a parser",
    "bigints and bytes as keys",
    "long keys and keys beyond Latin-1",
    "keys of several types at one call site",
  ],
};
