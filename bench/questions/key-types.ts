// The same decision for the same users, by different keys: strings that are kept
// and that the engine has made unique, strings that are new for every call, small
// integers, and handles, which are hashed beforehand.

import { Sluice } from "sluice";
import { address, draws, interned, userId } from "../measure/addresses.js";
import { fill, singly, type Work } from "../measure/keyed.js";
import { interleave } from "../measure/rounds.js";
import { ratioFigure, speedRatio, timeSamples } from "../measure/statistics.js";
import { barChart, type Case, type Question } from "../question.js";
import type { Chart } from "../report/run.js";
import { rival as map } from "../rivals/map.js";
import type { Key } from "../rivals/rival.js";

type Clock = "coarse" | "precise";

/** Never used up here. */
const policy = { rate: 100, burst: 1_000_000 };
const keysOf = (small: boolean): number => (small ? 500 : 10_000);
const roundsOf = (small: boolean): number => (small ? 10 : 120);
const decisionsOf = (small: boolean): number => (small ? 1000 : 8000);

const kept = <K>(keys: K[]) => (i: number): K => keys[i];
/** Each makes a function from a user's number to the user's key. */
const types: Record<string, (count: number) => (i: number) => Key> = {
  "interned strings": (count) => kept(interned(Array.from({ length: count }, (_, i) => address(i)))),
  "new strings": () => address,
  numbers: () => userId,
};

function workOf<K>(keyOf: (i: number) => K, small: boolean): Work<K> {
  const decisions = decisionsOf(small);
  return { order: draws(2 * roundsOf(small) * decisions, keysOf(small)), keyOf, decisions };
}

const compare = (clock: Clock, type: string): Case => async (small) => {
  const count = keysOf(small);
  const keyOf = types[type](count);
  const sluice = Sluice.create({ capacity: 2 * count, clock });
  const limiter = sluice.tokenBucket("user", policy);
  const { ask } = map.make({ ...policy, capacity: count });
  await fill([(key) => limiter.allow(key), ask], count, keyOf);
  const work = workOf(keyOf, small);
  const ours = `sluice, ${type}`;
  const theirs = `Map, ${type}`;
  const entrants = [singly(ours, (key: Key) => limiter.allow(key), work), singly(theirs, ask, work)];
  const times = await interleave(entrants, { rounds: roundsOf(small), decisions: work.decisions });
  sluice.close();
  return {
    samples: timeSamples(clock, times),
    figures: [ratioFigure(`${type}, ${clock} clock: decisions/s of the Map`, speedRatio(times, ours, theirs))],
  };
};

const handles = (clock: Clock): Case => async (small) => {
  const count = keysOf(small);
  const sluice = Sluice.create({ capacity: 2 * count, clock });
  const limiter = sluice.tokenBucket("user", policy);
  const work = workOf(kept(Array.from({ length: count }, (_, i) => limiter.key(address(i)))), small);
  const entrants = [singly("sluice, handles", (handle) => handle.allow(), work)];
  const times = await interleave(entrants, { rounds: roundsOf(small), decisions: work.decisions });
  sluice.close();
  return { samples: timeSamples(clock, times) };
};

function casesOf(clock: Clock): Record<string, Case> {
  return {
    ...Object.fromEntries(Object.keys(types).map((type) => [`${type}, ${clock}`, compare(clock, type)])),
    [`handles, ${clock}`]: handles(clock),
  };
}

const chart = (clock: Clock): Chart =>
  barChart(clock, `One of some thousand users; our ${clock} clock`, "ns a decision");

export const question: Question = {
  question: "What does a decision cost by the type of the key?",
  size: (small) => {
    const users = keysOf(small).toLocaleString("en");
    return `${users} users; ${roundsOf(small)} rounds of ${decisionsOf(small)} decisions each`;
  },
  charts: [chart("coarse"), chart("precise")],
  cases: { ...casesOf("coarse"), ...casesOf("precise") },
  notMeasured: [
    "making the string, which comes from a socket or a parser",
    "bigints and bytes as keys",
    "long keys and keys beyond Latin-1",
    "keys of several types at one call site",
  ],
};
