// A run as one page: no script, no network, light and dark, for a phone and for
// paper. First the machine, the targets and what was measured; then a section for
// each question.

import { html as markup, raw } from "hono/html";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { benchFolder } from "../paths.js";
import { between, hasTarget, number, place, targetText, verdict, withTimesSign } from "./numbers.js";
import { draw } from "./plots/draw.js";
import { oursIn } from "./plots/looks.js";
import type { Answer, Chart, Figure, RivalEntry, Run, Sample } from "./run.js";
import { drawnCharts } from "./tables.js";

type Markup = ReturnType<typeof markup>;

const css = readFileSync(join(benchFolder, "report", "page.css"), "utf8");

function durationOf(ms: number): string {
  return ms >= 120_000 ? `${Math.round(ms / 60_000)} minutes` : `${Math.round(ms / 1000)} seconds`;
}

const dateOf = (iso: string): string => iso.replace("T", ", ").replace(/:\d\d\.\d+Z$/, " UTC");

// --- tables ---------------------------------------------------------------------

function verdictMark(figure: Figure): Markup {
  const { isMet, isClose, text } = verdict(figure);
  if (isMet === undefined) return markup`<span class="verdict plain">${text}</span>`;
  const kind = isClose ? "close" : isMet ? "met" : "missed";
  return markup`<span class="verdict ${kind}">${isMet ? "✓" : "✗"} ${text}</span>`;
}

/** The head of a table. Columns of values are aligned to the right. */
function tableHead(columns: { text: string; isValue?: boolean }[]): Markup {
  const cells = columns.map(({ text, isValue = false }) =>
    isValue ? markup`<th scope="col" class="value">${text}</th>` : markup`<th scope="col">${text}</th>`
  );
  return markup`<thead><tr>${cells}</tr></thead>`;
}

const rowName = (text: string): Markup => markup`<th scope="row">${text}</th>`;
const value = (text: string): Markup => markup`<td class="value">${text}</td>`;

function figureRow(figure: Figure): Markup {
  const { name, measured, spread, unit = "" } = figure;
  const median = markup`<td class="value measured">${withTimesSign(number(measured, unit))}</td>`;
  const quartiles = value(spread ? withTimesSign(between(spread)) : "");
  const target = value(withTimesSign(targetText(figure, unit)));
  return markup`<tr>${rowName(name)}${median}${quartiles}${target}<td>${verdictMark(figure)}</td></tr>`;
}

function figureTable(caption: string, rows: Markup | Markup[]): Markup {
  const head = tableHead([
    { text: "figure" },
    { text: "measured", isValue: true },
    { text: "quartiles", isValue: true },
    { text: "target", isValue: true },
    { text: "verdict" },
  ]);
  return markup`<table class="figures">${caption && markup`<caption>${caption}</caption>`}${head}${rows}</table>`;
}

function sampleRow(sample: Sample, chart: Chart, isOurs: boolean): Markup {
  const { series, x, unit, median, lower, upper, count } = sample;
  const at = chart.x ? [place(x)] : [];
  const values = [...at, number(median, ` ${unit}`), number(lower), number(upper), number(count)].map(value);
  return markup`<tr class="${isOurs ? "ours" : "theirs"}">${rowName(series)}${values}</tr>`;
}

function sampleTable(chart: Chart, samples: Sample[]): Markup {
  const isOurs = oursIn(samples);
  const head = tableHead([
    { text: "of" },
    ...[...(chart.x ? [chart.x.label] : []), "median", "lower quartile", "upper quartile", "measurements"]
      .map((text) => ({ text, isValue: true })),
  ]);
  const rows = samples.map((sample) => sampleRow(sample, chart, isOurs(sample)));
  const caption = markup`<caption>${chart.title}, ${chart.y.label}</caption>`;
  const table = markup`<table>${caption}${head}<tbody>${rows}</tbody></table>`;
  return markup`<details><summary>The values as a table</summary>
<div class="scroll" tabindex="0">${table}</div></details>`;
}

// --- a question -----------------------------------------------------------------

/** How to read a chart. */
function caption(chart: Chart, samples: Sample[]): string {
  const better = chart.better === "lower" ? "Less is better" : "More is better";
  const spread = { bars: "whiskers", lines: "whiskers", time: "the band", percentiles: "" }[chart.kind];
  const spans = spread === "" ? "" : `; ${spread} ${spread === "the band" ? "spans" : "span"} the quartiles`;
  const hasRatios = chart.kind === "bars" && !samples.every(oursIn(samples));
  return `${better}${spans}${hasRatios ? "; in brackets, the multiple of our best" : ""}.`;
}

function chartFigure(id: string, chart: Chart, samples: Sample[], rivals: string[]): Markup {
  const { drawings, legend } = draw(chart, samples, rivals);
  const drawn = drawings.map(({ name, svg }) => markup`<div class="${name}">${raw(svg)}</div>`);
  const names = chart.kind === "bars"
    ? ""
    : markup`<ul class="legend">${legend.map(({ series, svg }) => markup`<li>${raw(svg)}${series}</li>`)}</ul>`;
  return markup`<figure id="${id}-${chart.id}"><h3>${chart.title}</h3><figcaption>${
    caption(chart, samples)
  }</figcaption>${drawn}${names}${sampleTable(chart, samples)}</figure>`;
}

function section(answer: Answer, rivals: string[]): Markup {
  const { id, question, size, tookMs, figures, notMeasured, failed = [] } = answer;
  const figureList = markup`<h3>Figures</h3>${figureTable("", markup`<tbody>${figures.map(figureRow)}</tbody>`)}`;
  return markup`<section id="${id}"><h2>${question}</h2><p class="size">${size}; took ${durationOf(tookMs)}</p>
${failed.map((message) => markup`<p class="warning">A case failed and is missing here: ${message}</p>`)}
${drawnCharts(answer).map(([chart, own]) => chartFigure(id, chart, own, rivals))}
${figures.length > 0 ? figureList : ""}
<h3>Not measured</h3><ul class="not-measured">${notMeasured.map((each) => markup`<li>${each}</li>`)}</ul></section>`;
}

// --- the page -------------------------------------------------------------------

function machineList({ startedAt, tookMs, machine }: Run): Markup {
  const { cpu, cores, memoryGiB, platform, node, v8, commit, dirty, loadAtStart, quiet } = machine;
  const rows = [
    ["machine", `${cpu}; ${cores} cores, ${memoryGiB} GiB, ${platform}`],
    ["Node", `${node}, V8 ${v8}`],
    ["commit", `${commit}${dirty ? ", with changes that are not committed" : ""}`],
    ["when", `${dateOf(startedAt)}; took ${durationOf(tookMs)}`],
    ["load at the start", `${loadAtStart.map((load) => load.toFixed(2)).join(", ")} (1, 5 and 15 minutes)`],
    ["quiet", quiet ? "yes" : "no, see above"],
  ];
  return markup`<dl>${rows.map(([name, value]) => markup`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

function warnings({ small, machine }: Run): Markup {
  const smallRun = markup`<p class="warning"><strong>A small run.</strong>
It shows that everything works; its figures mean nothing.</p>`;
  const noise = markup`<p class="warning"><strong>The machine was not quiet:</strong> ${machine.unquietBecause}.
Ratios within a round hold; absolute times may be too long.</p>`;
  return markup`${small ? smallRun : ""}
${machine.quiet ? "" : noise}`;
}

function summary(run: Run): Markup {
  const groups = run.questions.map(({ id, question, figures }) => ({
    id,
    question,
    figures: figures.filter(hasTarget),
  })).filter(({ figures }) => figures.length > 0);
  const verdicts = groups.flatMap(({ figures }) => figures.map(verdict));
  const met = verdicts.filter(({ isMet }) => isMet).length;
  const rows = groups.map(({ id, question, figures }) =>
    markup`<tbody><tr class="group"><th scope="rowgroup" colspan="5"><a href="#${id}">${question}</a></th></tr>${
      figures.map(figureRow)
    }</tbody>`
  );
  const count = verdicts.length > 0 ? `${met} of ${verdicts.length} targets are met.` : "";
  return markup`<p class="lead">Rate limiters for Node.js worker threads. ${count}</p>
${warnings(run)}
${machineList(run)}
${groups.length > 0 ? figureTable("The targets, and what was measured: medians and quartiles", rows) : ""}`;
}

function rivalTable(rivals: RivalEntry[]): Markup {
  const head = tableHead(["rival", "version", "what is measured of it"].map((text) => ({ text })));
  const rows = rivals.map(({ name, version, what, absent }) => {
    const mark = absent === undefined ? version : markup`<span class="verdict close">absent</span>`;
    const why = absent === undefined ? "" : markup`<br>Absent: ${absent}`;
    return markup`<tr>${rowName(name)}<td>${mark}</td><td>${what}${why}</td></tr>`;
  });
  return markup`<section id="rivals"><h2>The rivals</h2>
<p class="size">Each at its best settings, in the version named here.</p>
<div class="scroll"><table>${head}<tbody>${rows}</tbody></table></div></section>`;
}

/** Every series of the run that is not ours, in order of appearance. */
function rivalSeries({ questions }: Run): string[] {
  const names = questions.flatMap(({ samples }) => {
    const isOurs = oursIn(samples);
    return samples.filter((sample) => !isOurs(sample)).map(({ series }) => series);
  });
  return [...new Set(names)];
}

export function html(run: Run): string {
  const { questions, rivals, machine, startedAt } = run;
  const series = rivalSeries(run);
  const contents = questions.map(({ id, question }) => markup`<li><a href="#${id}">${question}</a></li>`);
  return String(markup`<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sluice: benchmarks of ${machine.commit}</title><style>${raw(css)}</style></head>
<body><header><h1>sluice: benchmarks</h1></header><main>${summary(run)}
<nav aria-label="Contents"><h3>Contents</h3><ol>${contents}<li><a href="#rivals">The rivals</a></li></ol></nav>
${questions.map((answer) => section(answer, series))}
${rivalTable(rivals)}</main>
<footer>From the run of ${dateOf(startedAt)} by <code>npm run bench</code>.
A ratio is taken within a round, in which all entrants take turns at the same work.</footer></body></html>
`);
}
