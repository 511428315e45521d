// New keys, each asked for once and far more than there is room for, as an
// attacker sends them. How does memory grow, and is a client that was blocked
// before the flood still blocked after it? The keys are new strings; the table
// has room for a fiftieth of them. A rival is stopped when it holds too much or
// takes too long.

import { perDay, Sluice } from "sluice";
import { MIB, residentBytes } from "../measure/resident.js";
import { sample } from "../measure/statistics.js";
import { barChart, type Case, type Question } from "../question.js";
import type { Figure, Sample } from "../report/run.js";
import { rivals } from "../rivals/index.js";
import type { Ask, MadeRival, RivalOptions } from "../rivals/rival.js";

const OURS = "sluice";
const BURST = 5;
/** No blocked key becomes fresh during a flood. */
const policy = { rate: perDay(1), burst: BURST };
const BLOCKED = 1000;
const MILLION = 1_000_000;
const MAX_BYTES = 3 * 2 ** 30;
const MAX_MS = 15_000;
/** Targets: growth of the table's process in percent, and blocked keys that are let through. */
const MAX_GROWTH = 2;
const MAX_UNBLOCKED = 0;

const millionsOf = (small: boolean): number => (small ? 0.06 : 50);
const stepOf = (small: boolean): number => (small ? 0.01 : 1);
const capacityOf = (small: boolean): number => (small ? 10_000 : MILLION);

function makeOurs({ capacity, ...policy }: RivalOptions): MadeRival {
  const sluice = Sluice.create({ capacity });
  const limiter = sluice.tokenBucket("flooded", policy);
  return { ask: (key) => limiter.allow(key), close: () => sluice.close() };
}

/**
 * So short a string is flat however it is made. It takes a tenth of the time of an
 * address, which would be most of a flood.
 */
const keyOf = (i: number): string => `u${i}`;

/** Awaits promises only: awaiting plain answers would be a flood of promises of our own. */
async function floodWith(ask: Ask, from: number, to: number): Promise<void> {
  for (let i = from; i < to; i++) {
    const answer = ask(keyOf(i));
    if (typeof answer !== "boolean") await answer;
  }
}

async function makeBlocked(name: string, ask: Ask): Promise<string[]> {
  const blocked = Array.from({ length: BLOCKED }, (_, i) => `blocked ${i}`);
  for (const key of blocked) {
    for (let call = 0; call <= BURST; call++) {
      if (await ask(key) !== call < BURST) throw new Error(`${name}: wrong answer to call ${call} of a key`);
    }
  }
  return blocked;
}

async function unblockedOf(ask: Ask, blocked: string[]): Promise<number> {
  let sum = 0;
  for (const key of blocked) if (await ask(key)) sum++;
  return sum;
}

interface Flooded {
  /** Resident bytes after each step. */
  bytes: number[];
  /** Millions of keys after each step. */
  millions: number[];
  /** How it ended. */
  end: string;
}

async function floodInSteps(ask: Ask, isOurs: boolean, small: boolean): Promise<Flooded> {
  const step = stepOf(small);
  const bytes: number[] = [];
  const millions: number[] = [];
  const startMs = performance.now();
  for (let done = 0; done < Math.round(millionsOf(small) / step); done++) {
    await floodWith(ask, done * step * MILLION, (done + 1) * step * MILLION);
    const resident = await residentBytes(isOurs ? 2 : 1);
    bytes.push(resident);
    millions.push(Number(((done + 1) * step).toFixed(2)));
    if (resident > MAX_BYTES) return { bytes, millions, end: `stopped at ${MAX_BYTES / 2 ** 30} GiB` };
    if (performance.now() - startMs > MAX_MS && !isOurs) {
      return { bytes, millions, end: `stopped after ${MAX_MS / 1000} s` };
    }
  }
  return { bytes, millions, end: "survived" };
}

/**
 * Growth in percent after a fifth of the keys. By then every page of the table was
 * touched, and the engine has grown its young generation.
 */
function growthOf(bytes: number[]): number {
  const from = Math.ceil(bytes.length / 5);
  return 100 * (Math.max(...bytes.slice(from)) / bytes[from - 1] - 1);
}

interface Flooder {
  name: string;
  make(options: RivalOptions): MadeRival;
}

const flood = ({ name, make }: Flooder): Case => async (small) => {
  const isOurs = name === OURS;
  const { ask } = make({ ...policy, capacity: capacityOf(small) });
  const blocked = await makeBlocked(name, ask);
  const { bytes, millions, end } = await floodInSteps(ask, isOurs, small);
  const unblocked = await unblockedOf(ask, blocked);
  const samples: Sample[] = [
    ...bytes.map((resident, i) => sample("rss", name, millions[i], "MiB", [resident / MIB])),
    sample("unblocked", name, null, "keys", [unblocked]),
  ];
  const label = `${name}, ${end}`;
  const figures: Figure[] = isOurs
    ? [
      {
        name: `${label}: growth of resident memory after a fifth of them`,
        measured: growthOf(bytes),
        unit: " %",
        most: MAX_GROWTH,
      },
      { name: `${label}: unblocked of ${BLOCKED} keys over their limit`, measured: unblocked, most: MAX_UNBLOCKED },
    ]
    : [{ name: `${label}: millions of keys by then`, measured: millions.at(-1)! }];
  return { samples, figures };
};

/** A rival that takes 20 µs a decision cannot be flooded in this time. */
const measured: Flooder[] = [{ name: OURS, make: makeOurs }, ...rivals.filter(({ limits }) => limits === undefined)];

export const question: Question = {
  question: "Who survives a flood of keys?",
  size: (small) => {
    const keys = (millionsOf(small) * MILLION).toLocaleString("en");
    const room = capacityOf(small).toLocaleString("en");
    const rivalsEnd = `rivals for ${MAX_MS / 1000} s and up to ${MAX_BYTES / 2 ** 30} GiB`;
    return `${keys} string keys, each asked for once, into room for ${room}; ${rivalsEnd}`;
  },
  charts: [
    {
      id: "rss",
      title: "Resident memory in a flood of keys",
      kind: "time",
      x: { label: "millions of keys", scale: "linear" },
      y: { label: "MiB", scale: "log" },
      better: "lower",
    },
    barChart("unblocked", `Admitted after it, of ${BLOCKED} keys that were blocked before`, "keys"),
  ],
  cases: Object.fromEntries(measured.map((each) => [each.name, flood(each)])),
  notMeasured: [
    "a flood whose keys use up their own burst and so compete with the blocked keys on equal terms",
    "bottleneck, sharedmap and @nestjs/throttler, which take 20 µs a decision or more",
    "the end of a rival's window, when it forgets its keys: a window is longer than a flood",
  ],
};
