// What a benchmark says in a terminal: the machine first, then tables, then
// each figure beside what is asked of it, and last what was not measured.

/** Columns of x that a terminal has room for. */
const MOST_COLUMNS = 8;

/** Where and of what the figures are. */
export function machineLines(
  { cpu, cores, memoryGiB, platform, loadAtStart, node, v8, commit, dirty, quiet, unquietBecause },
) {
  return [
    `machine  ${cpu}; ${cores} cores, ${memoryGiB} GiB, ${platform}`,
    `load     ${loadAtStart.map((load) => load.toFixed(2)).join(" ")} (1, 5, 15 minutes) at the start`,
    `node     ${node}, V8 ${v8}`,
    `commit   ${commit}${dirty ? ", dirty" : ""}`,
    `quiet    ${quiet ? "yes" : `no: ${unquietBecause}`}`,
  ].join("\n");
}

/** Rows of cells in columns: the first to the left, the others to the right. */
export function table(head, rows) {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column].length)));
  const line = (row) =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join("  ").trimEnd();
  return [line(head), widths.map((width) => "-".repeat(width)).join("  "), ...rows.map(line)].join("\n");
}

export function number(value, unit = "") {
  const text = Number.isInteger(value) ? value.toLocaleString("en") : Math.abs(value) >= 1000
    ? Math.round(value).toLocaleString("en")
    : Math.abs(value) >= 100
    ? value.toFixed(0)
    : Math.abs(value) >= 10
    ? value.toFixed(1)
    : Math.abs(value) >= 0.1
    ? value.toFixed(2)
    : value.toPrecision(2);
  return text + unit;
}

/** What stands on an axis, as it was given. */
export function place(x) {
  return typeof x === "number" && x >= 1000 ? number(x) : String(x);
}

export function between({ lower, upper }, unit = "") {
  return `${number(lower, unit)} to ${number(upper, unit)}`;
}

/** Met or not, by the median; and whether the quartiles lie on both sides of what is asked. */
export function verdict({ measured, spread, most, least }) {
  const asked = most ?? least;
  if (asked === undefined) return "for information";
  const isMet = most === undefined ? measured >= least : measured <= most;
  const isClose = spread !== undefined && spread.lower < asked && asked < spread.upper;
  return (isMet ? "met" : "NOT met") + (isClose ? ", within the spread" : "");
}

/** @param {import('./json.js').Figure[]} figures */
export function figureTable(figures) {
  return table(
    ["figure", "measured", "quartiles", "asked", "verdict"],
    figures.map((figure) => {
      const { name, measured, spread, unit = "", most, least } = figure;
      const asked = most !== undefined
        ? `at most ${number(most, unit)}`
        : least !== undefined
        ? `at least ${number(least, unit)}`
        : "-";
      return [name, number(measured, unit), spread ? between(spread, unit) : "-", asked, verdict(figure)];
    }),
  );
}

/** A chart of bars, best first: medians and quartiles. */
function barTable({ title, y, better }, samples) {
  const sign = better === "lower" ? 1 : -1;
  const rows = samples.toSorted((a, b) => sign * (a.median - b.median)).map((
    sample,
  ) => [sample.series, number(sample.median), between(sample), String(sample.count)]);
  return table([title, y.label, "quartiles", "of"], rows);
}

/** A chart over x: a row of medians for each series. */
function lineTable({ title, x, y }, samples) {
  const all = [...new Set(samples.map((sample) => sample.x))].sort((a, b) => a - b);
  const step = Math.ceil(all.length / MOST_COLUMNS);
  const shown = all.filter((_, i) => (all.length - 1 - i) % step === 0);
  const rows = [...new Set(samples.map(({ series }) => series))].map((series) => [
    series,
    ...shown.map((at) => {
      const found = samples.find((sample) => sample.series === series && sample.x === at);
      return found ? number(found.median) : "-";
    }),
  ]);
  return table([`${title}, ${y.label}; ${x.label}:`, ...shown.map(place)], rows);
}

/** @param {import('./json.js').Answer} answer */
export function answerTables({ question, size, charts, samples, figures, notMeasured, failed = [] }) {
  const drawn = charts.map((chart) => [chart, samples.filter((sample) => sample.chart === chart.id)]).filter((
    [, own],
  ) => own.length > 0);
  return [
    `# ${question}\n${size}`,
    ...drawn.map(([chart, own]) => (chart.kind === "bars" ? barTable : lineTable)(chart, own)),
    ...(figures.length > 0 ? [figureTable(figures)] : []),
    ...failed.map((message) => `failed: ${message}`),
    `Not measured: ${notMeasured.join("; ")}.`,
  ].join("\n\n");
}
