// A hundred thousand waiters at a steady rate of release: how late they wake up,
// and what one of them weighs. For comparison, what one would write without a
// limiter that waits (a timer for each waiter), and the floor: one timer that is
// set from turn to turn, with no waiter.

import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import { setImmediate as turnOfTheLoop } from "node:timers/promises";
import { Sluice } from "sluice";
import { address } from "../measure/addresses.js";
import { figure, quartiles, sample } from "../measure/statistics.js";
import { barChart, type Case, type Question } from "../question.js";
import type { Figure, Target } from "../report/run.js";

/** Waiters released a second, all together. */
const RELEASED_A_SECOND = 20_000;
const DUE_EVERY_MS = 1000 / RELEASED_A_SECOND;
const PERCENTILES = [50, 90, 99, 99.9, 100];
/** Targets: the 99th percentile of lateness, and bytes a waiter. */
const MAX_LATE_MS = 2;
const MAX_BYTES = 300;

const A_KEY_EACH = "sluice wait, a key each";
const ONE_KEY = "sluice wait, all on one key";
const A_TIMER_EACH = "a promise and a setTimeout each";
const ONE_TIMER = "one setTimeout from turn to turn";

const countOf = (small: boolean): number => (small ? 2_000 : 100_000);
const roundsOf = (small: boolean): number => (small ? 1 : 3);
/** By the time the first is due, all of them have begun to wait. */
const leadMsOf = (count: number): number => 500 + count * 0.035;

/** The lead where no turn shall come: the debt is still a cost. */
const FOREVER_MS = 1_800_000;

/** Microseconds as tokens: a bucket in debt knows to the microsecond when its next token is due. */
const MICROSECONDS_A_SECOND = 1e6;

/** Is called for each waiter with its turn by the policy, on performance.now(). */
type Keep = (i: number, promise: Promise<unknown>, dueMs: number) => void;

interface Way {
  /** Makes `count` waiters, the first due in `leadMs`. */
  begin(leadMs: number, keep: Keep): void;
  end(): void;
}

function aKeyEach(count: number): Way {
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
}

function oneKey(count: number): Way {
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
}

function aTimerEach(count: number): Way {
  const timers = new Set<NodeJS.Timeout>();
  const until = (dueMs: number): Promise<void> =>
    new Promise((resolve) => {
      const look = (timer?: NodeJS.Timeout): void => {
        if (timer) timers.delete(timer);
        const leftMs = dueMs - performance.now();
        if (leftMs <= 0) return resolve();
        const next = setTimeout(() => look(next), Math.ceil(leftMs));
        timers.add(next);
      };
      look();
    });
  return {
    begin(leadMs, keep) {
      const startMs = performance.now() + leadMs;
      for (let i = 0; i < count; i++) {
        const dueMs = startMs + i * DUE_EVERY_MS;
        keep(i, until(dueMs), dueMs);
      }
    },
    end() {
      for (const timer of timers) clearTimeout(timer);
    },
  };
}

const ways: Record<string, (count: number) => Way> = {
  [A_KEY_EACH]: aKeyEach,
  [ONE_KEY]: oneKey,
  [A_TIMER_EACH]: aTimerEach,
};

const newHistogram = (): RecordableHistogram => createHistogram({ lowest: 1, highest: 1e12, figures: 3 });
const record = (late: RecordableHistogram, ms: number): void => late.record(Math.max(1, Math.round(ms * 1e6)));

/** How late each of `count` was when the code behind its `await` ran, in ns. */
async function lateness(way: (count: number) => Way, count: number): Promise<RecordableHistogram> {
  const late = newHistogram();
  const { begin, end } = way(count);
  const promises = new Array<Promise<void> | undefined>(count).fill(undefined);
  let firstDueMs = Infinity;
  const wakeUp = (dueMs: number): void => {
    const ms = performance.now() - dueMs;
    if (ms < 0) throw new Error(`woken up ${-ms} ms early`);
    record(late, ms);
  };
  begin(leadMsOf(count), (i, promise, dueMs) => {
    firstDueMs = Math.min(firstDueMs, dueMs);
    promises[i] = promise.then(() => wakeUp(dueMs));
  });
  if (performance.now() > firstDueMs) {
    throw new Error(`the first of ${count} was due before the last one had begun to wait`);
  }
  await Promise.all(promises);
  end();
  return late;
}

/** The same for one timer that is set to the next turn, with no waiter. */
async function latenessOfOneTimer(count: number): Promise<RecordableHistogram> {
  const late = newHistogram();
  const startMs = performance.now() + 10;
  let i = 0;
  await new Promise<void>((resolve) => {
    const look = (): void => {
      for (; i < count; i++) {
        const leftMs = startMs + i * DUE_EVERY_MS - performance.now();
        if (leftMs > 0) {
          setTimeout(look, Math.ceil(leftMs));
          return;
        }
        record(late, -leftMs);
      }
      resolve();
    };
    look();
  });
  return late;
}

const measureLateness: Case = async (small) => {
  const count = countOf(small);
  const entrants = [
    ...Object.entries(ways).map(([name, way]) => ({ name, run: () => lateness(way, count) })),
    { name: ONE_TIMER, run: () => latenessOfOneTimer(count) },
  ];
  const found = new Map(entrants.map(({ name }) => [name, [] as RecordableHistogram[]]));
  for (let round = 0; round < roundsOf(small); round++) {
    for (let turn = 0; turn < entrants.length; turn++) {
      const { name, run } = entrants[(round + turn) % entrants.length];
      globalThis.gc!();
      const late = await run();
      if (late.count !== count) throw new Error(`${name}: ${late.count} of ${count} woke up`);
      found.get(name)!.push(late);
    }
  }
  const at = (name: string, percentile: number): number[] =>
    found.get(name)!.map((late) => (percentile === 100 ? late.max : late.percentile(percentile)) / 1e6);
  const figureOf = (name: string, target?: Target): Figure =>
    figure(`${name}: 99 of 100 wake up late by at most`, quartiles(at(name, 99)), " ms", target);
  return {
    samples: entrants.flatMap(({ name }) =>
      PERCENTILES.map((percentile) => sample("lateness", name, percentile, "ms", at(name, percentile)))
    ),
    figures: [
      figureOf(A_KEY_EACH, { most: MAX_LATE_MS }),
      figureOf(ONE_KEY, { most: MAX_LATE_MS }),
      figureOf(A_TIMER_EACH),
      figureOf(ONE_TIMER),
    ],
  };
};

function heldBytes(): number {
  globalThis.gc!();
  globalThis.gc!();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Memory of `count` waiters, without their keys and without what awaits their promises. */
const bytes = (name: string, target: Target = {}): Case => async (small) => {
  const count = countOf(small);
  const { begin, end } = ways[name](count);
  const promises = new Array<Promise<unknown> | undefined>(count).fill(undefined);
  const before = heldBytes();
  begin(FOREVER_MS, (i, promise) => {
    promises[i] = promise;
  });
  await turnOfTheLoop();
  const each = (heldBytes() - before) / count;
  for (const promise of promises) promise?.catch(() => {});
  end();
  return {
    samples: [sample("bytes", name, null, "bytes", [each])],
    figures: [{ name: `${name}: bytes each`, measured: each, unit: " B", ...target }],
  };
};

export const question: Question = {
  question: "How late do a hundred thousand waiters wake up, and what does one weigh?",
  size: (small) => {
    const count = countOf(small).toLocaleString("en");
    const rate = RELEASED_A_SECOND.toLocaleString("en");
    const times = small ? "once" : `${roundsOf(small)} times`;
    return `${count} waiters at once, released at ${rate} a second, ${times}; precise clock`;
  },
  charts: [
    {
      id: "lateness",
      title: "Lateness of waking up, against the turn by the policy",
      kind: "percentiles",
      x: { label: "percentile", scale: "log" },
      y: { label: "ms late", scale: "log" },
      better: "lower",
    },
    barChart("bytes", "Memory of one waiter", "bytes a waiter"),
  ],
  cases: {
    lateness: measureLateness,
    "bytes, a key each": bytes(A_KEY_EACH, { most: MAX_BYTES }),
    "bytes, one key": bytes(ONE_KEY, { most: MAX_BYTES }),
    "bytes, a timer each": bytes(A_TIMER_EACH),
  },
  notMeasured: [
    "an event loop that other work keeps busy: that adds to every waiter's lateness",
    "the coarse clock, which adds up to 1 ms",
    "waiters with a signal or a deadline, and waiters that give up before their turn",
    "waitSync, which blocks a thread and does not depend on a timer's granularity",
    "how long a wait takes to begin (calls)",
  ],
};
