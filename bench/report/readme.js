// The figures in the documents, out of the run that is committed: a short table
// in README.md, all tables in docs/figures.md. `node bench/report/readme.js`
// writes them anew between the two comments that mark them.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readRun } from "./json.js";
import { between, number, place, verdict } from "./tables.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

export const BEGIN = "<!-- figures: from bench/figures.json, by node bench/report/readme.js -->";
export const END = "<!-- /figures -->";

/**
 * Rows of README.md: samples of a question, or of the figures that are so named
 * the least, under a name that a reader knows.
 */
const rows = [
  {
    id: "hot",
    text: "a hot key, coarse / precise clock",
    series: "sluice key()",
    charts: ["admitted-coarse", "admitted-precise"],
  },
  {
    id: "hot",
    text: "one `performance.now()`, for comparison",
    series: "one performance.now()",
    charts: ["admitted-coarse"],
  },
  {
    id: "keys",
    text: "10,000 string keys, coarse clock: decisions a second, against the best rival in Node",
    figure: /^sluice allow, 10,000 keys, coarse.* of (?!Go)/,
  },
  { id: "keys", text: "1,000,000 string keys", figure: /^sluice allow, 1,000,000 keys, coarse.* of (?!Go)/ },
  {
    id: "keys",
    text: "1,000,000 string keys, in batches",
    figure: /^sluice allowMany, \d+, 1,000,000 keys, coarse.* of (?!Go)/,
  },
  {
    id: "keys",
    text: "1,000,000 string keys, against Go",
    figure: /^sluice allow, 1,000,000 keys, coarse.* of Go/,
    needsToolchain: true,
  },
  {
    id: "keys",
    text: "1,000,000 string keys in batches, against Go",
    figure: /^sluice allowMany, \d+, 1,000,000 keys, coarse.* of Go/,
    needsToolchain: true,
  },
  { id: "memory", text: "bytes a key", figure: /^bytes a key$/ },
  {
    id: "threads",
    text: "two threads against one, string keys of their own",
    figure: /^own keys, strings, precise clock: two workers/,
  },
  {
    id: "waiters",
    text: "100,000 waiters: 99 of 100 wake up late by at most",
    figure: /^sluice wait, a key each: 99 of 100/,
  },
  { id: "waiters", text: "memory of a waiter", figure: /^sluice wait, a key each: bytes/ },
];

const cell = (text) => text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
const times = (text) => text.replaceAll(" x", " ×");

function markdownTable(head, lines) {
  const line = (cells) => `| ${cells.map(cell).join(" | ")} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? "---" : "---:"))), ...lines.map(line)].join("\n");
}

const measuredText = ({ measured, spread, unit = "" }) =>
  times(number(measured, unit)) + (spread ? ` (${between(spread)})` : "");

function rowValue({ id, series, charts, figure }, { samples, figures }) {
  if (figure) {
    const found = figures.filter(({ name }) => figure.test(name));
    if (found.length === 0) throw new Error(`the question "${id}" has no figure ${figure}: README.md expects one`);
    const least = found.reduce((a, b) => (a.measured <= b.measured ? a : b));
    const [, rival] = /: decisions\/s of ([^:]+)$/.exec(least.name) ?? [];
    return measuredText(least) + (rival ? `, ${rival}` : "");
  }
  return charts.map((chart) => {
    const found = samples.find((sample) => sample.chart === chart && sample.series === series);
    if (!found) throw new Error(`the question "${id}" has no ${series} in ${chart}: README.md expects one`);
    return number(found.median, ` ${found.unit}`);
  }).join(" / ");
}

const conditions = ({ small, machine, startedAt }) =>
  [
    `${machine.cpu}, ${machine.cores} cores, ${machine.platform}, Node ${
      machine.node.slice(1)
    }, commit ${machine.commit}${machine.dirty ? " with changes" : ""}, ${startedAt.slice(0, 10)}.`,
    ...(small ? ["A small run, which shows that all works: its figures are of no use."] : []),
    ...(machine.quiet
      ? []
      : [`The machine was not quiet (${machine.unquietBecause}): ratios stand, absolute times may be too long.`]),
  ].join(" ");

/** The table of README.md. A question that is not in the run has no row, nor has a rival whose toolchain was not there. */
export function readmeTable(run) {
  const found = rows.flatMap((row) => {
    const answer = run.questions.find(({ id }) => id === row.id);
    if (row.needsToolchain && !answer?.figures.some(({ name }) => row.figure.test(name))) return [];
    return answer ? [[row.text, rowValue(row, answer)]] : [];
  });
  return `${conditions(run)}\n\n${markdownTable(["", "median (quartiles)"], found)}`;
}

/** Charts of bars with the same axis side by side, a row a series. */
function barTables(charts, samples) {
  const labels = [...new Set(charts.map(({ y }) => y.label))];
  return labels.map((label) => {
    const own = charts.filter(({ y }) => y.label === label);
    const series = [
      ...new Set(samples.filter(({ chart }) => own.some(({ id }) => id === chart)).map(({ series }) => series)),
    ];
    const lines = series.map((name) => [
      name,
      ...own.map(({ id }) => {
        const found = samples.find((sample) => sample.chart === id && sample.series === name);
        return found ? `${number(found.median)} (${between(found)})` : "";
      }),
    ]);
    return markdownTable([label, ...own.map(({ title }) => title)], lines);
  });
}

/** Columns of x that a page has room for. */
const MOST_COLUMNS = 8;

function lineTable({ id, title, x, y }, samples) {
  const own = samples.filter(({ chart }) => chart === id);
  const all = [...new Set(own.map((sample) => sample.x))];
  const step = Math.ceil(all.length / MOST_COLUMNS);
  const shown = all.filter((_, i) => (all.length - 1 - i) % step === 0);
  const lines = [...new Set(own.map(({ series }) => series))].map((series) => [
    series,
    ...shown.map((at) => {
      const found = own.find((sample) => sample.series === series && sample.x === at);
      return found ? number(found.median) : "";
    }),
  ]);
  return markdownTable([
    `${title}: ${y.label}, by ${x.label}`,
    ...shown.map((at) => (x.label === "percentile" && at === 100 ? "max" : place(at))),
  ], lines);
}

function figureLines(figures) {
  return figures.map((figure) => {
    const { name, unit = "", most, least } = figure;
    const asked = most !== undefined
      ? `at most ${number(most, unit)}`
      : least !== undefined
      ? `at least ${number(least, unit)}`
      : "";
    return [name, measuredText(figure), times(asked), asked === "" ? "" : verdict(figure)];
  });
}

function section({ question, size, charts, samples, figures, notMeasured, failed = [] }) {
  const drawn = charts.filter(({ id }) => samples.some(({ chart }) => chart === id));
  return [
    `## ${question}`,
    `${size}.`,
    ...barTables(drawn.filter(({ kind }) => kind === "bars"), samples),
    ...drawn.filter(({ kind }) => kind !== "bars").map((chart) => lineTable(chart, samples)),
    ...(figures.length > 0 ? [markdownTable(["figure", "measured", "asked", "verdict"], figureLines(figures))] : []),
    ...failed.map((message) => `A case failed and is missing here: ${message}.`),
    `Not measured: ${notMeasured.join("; ")}.`,
  ].join("\n\n");
}

/** The tables of docs/figures.md. */
export function figuresPage(run) {
  const rivals = run.rivals.map((
    { name, version, what, absent },
  ) => [name, absent === undefined ? version : "absent", absent === undefined ? what : absent]);
  return [
    conditions(run),
    ...run.questions.map(section),
    "## The rivals",
    markdownTable(["rival", "version", "what is measured of it"], rivals),
  ].join("\n\n");
}

/** `text` with what stands between the two comments made anew. */
export function withFigures(path, text, made) {
  const from = text.indexOf(BEGIN);
  const to = text.indexOf(END);
  if (from < 0 || to < from) throw new Error(`${path} expected ${BEGIN} and then ${END}`);
  return `${text.slice(0, from)}${BEGIN}\n\n${made}\n\n${text.slice(to)}`;
}

/** The documents as they are and as they should be. */
export function documents() {
  const run = readRun(`${root}bench/figures.json`);
  return [{ path: "README.md", make: readmeTable }, { path: "docs/figures.md", make: figuresPage }].map(
    ({ path, make }) => {
      const text = readFileSync(root + path, "utf8");
      return { path, text, expected: withFigures(path, text, make(run)) };
    },
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const { path, expected } of documents()) writeFileSync(root + path, expected);
}
