// Resident memory of a process of its own, after garbage collection, before a
// limiter is made and after each of its keys was asked for. Memory that is
// allocated and not touched does not count, nor does the memory of the key itself
// elsewhere.

import assert from "node:assert/strict";
import { setImmediate as turnOfTheLoop } from "node:timers/promises";
import { perDay, Sluice } from "sluice";
import { address } from "../measure/addresses.js";
import { MIB, residentBytes } from "../measure/resident.js";
import { sample } from "../measure/statistics.js";
import { barChart, type Case, type Question } from "../question.js";
import type { Figure, Sample } from "../report/run.js";
import { rivals } from "../rivals/index.js";
import type { Ask, Limits, MadeRival, RivalOptions } from "../rivals/rival.js";

const OURS = "sluice";
const BURST = 5;
/** Refills nothing noticeable here, so no key becomes fresh again. */
const policy = { rate: perDay(1), burst: BURST };
const CHECKED = 1000;
/** Targets: bytes a key, and as a share of the leanest rival's. */
const MAX_BYTES = 24;
const MAX_SHARE = 0.25;

const keysOf = (small: boolean): number => (small ? 5000 : 1_000_000);

interface Holder {
  name: string;
  limits?: Limits;
  make(options: RivalOptions): MadeRival & { evicted?(): number };
}

const ours: Holder = {
  name: OURS,
  make({ capacity, ...policy }) {
    const sluice = Sluice.create({ capacity });
    const limiter = sluice.tokenBucket("user", policy);
    return { ask: (key) => limiter.allow(key), close: () => sluice.close(), evicted: () => sluice.stats().evicted };
  },
};

async function admitted(ask: Ask, from: number, to: number): Promise<number> {
  let sum = 0;
  for (let i = from; i < to; i++) {
    const answer = ask(address(i));
    if (answer === true || (answer !== false && await answer)) sum++;
  }
  return sum;
}

/** Grows what belongs to no key: code, compiled code and the young generation. */
async function warmUp({ make }: Holder, keys: number, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    const { ask, close } = make({ ...policy, capacity: 20_000 });
    await admitted(ask, 0, Math.min(keys, 20_000));
    await close();
    await turnOfTheLoop();
  }
}

const memoryOf = (holder: Holder): Case => async (small) => {
  const { name, limits = {}, make } = holder;
  const keys = Math.min(keysOf(small), limits.keys ?? Infinity);
  await warmUp(holder, keys, small ? 2 : 20);
  const before = await residentBytes(small ? 2 : 6);
  const { ask, evicted = () => 0 } = make({ ...policy, capacity: keys });
  assert.equal(await admitted(ask, 0, keys), keys, "a new key is admitted");
  const after = await residentBytes(small ? 2 : 6);
  for (let call = 2; call <= BURST + 1; call++) {
    const sum = await admitted(ask, 0, CHECKED);
    if (call <= BURST) assert.equal(sum, CHECKED, "a key is admitted as often as its burst says");
    else assert.ok(sum <= evicted(), `and no more, except for the few keys that were evicted; got ${sum}`);
  }
  return {
    samples: [
      sample("bytes", name, null, "B", [(after - before) / keys]),
      sample("rss", name, null, "MiB", [after / MIB]),
    ],
  };
};

/** A rival that takes milliseconds a decision is not asked for this many keys. */
const measured: Holder[] = [ours, ...rivals.filter(({ limits = {} }) => limits.calls === undefined)];

function figures(samples: Sample[]): Figure[] {
  const bytes = samples.filter(({ chart }) => chart === "bytes");
  const own = bytes.find(({ series }) => series === OURS)!;
  // With the few keys of a small run a rival's memory may not grow at all: there is nothing to compare with.
  const [leanest] = bytes.filter(({ series, median }) => series !== OURS && median > 0).sort((a, b) =>
    a.median - b.median
  );
  const share: Figure[] = leanest
    ? [{
      name: `bytes a key, beside the leanest rival, ${leanest.series}`,
      measured: own.median / leanest.median,
      unit: " x",
      most: MAX_SHARE,
    }]
    : [];
  return [...share, { name: "bytes a key", measured: own.median, unit: " B", most: MAX_BYTES }];
}

export const question: Question = {
  question: "What does a key cost in memory?",
  size: (small) => `${keysOf(small).toLocaleString("en")} string keys, or as many as a rival can take; one measurement`,
  charts: [
    barChart("bytes", "What a key adds to the resident memory", "bytes a key", "log"),
    barChart("rss", "Resident memory of the whole process", "MiB", "log"),
  ],
  cases: Object.fromEntries(measured.map((each) => [each.name, memoryOf(each)])),
  figures,
  notMeasured: [
    "a table that is only partly used: pages cost memory once touched, and keys are spread over all of them",
    "what each further thread needs for its own instance of the kernel",
    "a process that holds the keys anyway: a rival's memory includes the strings that it keeps",
  ],
};
