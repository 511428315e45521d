// One key that everybody asks for: ours by a handle, hashed beforehand, and by
// the key, with both clocks, each in a process of its own; one reading of the
// clock, which a decision with the precise clock contains; and every rival.
//
// Go's and Guava's limiters have a process to themselves, so beside them ours has
// one too: next to rivals that make garbage, all of JavaScript is up to 1.5 times
// as slow.

import assert from "node:assert/strict";
import { performance as imported } from "node:perf_hooks";
import { perDay, Sluice } from "sluice";
import { outsideSamples, withOutside } from "../before-and-after.js";
import { askOneKey } from "../loops.js";
import { rivals } from "../rivals/index.js";
import { costRatio, interleave, quartiles, ratioFigure, sample, unpairedRatio, WARM } from "../rounds.js";

const DECISIONS = 5_000;
const HOT = "10.0.0.1";
const CLOCK = "one performance.now()";
/** The same without the getter that the global is. */
const IMPORTED_CLOCK = "one performance.now() of node:perf_hooks";
/** Never used up here, so that every call takes from it. */
const PLENTY = 2 ** 31 - 1;
const FEW = 10;
/** What is asked of us. */
const MOST_CLOCKS = 1.25;
const leastOf = { "Guava RateLimiter": 3, "Go x/time/rate": 8 };

const OURS = "sluice key()";

const isAdmitted = (sum) => sum === DECISIONS;
const isRefused = (sum) => sum === 0;
const roundsOf = (small) => (small ? 12 : 200);

const readings = (name, read) => ({ name, run: askOneKey(read, undefined, DECISIONS), isRight: isAdmitted });
const ours = (name, ask, isRight) => ({ name, run: askOneKey(ask, HOT, DECISIONS), isRight });

function theirs({ name, make, answers, bears = {} }, burst, isRight) {
  const { ask } = make({ rate: perDay(1), burst, capacity: 1000 });
  const isAsync = answers === "promise";
  // Milliseconds a decision: a single one is long enough to be timed.
  if (bears.calls !== undefined) {
    return {
      name,
      isAsync,
      decisions: 1,
      run: async () => Number(await ask(HOT)),
      isRight: (sum) => sum === (isRight === isAdmitted ? 1 : 0),
    };
  }
  if (isRight === isRefused || bears.callsAKey === undefined) {
    return { name, isAsync, run: askOneKey(ask, HOT, DECISIONS, isAsync), isRight };
  }
  // It remembers every admitted call: so it is asked for another key in every round, for each of them twice.
  const decisions = Math.min(DECISIONS, bears.callsAKey / 2);
  let key;
  const run = askOneKey(() => ask(key), undefined, decisions, isAsync);
  return {
    name,
    isAsync,
    decisions,
    prepare: (slot) => (key = `${HOT} ${slot}`),
    run,
    isRight: (sum) => sum === decisions,
  };
}

const burstOf = { admitted: PLENTY, refused: FEW };
const rightOf = { admitted: isAdmitted, refused: isRefused };

/** Our limiter, and the two ways to ask it. */
function made(answer, clock) {
  const burst = burstOf[answer];
  const sluice = Sluice.create({ capacity: 1000, clock });
  const limiter = sluice.tokenBucket("hot", { rate: perDay(1), burst });
  const key = limiter.key(HOT);
  const entrants = [
    ours(OURS, () => key.allow(), rightOf[answer]),
    ours("sluice allow(key)", (name) => limiter.allow(name), rightOf[answer]),
  ];
  const close = () => {
    const { allowed } = sluice.stats();
    const taken = burst - key.peek().remaining;
    assert.ok(Math.abs(taken - allowed) <= 1, `each admitted call took one token, got ${taken} for ${allowed} calls`);
    if (answer === "refused") assert.equal(allowed, FEW, "the burst, and no more");
    sluice.close();
  };
  return { entrants, close };
}

/** Uses up the burst. */
async function use(entrants) {
  for (const { run, decisions } of entrants) {
    for (let calls = 0; calls < FEW; calls += decisions ?? DECISIONS) await run(0);
  }
}

const clocks = () => [readings(CLOCK, () => performance.now()), readings(IMPORTED_CLOCK, () => imported.now())];

const asking = (answer, clock) => async (small) => {
  const { entrants, close } = made(answer, clock);
  entrants.push(...rivals.map((rival) => theirs(rival, burstOf[answer], rightOf[answer])));
  if (answer === "refused") await use(entrants);
  const times = await interleave([...clocks(), ...entrants], {
    rounds: roundsOf(small),
    decisions: DECISIONS,
    slots: WARM,
  });
  close();
  return {
    samples: [...times].map(([name, ns]) => sample(`${answer}-${clock}`, name, null, "ns", ns)),
    figures: [
      ratioFigure(
        `${OURS}, ${answer}, ${clock} clock: cost of ${CLOCK}`,
        costRatio(times, OURS, CLOCK),
        clock === "precise" ? { most: MOST_CLOCKS } : {},
      ),
    ],
  };
};

/** Beside the limiters in other languages, which have no clock to choose. */
const besideOthers = (answer) => async (small) => {
  const rounds = roundsOf(small);
  const { entrants, close } = made(answer, "coarse");
  if (answer === "refused") await use(entrants);
  const measure = () => interleave([...clocks(), ...entrants], { rounds, decisions: DECISIONS, slots: WARM });
  const found = await withOutside("hot", { rounds, decisions: DECISIONS }, small, measure);
  close();
  const chart = `${answer}-others`;
  const others = found.theirs.filter((each) => each.case === answer);
  const own = quartiles(found.ours.get(OURS));
  return {
    samples: [
      ...[...found.ours].map(([name, ns]) => sample(chart, name, null, "ns", ns)),
      ...outsideSamples(chart, null, others, ({ name }) => name),
    ],
    figures: others.map(({ name, values }) =>
      ratioFigure(
        `${OURS}, ${answer}, coarse clock: decisions/s of ${name}`,
        unpairedRatio(quartiles(values), own),
        answer === "admitted" ? { least: leastOf[name] } : {},
      )
    ),
  };
};

const chart = (id, title) => ({
  id,
  title,
  kind: "bars",
  x: null,
  y: { label: "ns a decision", scale: "log" },
  better: "lower",
});

export const question = {
  question: "What does one decision on a hot key cost?",
  size: (small) => `${roundsOf(small)} rounds of ${DECISIONS} decisions each`,
  charts: [
    chart("admitted-coarse", "A hot key, admitted; our coarse clock"),
    chart("admitted-precise", "A hot key, admitted; our precise clock"),
    chart("admitted-others", "A hot key, admitted; our coarse clock, beside other languages"),
    chart("refused-coarse", "A hot key, refused; our coarse clock"),
    chart("refused-precise", "A hot key, refused; our precise clock"),
    chart("refused-others", "A hot key, refused; our coarse clock, beside other languages"),
  ],
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
    "programs in other languages beside our precise clock",
    "@nestjs/throttler beyond 1,000 calls for a key: it walks over all that it admitted in the window",
    "a process with several tables",
  ],
};
