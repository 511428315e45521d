// A run in a terminal: the machine, tables of the samples, each figure with its
// target, and what was not measured.

import { between, number, place, targetText, verdict } from "./numbers.js";
import type { Answer, Chart, Figure, Machine, Sample } from "./run.js";

/** Columns of x that fit into a terminal. */
const MAX_COLUMNS = 8;

export function machineLines(machine: Machine): string {
  const { cpu, cores, memoryGiB, platform, loadAtStart, node, v8, commit, dirty, quiet, unquietBecause } = machine;
  return [
    `machine  ${cpu}; ${cores} cores, ${memoryGiB} GiB, ${platform}`,
    `load     ${loadAtStart.map((load) => load.toFixed(2)).join(" ")} (1, 5, 15 minutes) at the start`,
    `node     ${node}, V8 ${v8}`,
    `commit   ${commit}${dirty ? ", dirty" : ""}`,
    `quiet    ${quiet ? "yes" : `no: ${unquietBecause}`}`,
  ].join("\n");
}

/** Rows of cells in columns: the first to the left, the others to the right. */
export function table(head: string[], rows: string[][]): string {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column].length)));
  const line = (row: string[]): string =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join("  ").trimEnd();
  return [line(head), widths.map((width) => "-".repeat(width)).join("  "), ...rows.map(line)].join("\n");
}

export function figureTable(figures: Figure[]): string {
  return table(
    ["figure", "measured", "quartiles", "target", "verdict"],
    figures.map((figure) => {
      const { name, measured, spread, unit = "" } = figure;
      const quartiles = spread ? between(spread, unit) : "-";
      return [name, number(measured, unit), quartiles, targetText(figure, unit) || "-", verdict(figure).text];
    }),
  );
}

/** At most `MAX_COLUMNS` of all places on an axis, the last one included. */
export function shownPlaces(samples: Sample[]): Sample["x"][] {
  const all = [...new Set(samples.map((sample) => sample.x))];
  const step = Math.ceil(all.length / MAX_COLUMNS);
  return all.filter((_, i) => (all.length - 1 - i) % step === 0);
}

/** A chart of bars, best first: medians and quartiles. */
function barTable({ title, y, better }: Chart, samples: Sample[]): string {
  const sign = better === "lower" ? 1 : -1;
  const rows = samples.toSorted((a, b) => sign * (a.median - b.median)).map((
    sample,
  ) => [sample.series, number(sample.median), between(sample), String(sample.count)]);
  return table([title, y.label, "quartiles", "of"], rows);
}

/** A chart over x: a row of medians for each series. */
function lineTable({ title, x, y }: Chart, samples: Sample[]): string {
  const ordered = samples.toSorted((a, b) => Number(a.x) - Number(b.x));
  const shown = shownPlaces(ordered);
  const rows = [...new Set(samples.map(({ series }) => series))].map((series) => [
    series,
    ...shown.map((at) => {
      const found = samples.find((sample) => sample.series === series && sample.x === at);
      return found ? number(found.median) : "-";
    }),
  ]);
  return table([`${title}, ${y.label}; ${x?.label}:`, ...shown.map(place)], rows);
}

/** The charts of a question that have samples, with these. */
export function drawnCharts({ charts, samples }: Pick<Answer, "charts" | "samples">): [Chart, Sample[]][] {
  return charts.map((chart): [Chart, Sample[]] => [chart, samples.filter((sample) => sample.chart === chart.id)])
    .filter(([, own]) => own.length > 0);
}

export function answerTables(answer: Omit<Answer, "id" | "tookMs">): string {
  const { question, size, figures, notMeasured, failed = [] } = answer;
  return [
    `# ${question}\n${size}`,
    ...drawnCharts(answer).map(([chart, own]) => (chart.kind === "bars" ? barTable : lineTable)(chart, own)),
    ...(figures.length > 0 ? [figureTable(figures)] : []),
    ...failed.map((message) => `failed: ${message}`),
    `Not measured: ${notMeasured.join("; ")}.`,
  ].join("\n\n");
}
