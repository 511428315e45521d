// Resident memory of a process of its own, after garbage collection, before a
// limiter is made and after each of its keys was asked for. What is allocated
// and not touched is not counted, nor is what the key itself takes elsewhere.

import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { perDay, Sluice } from "sluice";
import { address } from "../addresses.js";
import { MIB, residentBytes } from "../resident.js";
import { rivals } from "../rivals/index.js";
import { sample } from "../rounds.js";

const OURS = "sluice";
const BURST = 5;
/** Refills nothing that counts here, so that no key becomes fresh again. */
const policy = { rate: perDay(1), burst: BURST };
const CHECKED = 1000;
/** At most so much of the leanest rival's. */
const MOST_SHARE = 0.25;

const keysOf = (small) => (small ? 5000 : 1_000_000);

const ours = {
  name: OURS,
  make({ capacity, ...policy }) {
    const sluice = Sluice.create({ capacity });
    const limiter = sluice.tokenBucket("user", policy);
    return { ask: (key) => limiter.allow(key), close: () => sluice.close(), evicted: () => sluice.stats().evicted };
  },
};

async function admitted(ask, from, to) {
  let sum = 0;
  for (let i = from; i < to; i++) {
    const answer = ask(address(i));
    if (answer === true || (answer !== false && await answer)) sum++;
  }
  return sum;
}

const memoryOf = ({ name, bears = {}, make }) => async (small) => {
  const keys = Math.min(keysOf(small), bears.keys ?? Infinity);
  // Code, compiled code and a grown young generation are no part of a key.
  for (let i = 0; i < (small ? 2 : 20); i++) {
    const { ask, close } = make({ ...policy, capacity: 20_000 });
    await admitted(ask, 0, Math.min(keys, 20_000));
    await close();
    await turn();
  }
  const before = await residentBytes(small ? 2 : 6);
  const { ask, evicted = () => 0 } = make({ ...policy, capacity: keys });
  assert.equal(await admitted(ask, 0, keys), keys, "a new key is admitted");
  const after = await residentBytes(small ? 2 : 6);
  for (let call = 2; call <= BURST + 1; call++) {
    const sum = await admitted(ask, 0, CHECKED);
    if (call <= BURST) assert.equal(sum, CHECKED, "a key is admitted as often as its burst says");
    else assert.ok(sum <= evicted(), `and no more, but for the few that lost their slots to others; got ${sum}`);
  }
  return {
    samples: [
      sample("bytes", name, null, "B", [(after - before) / keys]),
      sample("rss", name, null, "MiB", [after / MIB]),
    ],
  };
};

/** The one that takes milliseconds a decision cannot be asked for so many. */
const measured = [ours, ...rivals.filter(({ bears = {} }) => bears.calls === undefined)];

function figures(samples) {
  const bytes = samples.filter(({ chart }) => chart === "bytes");
  const own = bytes.find(({ series }) => series === OURS);
  // Of the few keys of a small run a rival's memory may show no growth: that is no weight to compare with.
  const [leanest] = bytes.filter(({ series, median }) => series !== OURS && median > 0).sort((a, b) =>
    a.median - b.median
  );
  return [
    ...(leanest
      ? [{
        name: `bytes a key, beside the leanest rival, ${leanest.series}`,
        measured: own.median / leanest.median,
        unit: " x",
        most: MOST_SHARE,
      }]
      : []),
    { name: "bytes a key", measured: own.median, unit: " B", most: 24 },
  ];
}

const chart = (id, title, label) => ({ id, title, kind: "bars", x: null, y: { label, scale: "log" }, better: "lower" });

export const question = {
  question: "What does a key cost in memory?",
  size: (small) => `${keysOf(small).toLocaleString("en")} string keys, or as many as a rival bears; one measurement`,
  charts: [
    chart("bytes", "What a key adds to the resident memory", "bytes a key"),
    chart("rss", "Resident memory of the whole process", "MiB"),
  ],
  cases: Object.fromEntries(measured.map((each) => [each.name, memoryOf(each)])),
  figures,
  notMeasured: [
    "a table of which only a part is used: pages cost memory once touched, and keys are spread over all of them",
    "what each further thread needs for its own instance of the kernel",
    "a process that holds the key anyway: the strings are in the memory of those that keep them",
  ],
};
