// Programs outside of ours cannot take turns with us in a round. So they are
// run before our rounds and after them, half of theirs each time: what drifts
// meanwhile shows in their spread.

import { outside } from "./rivals/index.js";
import { quartiles, sample } from "./rounds.js";

/**
 * What `measureOurs` resolves to, and what the programs that are here found:
 * `{ name, case, values }`, nanoseconds a decision of every round.
 *
 * @param {string} question theirs, with `params` (rivals/go.js)
 */
export async function withOutside(question, { rounds, ...params }, small, measureOurs) {
  const found = [];
  const half = async () => {
    for (const { name, absent, measure } of outside) {
      if (absent() !== undefined) continue;
      for (
        const { case: what, values } of await measure(question, {
          rounds: Math.ceil(rounds / 2),
          warmUpMs: small ? 20 : 1000,
          ...params,
        })
      ) {
        const known = found.find((each) => each.name === name && each.case === what);
        if (known) known.values.push(...values);
        else found.push({ name, case: what, values });
      }
    }
  };
  await half();
  const ours = await measureOurs();
  if (!small) await half();
  return { ours, theirs: found };
}

/** Their samples in a chart of ours. */
export function outsideSamples(chart, x, theirs, nameOf) {
  return theirs.map((each) => sample(chart, nameOf(each), x, "ns", each.values));
}

/** The quartiles of the quickest of those that `isMeant`; undefined if none is here. */
export function quickest(theirs, isMeant) {
  return theirs.filter(isMeant).map(({ values }) => quartiles(values)).sort((a, b) => a.median - b.median)[0];
}
