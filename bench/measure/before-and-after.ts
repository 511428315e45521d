// Programs in other languages cannot take turns with us in a round. Half of
// their rounds run before ours and half after, so a drift shows in their spread.

import type { Sample } from "../report/run.js";
import { outside } from "../rivals/index.js";
import type { OutsideOptions, OutsideQuestion } from "../rivals/rival.js";
import { type Quartiles, quartiles, sample } from "./statistics.js";

/** Nanoseconds a decision in every round of a program's case. */
export interface OutsideTimes {
  name: string;
  case: string;
  values: number[];
}

export interface OutsideRun<T> {
  ours: T;
  theirs: OutsideTimes[];
}

/**
 * Measures the programs that can run here, then `measureOurs`, then the programs
 * again. A small run measures the programs once.
 */
export async function withOutside<T>(
  question: OutsideQuestion,
  { rounds, ...options }: OutsideOptions,
  small: boolean,
  measureOurs: () => Promise<T>,
): Promise<OutsideRun<T>> {
  const theirs: OutsideTimes[] = [];
  const half = async (): Promise<void> => {
    for (const { name, absent, measure } of outside) {
      if (absent() !== undefined) continue;
      const halfOf = { rounds: Math.ceil(rounds / 2), warmUpMs: small ? 20 : 1000, ...options };
      for (const { case: what, values } of await measure(question, halfOf)) {
        const known = theirs.find((each) => each.name === name && each.case === what);
        if (known) known.values.push(...values);
        else theirs.push({ name, case: what, values });
      }
    }
  };
  await half();
  const ours = await measureOurs();
  if (!small) await half();
  return { ours, theirs };
}

/** The programs' samples for a chart of ours. */
export function outsideSamples(
  chart: string,
  x: number | null,
  theirs: OutsideTimes[],
  nameOf: (each: OutsideTimes) => string,
): Sample[] {
  return theirs.map((each) => sample(chart, nameOf(each), x, "ns", each.values));
}

/** The quartiles of the quickest program; undefined if there is none. */
export function quickest(theirs: OutsideTimes[]): Quartiles | undefined {
  return theirs.map(({ values }) => quartiles(values)).sort((a, b) => a.median - b.median)[0];
}
