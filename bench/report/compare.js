// Two runs side by side, sample by sample.

import { RunError } from "./json.js";
import { number, table } from "./tables.js";

/** What `a` and `b` share, in the order of `b`: pairs of samples with the chart that says which direction is better. */
function pairs(a, b) {
  const nameOf = (id, { chart, series, x }) => JSON.stringify([id, chart, series, x]);
  const olds = new Map(a.questions.flatMap(({ id, samples }) => samples.map((sample) => [nameOf(id, sample), sample])));
  return b.questions.flatMap(({ id, charts, samples }) =>
    samples.flatMap((sample) => {
      const old = olds.get(nameOf(id, sample));
      return old ? [{ id, chart: charts.find((chart) => chart.id === sample.chart), old, new: sample }] : [];
    })
  );
}

/**
 * Medians new / old. `isWorse` if one of them is worse by more than the
 * tolerance, a share: in a chart where lower is better above 1 + tolerance,
 * else below 1 / (1 + tolerance).
 *
 * @param {import('./json.js').Run} old
 * @param {import('./json.js').Run} run
 */
export function compare(old, run, tolerance) {
  if (old.small !== run.small) throw new RunError("a small run and a full one have nothing to compare");
  const found = pairs(old, run);
  if (found.length === 0) throw new RunError("the two runs have no sample in common");
  let worse = 0;
  const rows = found.map(({ id, chart, old: before, new: after }) => {
    // Both can be 0: nobody was unblocked, then as now.
    const ratio = before.median === after.median ? 1 : after.median / before.median;
    const cost = chart.better === "lower" ? ratio : 1 / ratio;
    const isWorse = cost > 1 + tolerance;
    if (isWorse) worse++;
    const verdict = isWorse ? "WORSE" : cost < 1 / (1 + tolerance) ? "better" : "";
    const touches = after.lower <= before.upper && before.lower <= after.upper;
    return [
      [id, chart.id, after.series, ...(after.x === null ? [] : [String(after.x)])].join(" / "),
      number(before.median, ` ${before.unit}`),
      number(after.median, ` ${after.unit}`),
      ratio.toFixed(3),
      touches ? "yes" : "no",
      verdict,
    ];
  });
  const differing = ["cpu", "cores", "platform", "node"].filter((name) => old.machine[name] !== run.machine[name]);
  return {
    isWorse: worse > 0,
    text: [
      `# ${old.machine.commit} of ${old.startedAt} and ${run.machine.commit} of ${run.startedAt}`,
      ...differing.map((name) => `not the same ${name}: ${old.machine[name]}, ${run.machine[name]}`),
      ...[old, run].filter(({ machine }) => !machine.quiet).map(({ startedAt, machine }) =>
        `the run of ${startedAt} was not quiet: ${machine.unquietBecause}`
      ),
      table(["sample", "old", "new", "new / old", "quartiles overlap", ""], rows),
      `${worse} of ${found.length} samples are worse by more than ${(100 * tolerance).toFixed(0)} %`,
    ].join("\n\n"),
  };
}
