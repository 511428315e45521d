// Every kind of limiter beside the token bucket: on a hot key with each clock,
// and among a million keys. What is asked of the kinds is asked by the precise
// clock, the default: by the coarse one a hot token bucket takes 9 ns, next to
// which everything is a multiple.

import { Sluice } from "sluice";
import { draws, userId } from "../addresses.js";
import { kindNames, limiterOf, placeOf, REFERENCE } from "../every-kind.js";
import { fill, singly } from "../keyed.js";
import { askOneKey } from "../loops.js";
import { costRatio, interleave, ratioFigure, sample, WARM } from "../rounds.js";

const HOT_DECISIONS = 5000;
const DECISIONS = 8000;

/** What is asked of a kind's cost, times the token bucket's, by where its state lies. */
const most = { word: 1.2, line: 3 };

const keysOf = (small) => (small ? 2000 : 1_000_000);
const roundsOf = (small) => (small ? 8 : 100);
const decisionsOf = (small) => (small ? 1000 : DECISIONS);

const found = (chart, times, isAsked) => ({
  samples: [...times].map(([kind, ns]) => sample(chart, kind, null, "ns", ns)),
  figures: kindNames.filter((kind) => kind !== REFERENCE)
    .map((kind) =>
      ratioFigure(
        `${kind}, ${chart}: cost of ${REFERENCE}`,
        costRatio(times, kind, REFERENCE),
        isAsked ? { most: most[placeOf(kind)] } : {},
      )
    ),
});

const hot = (clock) => async (small) => {
  const sluice = Sluice.create({ capacity: 1000, clock });
  const entrants = kindNames.map((kind) => {
    const key = limiterOf(sluice, kind).key("hot");
    // The sliding counter's limit is spent in a long run.
    return {
      name: kind,
      run: askOneKey(() => key.allow(), undefined, HOT_DECISIONS),
      isRight: (admitted) => admitted === HOT_DECISIONS || kind !== REFERENCE,
    };
  });
  const times = await interleave(entrants, { rounds: 2 * roundsOf(small), decisions: HOT_DECISIONS, slots: WARM });
  sluice.close();
  return found(`hot, ${clock}`, times, clock === "precise");
};

async function million(small) {
  const keys = keysOf(small);
  const rounds = roundsOf(small);
  const decisions = decisionsOf(small);
  const sluice = Sluice.create({ capacity: kindNames.length * keys, lineCapacity: 3 * keys, clock: "coarse" });
  const limiters = kindNames.map((kind) => limiterOf(sluice, kind));
  await fill(limiters.map((limiter) => (key) => limiter.allow(key)), keys, userId);
  const work = { order: draws(3 * rounds * decisions, keys), keyOf: userId, decisions };
  const times = await interleave(kindNames.map((kind, i) => singly(kind, (key) => limiters[i].allow(key), work)), {
    rounds,
    decisions,
    slots: WARM,
  });
  sluice.close();
  return found("million", times, true);
}

const chart = (id, title) => ({
  id,
  title,
  kind: "bars",
  x: null,
  y: { label: "ns a decision", scale: "linear" },
  better: "lower",
});

export const question = {
  question: "What does each kind of limiter cost beside the token bucket?",
  size: (small) =>
    `${2 * roundsOf(small)} rounds of ${HOT_DECISIONS} decisions each on a hot key; ${roundsOf(small)} of ${
      decisionsOf(small)
    } among ${keysOf(small).toLocaleString("en")} numbers as keys, by the coarse clock`,
  charts: [
    chart("hot, precise", "A hot key, precise clock"),
    chart("hot, coarse", "A hot key, coarse clock"),
    chart("million", "A key out of many, beyond the caches"),
  ],
  cases: { "hot, precise": hot("precise"), "hot, coarse": hot("coarse"), million },
  notMeasured: ["refusals", "several threads (threads)", "string keys, whose cost is in all kinds alike"],
};
