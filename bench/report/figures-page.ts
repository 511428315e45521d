// The tables of docs/figures.md: every chart and every figure with its spread, the
// rivals, and what was not measured. Targets are for the bench's own page.

import { conditions, figureText, markdownTable, sampleText } from "./markdown.js";
import { place } from "./numbers.js";
import type { Answer, Chart, Run, Sample } from "./run.js";
import { drawnCharts, shownPlaces } from "./tables.js";

const seriesOf = (samples: Sample[]): string[] => [...new Set(samples.map(({ series }) => series))];

/** Charts of bars with the same axis, side by side: a row a series. */
function barTables(drawn: [Chart, Sample[]][]): string[] {
  const labels = [...new Set(drawn.map(([{ y }]) => y.label))];
  return labels.map((label) => {
    const charts = drawn.filter(([{ y }]) => y.label === label);
    const rows = seriesOf(charts.flatMap(([, samples]) => samples)).map((name) => [
      name,
      ...charts.map(([, samples]) => {
        const found = samples.find(({ series }) => series === name);
        return found ? sampleText(found) : "";
      }),
    ]);
    return markdownTable([label, ...charts.map(([{ title }]) => title)], rows);
  });
}

/** A chart over x: a row a series. */
function lineTable([{ title, x, y }, samples]: [Chart, Sample[]]): string {
  const shown = shownPlaces(samples);
  const rows = seriesOf(samples).map((name) => [
    name,
    ...shown.map((at) => {
      const found = samples.find((sample) => sample.series === name && sample.x === at);
      return found ? sampleText(found) : "";
    }),
  ]);
  const nameOf = (at: Sample["x"]): string => (x?.label === "percentile" && at === 100 ? "max" : place(at));
  return markdownTable([`${title}: ${y.label}, by ${x?.label}`, ...shown.map(nameOf)], rows);
}

function section(answer: Answer): string {
  const { question, size, figures, notMeasured, failed = [] } = answer;
  const drawn = drawnCharts(answer);
  const figureRows = figures.map((figure) => [figure.name, figureText(figure)]);
  return [
    `## ${question}`,
    `${size}.`,
    ...barTables(drawn.filter(([{ kind }]) => kind === "bars")),
    ...drawn.filter(([{ kind }]) => kind !== "bars").map(lineTable),
    ...(figures.length > 0 ? [markdownTable(["figure", "measured"], figureRows)] : []),
    ...failed.map((message) => `A case failed and is missing here: ${message}.`),
    `Not measured: ${notMeasured.join("; ")}.`,
  ].join("\n\n");
}

export function figuresPage(run: Run): string {
  const rivals = run.rivals.map(({ name, version = "", what, absent }) =>
    absent === undefined ? [name, version, what] : [name, "absent", absent]
  );
  return [
    conditions(run),
    ...run.questions.map(section),
    "## The rivals",
    markdownTable(["rival", "version", "what is measured of it"], rivals),
  ].join("\n\n");
}
