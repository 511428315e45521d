// A run as one page: no script, no network, light and dark, for a phone and for
// paper. First what was asked and found, and where; then a section a question.

import { html as markup, raw } from "hono/html";
import { readFileSync } from "node:fs";
import { draw, oursIn } from "./plots.js";
import { between, number, place, verdict } from "./tables.js";

const css = readFileSync(new URL("page.css", import.meta.url), "utf8");

const times = (text) => text.replaceAll(" x", " ×");
const seconds = (ms) => (ms >= 120_000 ? `${Math.round(ms / 60_000)} minutes` : `${Math.round(ms / 1000)} seconds`);
const day = (iso) => iso.replace("T", ", ").replace(/:\d\d\.\d+Z$/, " UTC");

function mark(figure) {
  const said = verdict(figure);
  const kind = said === "for information"
    ? "told"
    : said.includes("spread")
    ? "close"
    : said.startsWith("met")
    ? "met"
    : "missed";
  const sign = { told: "", met: "✓ ", missed: "✗ ", close: said.startsWith("met") ? "✓ " : "✗ " }[kind];
  return markup`<span class="verdict ${kind}">${sign}${said}</span>`;
}

function figureRow(figure) {
  const { name, measured, spread, unit = "", most, least } = figure;
  const asked = most !== undefined
    ? `at most ${number(most, unit)}`
    : least !== undefined
    ? `at least ${number(least, unit)}`
    : "";
  return markup`<tr><th scope="row">${name}</th><td class="value measured">${
    times(number(measured, unit))
  }</td><td class="value">${spread ? times(between(spread)) : ""}</td><td class="value asked">${times(asked)}</td><td>${
    mark(figure)
  }</td></tr>`;
}

function figureTable(caption, rows) {
  return markup`<table class="figures">${
    caption && markup`<caption>${caption}</caption>`
  }<thead><tr><th scope="col">figure</th><th scope="col" class="value">measured</th><th scope="col" class="value">quartiles</th><th scope="col" class="value">asked</th><th scope="col">verdict</th></tr></thead>${rows}</table>`;
}

function sampleTable(chart, samples) {
  const isBars = chart.kind === "bars";
  const isOurs = oursIn(samples);
  const rows = samples.map((sample) => [sample, isOurs(sample)]).map((
    [{ series, x, unit, median, lower, upper, count }, ours],
  ) =>
    markup`<tr class="${ours ? "ours" : "theirs"}"><th scope="row">${series}</th>${
      isBars ? "" : markup`<td class="value">${place(x)}</td>`
    }<td class="value">${number(median, ` ${unit}`)}</td><td class="value">${number(lower)}</td><td class="value">${
      number(upper)
    }</td><td class="value">${number(count)}</td></tr>`
  );
  return markup`<details><summary>The values as a table</summary><div class="scroll" tabindex="0"><table><caption>${chart.title}, ${chart.y.label}</caption><thead><tr><th scope="col">of</th>${
    isBars ? "" : markup`<th scope="col" class="value">${chart.x.label}</th>`
  }<th scope="col" class="value">median</th><th scope="col" class="value">lower quartile</th><th scope="col" class="value">upper quartile</th><th scope="col" class="value">measurements</th></tr></thead><tbody>${rows}</tbody></table></div></details>`;
}

function chartFigure(id, chart, samples, theirs) {
  const isBars = chart.kind === "bars";
  const { drawings, legend } = draw(chart, samples, theirs);
  const drawn = drawings.map(({ name, svg }) => markup`<div class="${name}">${raw(svg)}</div>`);
  const names = isBars
    ? ""
    : markup`<ul class="legend">${legend.map(({ series, svg }) => markup`<li>${raw(svg)}${series}</li>`)}</ul>`;
  const better = chart.better === "lower" ? "Less is better" : "More is better";
  const whiskers = chart.kind === "percentiles"
    ? ""
    : chart.kind === "time"
    ? "; the band spans the quartiles"
    : "; whiskers span the quartiles";
  const ratios = isBars && !samples.every(oursIn(samples)) ? "; in brackets, how many times our best" : "";
  return markup`<figure id="${id}-${chart.id}"><h3>${chart.title}</h3><figcaption>${better}${whiskers}${ratios}.</figcaption>${drawn}${names}${
    sampleTable(chart, samples)
  }</figure>`;
}

function section({ id, question, size, tookMs, charts, samples, figures, notMeasured, failed = [] }, theirs) {
  const drawn = charts.map((chart) => [chart, samples.filter((sample) => sample.chart === chart.id)]).filter((
    [, own],
  ) => own.length > 0);
  return markup`<section id="${id}"><h2>${question}</h2><p class="size">${size}; took ${seconds(tookMs)}</p>
${failed.map((message) => markup`<p class="warning">A case failed and is missing here: ${message}</p>`)}
${drawn.map(([chart, own]) => chartFigure(id, chart, own, theirs))}
${
    figures.length > 0
      ? markup`<h3>Figures</h3>${figureTable("", markup`<tbody>${figures.map(figureRow)}</tbody>`)}`
      : ""
  }
<h3>Not measured</h3><ul class="not-measured">${notMeasured.map((each) => markup`<li>${each}</li>`)}</ul></section>`;
}

function machineList({ startedAt, tookMs, machine }) {
  const { cpu, cores, memoryGiB, platform, node, v8, commit, dirty, loadAtStart, quiet } = machine;
  const rows = [
    ["machine", `${cpu}; ${cores} cores, ${memoryGiB} GiB, ${platform}`],
    ["Node", `${node}, V8 ${v8}`],
    ["commit", `${commit}${dirty ? ", with changes that are not committed" : ""}`],
    ["when", `${day(startedAt)}; took ${seconds(tookMs)}`],
    ["load at the start", `${loadAtStart.map((load) => load.toFixed(2)).join(", ")} (1, 5 and 15 minutes)`],
    ["quiet", quiet ? "yes" : "no, see above"],
  ];
  return markup`<dl>${rows.map(([name, value]) => markup`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

function summary({ small, machine, questions, ...run }) {
  const asked = questions.map((answer) => ({
    ...answer,
    figures: answer.figures.filter(({ most, least }) => (most ?? least) !== undefined),
  })).filter(({ figures }) => figures.length > 0);
  const verdicts = asked.flatMap(({ figures }) => figures.map(verdict));
  const met = verdicts.filter((each) => each.startsWith("met")).length;
  const rows = asked.map(({ id, question, figures }) =>
    markup`<tbody><tr class="group"><th scope="rowgroup" colspan="5"><a href="#${id}">${question}</a></th></tr>${
      figures.map(figureRow)
    }</tbody>`
  );
  return markup`<p class="lead">Rate limiters for Node.js worker threads. ${
    verdicts.length > 0 ? `${met} of ${verdicts.length} figures that are asked of it are met.` : ""
  }</p>
${
    small
      ? markup`<p class="warning"><strong>A small run.</strong> It shows that all works; its figures are of no use.</p>`
      : ""
  }
${
    machine.quiet
      ? ""
      : markup`<p class="warning"><strong>The machine was not quiet:</strong> ${machine.unquietBecause}. Ratios within a round stand; absolute times may be too long.</p>`
  }
${machineList({ machine, ...run })}
${asked.length > 0 ? figureTable("What is asked of sluice, and what was measured: medians and quartiles", rows) : ""}`;
}

function rivalTable(rivals) {
  const rows = rivals.map(({ name, version, what, absent }) =>
    markup`<tr><th scope="row">${name}</th><td>${
      absent === undefined ? version : markup`<span class="verdict close">absent</span>`
    }</td><td>${what}${absent === undefined ? "" : markup`<br>Absent: ${absent}`}</td></tr>`
  );
  return markup`<section id="rivals"><h2>The rivals</h2><p class="size">Each at its best settings, in the version named here.</p><div class="scroll"><table><thead><tr><th scope="col">rival</th><th scope="col">version</th><th scope="col">what is measured of it</th></tr></thead><tbody>${rows}</tbody></table></div></section>`;
}

/** @param {import('./json.js').Run} run */
export function html(run) {
  const { questions, rivals, machine, startedAt } = run;
  const theirs = [
    ...new Set(
      questions.flatMap(({ samples }) =>
        samples.filter((sample) => !oursIn(samples)(sample)).map(({ series }) => series)
      ),
    ),
  ];
  return String(markup`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>sluice: benchmarks of ${machine.commit}</title><style>${
    raw(css)
  }</style></head>
<body><header><h1>sluice: benchmarks</h1></header><main>${summary(run)}
<nav aria-label="Contents"><h3>Contents</h3><ol>${
    questions.map(({ id, question }) => markup`<li><a href="#${id}">${question}</a></li>`)
  }<li><a href="#rivals">The rivals</a></li></ol></nav>
${questions.map((answer) => section(answer, theirs))}
${rivalTable(rivals)}</main>
<footer>Made of the run of ${
    day(startedAt)
  } by <code>npm run bench</code>. A ratio was taken within a round, in which all take turns at the same work.</footer></body></html>
`);
}
