// Keys that nobody will ask for again, far more than there is room for, as an
// attacker sends them. How does memory grow, and is a client that was blocked
// before still blocked after it? Of strings, each new; the table has room for a
// fiftieth of them. A rival is stopped when it holds too much or takes too long.

import { perDay, Sluice } from "sluice";
import { MIB, residentBytes } from "../resident.js";
import { rivals } from "../rivals/index.js";
import { sample } from "../rounds.js";

const OURS = "sluice";
const BURST = 5;
/** Nobody who is blocked becomes fresh meanwhile. */
const policy = { rate: perDay(1), burst: BURST };
const BLOCKED = 1000;
const MILLION = 1_000_000;
const MOST_BYTES = 3 * 2 ** 30;
const MOST_MS = 15_000;
/** Growth of the table's process, as a share, and who may be let through of those that are blocked. */
const MOST_GROWTH = 2;
const MOST_UNBLOCKED = 0;

const millionsOf = (small) => (small ? 0.06 : 50);
const stepOf = (small) => (small ? 0.01 : 1);
const capacityOf = (small) => (small ? 10_000 : MILLION);

const ours = {
  name: OURS,
  make({ capacity, ...policy }) {
    const limiter = Sluice.create({ capacity }).tokenBucket("flooded", policy);
    return { ask: (key) => limiter.allow(key) };
  },
};

/** Flat however it is made, being so short, and made in a tenth of the time of an address, which would be most of a flood. */
const keyOf = (i) => `u${i}`;

/** Waits for promises alone: a flood of `await` for plain answers would be a flood of promises of our own. */
async function floodWith(ask, from, to) {
  for (let i = from; i < to; i++) {
    const answer = ask(keyOf(i));
    if (typeof answer !== "boolean") await answer;
  }
}

async function unblockedOf(ask, blocked) {
  let sum = 0;
  for (const key of blocked) if (await ask(key)) sum++;
  return sum;
}

const flood = ({ name, make, isOurs = false }) => async (small) => {
  const step = stepOf(small);
  const all = Math.round(millionsOf(small) / step);
  const { ask } = make({ ...policy, capacity: capacityOf(small) });
  const blocked = Array.from({ length: BLOCKED }, (_, i) => `blocked ${i}`);
  for (const key of blocked) {
    for (let call = 0; call <= BURST; call++) {
      if (await ask(key) !== call < BURST) throw new Error(`${name}: wrong answer to call ${call} of a key`);
    }
  }
  const samples = [];
  const bytes = [];
  const startMs = performance.now();
  let done = 0;
  let end = "survived";
  while (done < all) {
    await floodWith(ask, done * step * MILLION, (done + 1) * step * MILLION);
    done++;
    const resident = await residentBytes(isOurs ? 2 : 1);
    bytes.push(resident);
    samples.push(sample("rss", name, Number((done * step).toFixed(2)), "MiB", [resident / MIB]));
    if (resident > MOST_BYTES) end = `stopped at ${(MOST_BYTES / 2 ** 30).toFixed(0)} GiB`;
    else if (performance.now() - startMs > MOST_MS && !isOurs) end = `stopped after ${MOST_MS / 1000} s`;
    if (end !== "survived") break;
  }
  const unblocked = await unblockedOf(ask, blocked);
  samples.push(sample("unblocked", name, null, "keys", [unblocked]));
  const label = `${name}, ${end}`;
  if (!isOurs) {
    return {
      samples,
      figures: [{ name: `${label}: millions of keys by then`, measured: Number((done * step).toFixed(2)) }],
    };
  }
  // By then every page of the table has been touched, and the engine has grown what it keeps for the garbage of strings.
  const from = Math.ceil(all / 5);
  const growth = 100 * (Math.max(...bytes.slice(from)) / bytes[from - 1] - 1);
  return {
    samples,
    figures: [
      {
        name: `${label}: growth of resident memory after a fifth of them`,
        measured: growth,
        unit: " %",
        most: MOST_GROWTH,
      },
      { name: `${label}: unblocked of ${BLOCKED} keys over their limit`, measured: unblocked, most: MOST_UNBLOCKED },
    ],
  };
};

/** Those that take 20 µs a decision cannot be flooded in this time. */
const measured = [{ ...ours, isOurs: true }, ...rivals.filter(({ bears }) => bears === undefined)];

export const question = {
  question: "Who survives a flood of keys?",
  size: (small) =>
    `${(millionsOf(small) * MILLION).toLocaleString("en")} string keys, each asked for once, into room for ${
      capacityOf(small).toLocaleString("en")
    }; rivals for ${MOST_MS / 1000} s and up to ${MOST_BYTES / 2 ** 30} GiB`,
  charts: [
    {
      id: "rss",
      title: "Resident memory in a flood of keys",
      kind: "time",
      x: { label: "millions of keys", scale: "linear" },
      y: { label: "MiB", scale: "log" },
      better: "lower",
    },
    {
      id: "unblocked",
      title: `Let through after it, of ${BLOCKED} keys that were blocked before`,
      kind: "bars",
      x: null,
      y: { label: "keys", scale: "linear" },
      better: "lower",
    },
  ],
  cases: Object.fromEntries(measured.map((each) => [each.name, flood(each)])),
  notMeasured: [
    "a flood whose keys use up their own burst, which competes with the blocked keys on equal terms",
    "bottleneck, sharedmap and @nestjs/throttler, which take 20 µs a decision or more",
    "the end of a rival's window, when it lets go of its keys: a window is longer than a flood",
  ],
};
