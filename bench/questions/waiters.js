// A hundred thousand who wait, each for its turn, at a steady rate of release:
// how late they wake up, and what one of them weighs. Beside them what one would
// write without a limiter that waits, a timer for each, and the floor: one timer
// that is set from turn to turn, with nobody waiting for it.

import { createHistogram } from "node:perf_hooks";
import { setImmediate as turnOfTheLoop } from "node:timers/promises";
import { Sluice } from "sluice";
import { address } from "../addresses.js";
import { quartiles, sample } from "../rounds.js";

/** Released a second, all together. */
const RELEASED_A_SECOND = 20_000;
const DUE_EVERY_MS = 1000 / RELEASED_A_SECOND;
const PERCENTILES = [50, 90, 99, 99.9, 100];

const A_KEY_EACH = "sluice wait, a key each";
const ONE_KEY = "sluice wait, all on one key";
const A_TIMER_EACH = "a promise and a setTimeout each";
const ONE_TIMER = "one setTimeout from turn to turn";

const countOf = (small) => (small ? 2_000 : 100_000);
const roundsOf = (small) => (small ? 1 : 3);
/** Until the first is due, all of them have begun to wait. */
const leadMsOf = (count) => 500 + count * 0.035;

/** Until the first is due where nobody's turn shall come: its debt is still a cost. */
const FOREVER_MS = 1_800_000;

/** A microsecond by tokens: a bucket in debt says to the microsecond when its next one is due. */
const MICROSECONDS_A_SECOND = 1e6;

/**
 * Ways to wait. `begin(leadMs)` makes `count` wait, the first one due in
 * `leadMs`, and calls `keep(i, promise, dueMs)` for each: its turn by the
 * policy, on performance.now().
 */
const ways = {
  [A_KEY_EACH](count) {
    const keys = Array.from({ length: count }, (_, i) => address(i));
    const sluice = Sluice.create({ capacity: 2 * count });
    const limiter = sluice.tokenBucket("each", { rate: MICROSECONDS_A_SECOND, burst: 1 });
    return {
      begin(leadMs, keep) {
        const startMs = performance.now();
        for (let i = 0; i < count; i++) {
          const nowMs = performance.now();
          const debt = Math.round((startMs + leadMs + i * DUE_EVERY_MS - nowMs) * 1000);
          limiter.charge(keys[i], debt);
          keep(i, limiter.wait(keys[i]), nowMs + debt / 1000);
        }
      },
      end: () => sluice.close(),
    };
  },
  [ONE_KEY](count) {
    const sluice = Sluice.create({ capacity: 1000 });
    const limiter = sluice.tokenBucket("one", { rate: RELEASED_A_SECOND, burst: 1 });
    return {
      begin(leadMs, keep) {
        const lead = Math.round(leadMs / DUE_EVERY_MS);
        const nowMs = performance.now();
        limiter.charge("all", lead);
        for (let i = 0; i < count; i++) keep(i, limiter.wait("all"), nowMs + (lead + i) * DUE_EVERY_MS);
      },
      end: () => sluice.close(),
    };
  },
  [A_TIMER_EACH](count) {
    const timers = new Set();
    return {
      begin(leadMs, keep) {
        const startMs = performance.now() + leadMs;
        for (let i = 0; i < count; i++) {
          const dueMs = startMs + i * DUE_EVERY_MS;
          const promise = new Promise((resolve) => {
            const look = (timer) => {
              timers.delete(timer);
              const leftMs = dueMs - performance.now();
              if (leftMs <= 0) return resolve();
              const next = setTimeout(() => look(next), Math.ceil(leftMs));
              timers.add(next);
            };
            look();
          });
          keep(i, promise, dueMs);
        }
      },
      end() {
        for (const timer of timers) clearTimeout(timer);
      },
    };
  },
};

/** How late each of `count` was when the code behind its `await` ran, ms. */
async function lateness(way, count) {
  const late = createHistogram({ lowest: 1, highest: 1e12, figures: 3 });
  const { begin, end } = way(count);
  const promises = new Array(count).fill(undefined);
  let firstDueMs = Infinity;
  const record = (dueMs) => {
    const ms = performance.now() - dueMs;
    if (ms < 0) throw new Error(`woken up ${-ms} ms early`);
    late.record(Math.max(1, Math.round(ms * 1e6)));
  };
  begin(leadMsOf(count), (i, promise, dueMs) => {
    firstDueMs = Math.min(firstDueMs, dueMs);
    promises[i] = promise.then(() => record(dueMs));
  });
  if (performance.now() > firstDueMs) {
    throw new Error(`the first of ${count} was due before the last one had begun to wait`);
  }
  await Promise.all(promises);
  end();
  return late;
}

/** The same of one timer that is set to the next turn, and of nobody who waits for it. */
async function latenessOfOneTimer(count) {
  const late = createHistogram({ lowest: 1, highest: 1e12, figures: 3 });
  const startMs = performance.now() + 10;
  let i = 0;
  await new Promise((resolve) => {
    const look = () => {
      for (; i < count; i++) {
        const leftMs = startMs + i * DUE_EVERY_MS - performance.now();
        if (leftMs > 0) return setTimeout(look, Math.ceil(leftMs));
        late.record(Math.max(1, Math.round(-leftMs * 1e6)));
      }
      resolve();
    };
    look();
  });
  return late;
}

async function measureLateness(small) {
  const count = countOf(small);
  const entrants = [...Object.entries(ways).map(([name, way]) => ({ name, run: () => lateness(way, count) })), {
    name: ONE_TIMER,
    run: () => latenessOfOneTimer(count),
  }];
  const found = new Map(entrants.map(({ name }) => [name, []]));
  for (let round = 0; round < roundsOf(small); round++) {
    for (let turn = 0; turn < entrants.length; turn++) {
      const { name, run } = entrants[(round + turn) % entrants.length];
      globalThis.gc();
      const late = await run();
      if (late.count !== count) throw new Error(`${name}: ${late.count} of ${count} woke up`);
      found.get(name).push(late);
    }
  }
  const at = (name, percentile) =>
    found.get(name).map((late) => (percentile === 100 ? late.max : late.percentile(percentile)) / 1e6);
  const figure = (name, asked) => {
    const { median, lower, upper } = quartiles(at(name, 99));
    return {
      name: `${name}: 99 of 100 wake up late by at most`,
      measured: median,
      spread: { lower, upper },
      unit: " ms",
      ...asked,
    };
  };
  return {
    samples: entrants.flatMap(({ name }) =>
      PERCENTILES.map((percentile) => sample("lateness", name, percentile, "ms", at(name, percentile)))
    ),
    figures: [figure(A_KEY_EACH, { most: 2 }), figure(ONE_KEY, { most: 2 }), figure(A_TIMER_EACH), figure(ONE_TIMER)],
  };
}

function heldBytes() {
  globalThis.gc();
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** What `count` of them keep in memory while they wait, their keys and what waits for their promises not counted. */
const bytes = (name, asked) => async (small) => {
  const count = countOf(small);
  const { begin, end } = ways[name](count);
  const promises = new Array(count).fill(undefined);
  const before = heldBytes();
  begin(FOREVER_MS, (i, promise) => (promises[i] = promise));
  await turnOfTheLoop();
  const each = (heldBytes() - before) / count;
  for (const promise of promises) promise.catch(() => {});
  end();
  return {
    samples: [sample("bytes", name, null, "bytes", [each])],
    figures: [{ name: `${name}: bytes each`, measured: each, unit: " B", ...asked }],
  };
};

export const question = {
  question: "How late do a hundred thousand waiters wake up, and what does one weigh?",
  size: (small) =>
    `${countOf(small).toLocaleString("en")} waiters at once, released at ${
      RELEASED_A_SECOND.toLocaleString("en")
    } a second, ${small ? "once" : `${roundsOf(small)} times`}; precise clock`,
  charts: [
    {
      id: "lateness",
      title: "Lateness of waking up, against the turn by the policy",
      kind: "percentiles",
      x: { label: "percentile", scale: "log" },
      y: { label: "ms late", scale: "log" },
      better: "lower",
    },
    {
      id: "bytes",
      title: "Memory of one waiter",
      kind: "bars",
      x: null,
      y: { label: "bytes a waiter", scale: "linear" },
      better: "lower",
    },
  ],
  cases: {
    lateness: measureLateness,
    "bytes, a key each": bytes(A_KEY_EACH, { most: 300 }),
    "bytes, one key": bytes(ONE_KEY, { most: 300 }),
    "bytes, a timer each": bytes(A_TIMER_EACH),
  },
  notMeasured: [
    "an event loop that other work keeps busy: that is added to everybody's lateness",
    "the coarse clock, which adds up to 1 ms",
    "waiters with a signal or a deadline, and those who leave before their turn",
    "waitSync, which blocks a thread and has no timer's granularity",
    "how long a wait takes to begin (calls)",
  ],
};
