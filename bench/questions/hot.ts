// One key that every call asks for. Ours by a handle, which is hashed beforehand,
// and by the key; with both clocks, each in a process of its own; one reading of
// the clock, which a decision with the precise clock contains; and every rival.
//
// Go's and Guava's limiters have a process to themselves, so ours has one too when
// it is compared with them: next to rivals that make garbage, all of JavaScript
// takes up to 1.5 times as long.

import assert from "node:assert/strict";
import { performance as imported } from "node:perf_hooks";
import { perDay, Sluice } from "sluice";
import { outsideSamples, withOutside } from "../measure/before-and-after.js";
import { askOneKey } from "../measure/loops.js";
import { type Entrant, interleave } from "../measure/rounds.js";
import {
  costRatio,
  quartiles,
  ratioFigure,
  speedRatio,
  type Times,
  timeSamples,
  unpairedRatio,
} from "../measure/statistics.js";
import { barChart, type Case, type Question } from "../question.js";
import type { Figure, Target } from "../report/run.js";
import { rivals } from "../rivals/index.js";
import type { Ask, Rival } from "../rivals/rival.js";

const DECISIONS = 5_000;
const HOT = "10.0.0.1";
const CLOCK = "one performance.now()";
/** The same without the getter that the global is. */
const IMPORTED_CLOCK = "one performance.now() of node:perf_hooks";
/** Never used up here, so every call takes from it. */
const PLENTY = 2 ** 31 - 1;
const FEW = 10;

const HANDLE = "sluice key()";
const BY_KEY = "sluice allow(key)";

/** Targets: a precise decision's cost in readings of the clock, and a multiple of other languages' decisions/s. */
const MAX_CLOCKS = 1.25;
const leastTimes: Record<string, number> = { "Guava RateLimiter": 3, "Go x/time/rate": 8 };

type Answer = "admitted" | "refused";
type Clock = "coarse" | "precise";

const roundsOf = (small: boolean): number => (small ? 12 : 200);
const burstOf = { admitted: PLENTY, refused: FEW };
const isRightFor = (answer: Answer, decisions: number) => (sum: number): boolean =>
  sum === (answer === "admitted" ? decisions : 0);

/** An entrant that only reads a clock. */
const reading = (name: string, read: () => number): Entrant => ({
  name,
  run: askOneKey(read as unknown as Ask<undefined>, undefined, DECISIONS),
  isRight: isRightFor("admitted", DECISIONS),
});
const clocks =
  (): Entrant[] => [reading(CLOCK, () => performance.now()), reading(IMPORTED_CLOCK, () => imported.now())];

function theirs({ name, make, answers, limits = {} }: Rival, answer: Answer): Entrant {
  const { ask } = make({ rate: perDay(1), burst: burstOf[answer], capacity: 1000 });
  const isAsync = answers === "promise";
  // A decision takes milliseconds: a single one is long enough to be timed.
  if (limits.calls !== undefined) {
    return { name, isAsync, decisions: 1, run: async () => Number(await ask(HOT)), isRight: isRightFor(answer, 1) };
  }
  if (answer === "refused" || limits.callsAKey === undefined) {
    return { name, isAsync, run: askOneKey(ask, HOT, DECISIONS, isAsync), isRight: isRightFor(answer, DECISIONS) };
  }
  // It remembers every admitted call, so every round asks for another key, twice `decisions` times.
  const decisions = Math.min(DECISIONS, limits.callsAKey / 2);
  let key = HOT;
  return {
    name,
    isAsync,
    decisions,
    prepare: (slot) => (key = `${HOT} ${slot}`),
    run: askOneKey(() => ask(key), undefined, decisions, isAsync),
    isRight: isRightFor(answer, decisions),
  };
}

/** Our limiter, asked in both ways; `close` checks what the table counted. */
function makeOurs(answer: Answer, clock: Clock): { entrants: Entrant[]; close(): void } {
  const burst = burstOf[answer];
  const sluice = Sluice.create({ capacity: 1000, clock });
  const limiter = sluice.tokenBucket("hot", { rate: perDay(1), burst });
  const key = limiter.key(HOT);
  const entrant = (name: string, ask: Ask<string>): Entrant => ({
    name,
    run: askOneKey(ask, HOT, DECISIONS),
    isRight: isRightFor(answer, DECISIONS),
  });
  return {
    entrants: [entrant(HANDLE, () => key.allow()), entrant(BY_KEY, (name) => limiter.allow(name))],
    close() {
      const { allowed } = sluice.stats();
      const taken = burst - key.peek().remaining;
      assert.ok(Math.abs(taken - allowed) <= 1, `each admitted call took one token, got ${taken} for ${allowed} calls`);
      if (answer === "refused") assert.equal(allowed, FEW, "the burst, and no more");
      sluice.close();
    },
  };
}

/** Uses up the burst of every entrant. */
async function useUp(entrants: Entrant[]): Promise<void> {
  for (const { run, decisions } of entrants) {
    for (let calls = 0; calls < FEW; calls += decisions ?? DECISIONS) await run(0);
  }
}

/** The quickest rival that reads a clock, and the quickest that reads none. */
function quickestRivals(times: Times): Rival[] {
  return [true, false].flatMap((reads) =>
    rivals.filter(({ readsClock }) => readsClock === reads)
      .map((rival) => ({ rival, ns: quartiles(times.get(rival.name)!).median }))
      .sort((a, b) => a.ns - b.ns)
      .slice(0, 1)
      .map(({ rival }) => rival)
  );
}

/** Ours in both ways against those rivals. */
function rivalFigures(answer: Answer, clock: Clock, times: Times): Figure[] {
  return [HANDLE, BY_KEY].flatMap((ours) =>
    quickestRivals(times).map(({ name, readsClock }) => {
      const rival = readsClock ? name : `${name}, which reads no clock`;
      return ratioFigure(`${ours}, ${answer}, ${clock} clock: decisions/s of ${rival}`, speedRatio(times, ours, name));
    })
  );
}

function clockFigure(ours: string, answer: Answer, clock: Clock, times: Times, target?: Target): Figure {
  return ratioFigure(`${ours}, ${answer}, ${clock} clock: cost of ${CLOCK}`, costRatio(times, ours, CLOCK), target);
}

const asking = (answer: Answer, clock: Clock): Case => async (small) => {
  const { entrants, close } = makeOurs(answer, clock);
  entrants.push(...rivals.map((rival) => theirs(rival, answer)));
  if (answer === "refused") await useUp(entrants);
  const times = await interleave([...clocks(), ...entrants], { rounds: roundsOf(small), decisions: DECISIONS });
  close();
  return {
    samples: timeSamples(`${answer}-${clock}`, times),
    figures: [
      clockFigure(HANDLE, answer, clock, times, clock === "precise" ? { most: MAX_CLOCKS } : {}),
      clockFigure(BY_KEY, answer, clock, times),
      ...rivalFigures(answer, clock, times),
    ],
  };
};

/** Compared with limiters in other languages, which have no clock to choose. */
const besideOthers = (answer: Answer): Case => async (small) => {
  const rounds = roundsOf(small);
  const { entrants, close } = makeOurs(answer, "coarse");
  if (answer === "refused") await useUp(entrants);
  const measureOurs = (): Promise<Times> => interleave([...clocks(), ...entrants], { rounds, decisions: DECISIONS });
  const found = await withOutside("hot", { rounds, decisions: DECISIONS }, small, measureOurs);
  close();
  const chart = `${answer}-others`;
  const others = found.theirs.filter((each) => each.case === answer);
  const own = quartiles(found.ours.get(HANDLE)!);
  return {
    samples: [
      ...timeSamples(chart, found.ours),
      ...outsideSamples(chart, null, others, ({ name }) => name),
    ],
    figures: others.map(({ name, values }) => {
      const target = answer === "admitted" ? { least: leastTimes[name] } : {};
      const figureName = `${HANDLE}, ${answer}, coarse clock: decisions/s of ${name}`;
      return ratioFigure(figureName, unpairedRatio(quartiles(values), own), target);
    }),
  };
};

export const question: Question = {
  question: "What does one decision on a hot key cost?",
  size: (small) => `${roundsOf(small)} rounds of ${DECISIONS} decisions each`,
  charts: (["admitted", "refused"] as const).flatMap((answer) =>
    Object.entries({
      coarse: "our coarse clock",
      precise: "our precise clock",
      others: "our coarse clock, beside other languages",
    }).map(([id, what]) => barChart(`${answer}-${id}`, `A hot key, ${answer}; ${what}`, "ns a decision", "log"))
  ),
  cases: {
    "admitted, coarse": asking("admitted", "coarse"),
    "refused, coarse": asking("refused", "coarse"),
    "admitted, precise": asking("admitted", "precise"),
    "refused, precise": asking("refused", "precise"),
    "admitted, other languages": besideOthers("admitted"),
    "refused, other languages": besideOthers("refused"),
  },
  notMeasured: [
    "other threads on the same key (threads)",
    "costs above 1, and what consume, peek, reserve and wait add to a decision (calls)",
    "programs in other languages against our precise clock",
    "@nestjs/throttler beyond 1,000 calls for a key: it walks over all calls that it admitted in the window",
    "a process with several tables",
  ],
};
