// Two runs side by side, sample by sample.

import { number } from "./numbers.js";
import { type Chart, type Run, RunError, type Sample } from "./run.js";
import { table } from "./tables.js";

interface Pair {
  /** The question. */
  id: string;
  /** Says which direction is better. */
  chart: Chart;
  before: Sample;
  after: Sample;
}

/** The samples that both runs have, in the order of `b`. */
function pairs(a: Run, b: Run): Pair[] {
  const nameOf = (id: string, { chart, series, x }: Sample): string => JSON.stringify([id, chart, series, x]);
  const olds = new Map(a.questions.flatMap(({ id, samples }) => samples.map((sample) => [nameOf(id, sample), sample])));
  return b.questions.flatMap(({ id, charts, samples }) =>
    samples.flatMap((after) => {
      const before = olds.get(nameOf(id, after));
      const chart = charts.find((chart) => chart.id === after.chart);
      return before && chart ? [{ id, chart, before, after }] : [];
    })
  );
}

type Verdict = "WORSE" | "better" | "";

interface Row {
  verdict: Verdict;
  cells: string[];
}

/** A sample is worse if its cost, or in a chart where higher is better its inverse, rose by more than the tolerance. */
function rowOf({ id, chart, before, after }: Pair, tolerance: number): Row {
  // Both can be 0: then no key was unblocked in either run.
  const ratio = before.median === after.median ? 1 : after.median / before.median;
  const cost = chart.better === "lower" ? ratio : 1 / ratio;
  const verdict: Verdict = cost > 1 + tolerance ? "WORSE" : cost < 1 / (1 + tolerance) ? "better" : "";
  const overlaps = after.lower <= before.upper && before.lower <= after.upper;
  return {
    verdict,
    cells: [
      [id, chart.id, after.series, ...(after.x === null ? [] : [String(after.x)])].join(" / "),
      number(before.median, ` ${before.unit}`),
      number(after.median, ` ${after.unit}`),
      ratio.toFixed(3),
      overlaps ? "yes" : "no",
      verdict,
    ],
  };
}

export interface Comparison {
  text: string;
  /** Whether a sample is worse by more than the tolerance. */
  isWorse: boolean;
}

/**
 * Medians new / old. `tolerance` is a share.
 *
 * @throws RunError if the runs cannot be compared.
 */
export function compare(old: Run, run: Run, tolerance: number): Comparison {
  if (old.small !== run.small) throw new RunError("a small run and a full one have nothing to compare");
  const rows = pairs(old, run).map((pair) => rowOf(pair, tolerance));
  if (rows.length === 0) throw new RunError("the two runs have no sample in common");
  const worse = rows.filter(({ verdict }) => verdict === "WORSE").length;
  const differing = (["cpu", "cores", "platform", "node"] as const).filter((name) =>
    old.machine[name] !== run.machine[name]
  );
  return {
    isWorse: worse > 0,
    text: [
      `# ${old.machine.commit} of ${old.startedAt} and ${run.machine.commit} of ${run.startedAt}`,
      ...differing.map((name) => `not the same ${name}: ${old.machine[name]}, ${run.machine[name]}`),
      ...[old, run].filter(({ machine }) => !machine.quiet).map(({ startedAt, machine }) =>
        `the run of ${startedAt} was not quiet: ${machine.unquietBecause}`
      ),
      table(["sample", "old", "new", "new / old", "quartiles overlap", ""], rows.map(({ cells }) => cells)),
      `${worse} of ${rows.length} samples are worse by more than ${(100 * tolerance).toFixed(0)} %`,
    ].join("\n\n"),
  };
}
