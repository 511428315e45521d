// A chart of a run as SVG: Observable Plot draws it into a document of linkedom,
// so that the page that shows it needs no script. Colours are CSS variables of
// the page (page.css), all else is in the colour of its text.

import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import { number } from "./tables.js";

const { document } = parseHTML("<!doctype html><html><body></body></html>");

/** Shapes of a chart: for a page, and for a phone. */
const WIDE = { name: "wide", width: 880, isNarrow: false };
const NARROW = { name: "narrow", width: 350, isNarrow: true };
const shapes = [WIDE, NARROW];

const FONT_PX = 12;
/** About the width of a character, px. */
const CHARACTER_PX = 7;
/** From one label to the next. */
const LABEL_PX = FONT_PX + 3;
/** From the end of an axis to the labels beside it. */
const LEADER_PX = 26;
/** Widest a name may be; the rest of it is cut off, and stands in the table. */
const NAME_PX = 280;
/** From here on bars or lines of a linear axis would be too short to tell apart. */
const LOG_SPAN = 30;
/** Rivals have so many colours and marks; beyond, they come again in other pairs. */
const RIVAL_COLOURS = 12;
const OUR_COLOURS = 4;
const SYMBOLS = ["square", "triangle", "diamond", "star", "cross", "wye", "asterisk"];

/** Which series of a chart are ours: those that say so, or all where none does. */
export function oursIn(samples) {
  const says = ({ series }) => series.startsWith("sluice");
  return samples.some(says) ? says : () => true;
}

/**
 * The look of each series of a chart: a rival's is the same in all charts of
 * the run, where two of a chart do not share it.
 *
 * @param {string[]} rivals every series of the run that is not ours, in order of appearance
 */
function looks(samples, rivals) {
  const isOurs = oursIn(samples);
  const taken = new Set();
  const free = (i) => {
    let colour = i % RIVAL_COLOURS;
    for (let turn = 0; taken.has(colour) && turn < RIVAL_COLOURS; turn++) colour = (colour + 1) % RIVAL_COLOURS;
    taken.add(colour);
    return `var(--rival-${1 + colour})`;
  };
  const ours = [...new Set(samples.filter(isOurs).map(({ series }) => series))];
  const theirs = [...new Set(samples.filter((each) => !isOurs(each)).map(({ series }) => series))];
  return new Map([
    ...ours.map((name, i) => [name, { colour: `var(--ours-${1 + (i % OUR_COLOURS)})`, symbol: "circle", width: 2.5 }]),
    ...theirs.map((
      name,
    ) => [name, {
      colour: free(rivals.indexOf(name)),
      symbol: SYMBOLS[rivals.indexOf(name) % SYMBOLS.length],
      width: 1.5,
    }]),
  ]);
}

/** 1,000 as 1k; what is no round number, or below one, as it is. */
function tick(value) {
  const [letter, size] = [["G", 1e9], ["M", 1e6], ["k", 1e3]].find(([, size]) => Math.abs(value) >= size) ?? ["", 1];
  const short = Number((value / size).toPrecision(4));
  return Number.isInteger(short * 10) ? `${short}${letter}` : Number(value.toPrecision(4)).toLocaleString("en");
}

/** Powers of ten from `from` to `to`; where they are few, twice and five times them too. */
function decades(from, to) {
  const powers = Array.from(
    { length: Math.ceil(Math.log10(to)) - Math.floor(Math.log10(from)) + 1 },
    (_, i) => 10 ** (Math.floor(Math.log10(from)) + i),
  );
  const inside = (values) => values.filter((value) => value >= from && value <= to);
  return inside(powers).length > 2 ? inside(powers) : inside(powers.flatMap((power) => [power, 2 * power, 5 * power]));
}

/** Ticks that are given have all their names: a logarithmic scale drops some by itself. */
const named = (ticks, tickFormat) => (Array.isArray(ticks) ? { ticks, text: tickFormat } : { ticks, tickFormat });

/** An axis from zero, or a logarithmic one where the values span too much for it. */
function measureAxis({ y }, samples) {
  const least = Math.min(...samples.map(({ lower }) => lower));
  const most = Math.max(...samples.map(({ upper }) => upper));
  const isLog = least > 0 && most / least > LOG_SPAN;
  const label = isLog ? `${y.label} (logarithmic)` : y.label;
  if (!isLog) {
    return {
      scale: { type: "linear", domain: [Math.min(0, least), most || 1], nice: true, label: null },
      label,
      tickFormat: tick,
      ticks: undefined,
    };
  }
  // Half a decade below the least, so that its bar has a length.
  const from = 10 ** Math.floor(Math.log10(least) - 0.3);
  return {
    scale: { type: "log", domain: [from, most * 1.05], label: null },
    label,
    tickFormat: tick,
    ticks: decades(from, most * 1.05),
  };
}

/** As text; without a label, for who sees it alone. */
function finish(svg, label) {
  for (const style of svg.querySelectorAll("style")) style.remove();
  if (label === "") svg.setAttribute("aria-hidden", "true");
  else for (const [name, value] of [["role", "img"], ["aria-label", label]]) svg.setAttribute(name, value);
  return svg.outerHTML.replace(
    / (?:d|transform|[xy][12]?|width|height)="[^"]*"/g,
    (attribute) => attribute.replace(/(\.\d\d)\d+/g, "$1"),
  );
}

const frame = (shape, rest) => ({
  document,
  className: "plot",
  width: shape.width,
  style: { fontSize: `${FONT_PX}px` },
  ...rest,
});

const nameWidth = (rows) => Math.min(Math.max(...rows.map(({ series }) => series.length)) * CHARACTER_PX, NAME_PX) + 16;
const cut = { textOverflow: "ellipsis", lineWidth: NAME_PX / FONT_PX };

/** "lower to upper", for who points at it. */
const told = ({ series, x, unit, median, lower, upper }) =>
  `${series}${x === null ? "" : `, ${x}`}: ${number(median, ` ${unit}`)}; quartiles ${number(lower)} to ${
    number(upper)
  }`;

/** One bar a series, best first, with its quartiles, its median and how many times our best one's that is. */
function bars(chart, samples, shape) {
  const sign = chart.better === "lower" ? 1 : -1;
  const isOurs = oursIn(samples);
  const rows = samples.toSorted((a, b) => sign * (a.median - b.median));
  const best = rows.find(isOurs);
  const axis = measureAxis(chart, rows);
  const value = (row) => {
    const { unit, median } = row;
    const ratio = !isOurs(row) && best.median > 0 ? `  (${number(median / best.median)} ×)` : "";
    return `${number(median, ` ${unit}`)}${ratio}`;
  };
  const band = shape.isNarrow ? 40 : 26;
  const names = nameWidth(rows);
  const values = Math.max(...rows.map((row) => value(row).length)) * CHARACTER_PX + 14;
  const top = shape.isNarrow ? 18 : 4;
  const weights = [{ filter: isOurs, fontWeight: 700 }, { filter: (row) => !isOurs(row) }];
  const at = { y: "series" };
  const step = shape.isNarrow && axis.ticks?.length > 4 ? 2 : 1;
  const ticks = axis.ticks?.filter((_, i) => i % step === 0) ?? (shape.isNarrow ? 3 : 6);
  return Plot.plot(frame(shape, {
    height: rows.length * band + 48,
    marginLeft: shape.isNarrow ? 4 : names,
    marginRight: values,
    marginTop: 4,
    marginBottom: 40,
    x: axis.scale,
    y: { domain: rows.map(({ series }) => series), axis: null, padding: 0 },
    marks: [
      Plot.axisX({
        label: axis.label,
        labelAnchor: "center",
        labelArrow: "none",
        labelOffset: 36,
        ...named(ticks, axis.tickFormat),
        tickSize: 0,
      }),
      Plot.gridX({ ticks, strokeOpacity: 0.15 }),
      Plot.barX(rows, {
        ...at,
        x1: axis.ticks ? axis.scale.domain[0] : 0,
        x2: "median",
        fill: (row) => (isOurs(row) ? "var(--ours-1)" : "var(--bar)"),
        insetTop: top,
        insetBottom: 4,
        title: told,
      }),
      Plot.ruleY(rows, { ...at, x1: "lower", x2: "upper", strokeWidth: 1.5, dy: (top - 4) / 2 }),
      ...["lower", "upper"].map((quartile) =>
        Plot.tickX(rows, { ...at, x: quartile, insetTop: top + 5, insetBottom: 9, strokeWidth: 1.5 })
      ),
      ...weights.map((weight) =>
        Plot.text(rows, { ...at, ...weight, x: "upper", text: value, textAnchor: "start", dx: 8, dy: (top - 4) / 2 })
      ),
      ...weights.map((weight) =>
        Plot.text(rows, {
          ...at,
          ...weight,
          ...cut,
          text: "series",
          frameAnchor: "left",
          ...(shape.isNarrow ? { textAnchor: "start", dy: -11, dx: 1 } : { textAnchor: "end", dx: -8 }),
        })
      ),
    ],
  }));
}

/**
 * Places for labels `gapPx` apart from one another, each as near to where it
 * would be as its neighbours allow: those that would overlap form a block
 * around their common middle.
 */
function spread(places, gapPx) {
  const blocks = [];
  for (const index of places.map((_, i) => i).sort((a, b) => places[a] - places[b])) {
    let block = { indices: [index], middle: places[index] };
    for (
      let above = blocks.at(-1);
      above && block.middle - above.middle < (gapPx * (above.indices.length + block.indices.length)) / 2;
      above = blocks.at(-1)
    ) {
      const size = above.indices.length + block.indices.length;
      block = {
        indices: [...above.indices, ...block.indices],
        middle: (above.middle * above.indices.length + block.middle * block.indices.length) / size,
      };
      blocks.pop();
    }
    blocks.push(block);
  }
  const spreadOut = new Float64Array(places.length);
  for (const { indices, middle } of blocks) {
    indices.forEach((index, i) => (spreadOut[index] = middle + gapPx * (i - (indices.length - 1) / 2)));
  }
  return spreadOut;
}

/** Moves the labels of a mark right of the frame, until none covers another. */
function apart(options) {
  return Plot.initializer(options, (data, facets, { y }, { y: scale }, { width, marginRight }) => {
    const places = spread(Array.from(y.value, scale), LABEL_PX);
    return {
      data,
      facets,
      channels: { x: { value: places.map(() => width - marginRight + LEADER_PX) }, y: { value: places } },
    };
  });
}

/** Lines to those labels. */
function leaders(options) {
  return Plot.initializer(options, (data, facets, { y2 }, { y: scale }, { width, marginRight }) => {
    const places = spread(Array.from(y2.value, scale), LABEL_PX);
    return {
      data,
      facets,
      channels: { x2: { value: places.map(() => width - marginRight + LEADER_PX - 3) }, y2: { value: places } },
    };
  });
}

/** Percentiles by how rare what is beyond them is. */
const rarity = (percentile) => -Math.log10(1 - percentile / 100);

/** Where each x stands, and its axis. */
function xAxis({ kind, x: { scale } }, samples) {
  const all = [...new Set(samples.map(({ x }) => x))];
  const byName = (places, names) => ({
    places,
    axis: { type: "linear", ticks: [...places.values()], tickFormat: (at) => names.get(at) ?? "" },
  });
  if (kind === "percentiles") {
    const last = Math.max(...all.filter((x) => x < 100).map(rarity));
    const places = new Map(all.map((x) => [x, x === 100 ? last + 1 : rarity(x)]));
    return byName(places, new Map([...places].map(([x, at]) => [at, x === 100 ? "max" : String(x)])));
  }
  if (scale === "band") return byName(new Map(all.map((x, i) => [x, i])), new Map(all.map((x, i) => [i, String(x)])));
  const isLog = scale === "log" && all.every((x) => x > 0);
  return {
    places: new Map(all.map((x) => [x, x])),
    axis: { type: isLog ? "log" : "linear", tickFormat: tick, ...(all.length <= 9 ? { ticks: all } : {}) },
  };
}

/** One line a series over x, with its quartiles. */
function lines(chart, samples, shape, look) {
  const { places, axis: across } = xAxis(chart, samples);
  const axis = measureAxis(chart, samples);
  const rows = samples.map((sample) => ({ ...sample, at: places.get(sample.x) }));
  const ends = [...grouped(rows).values()].map((own) => own.reduce((last, each) => (each.at > last.at ? each : last)));
  const names = shape.isNarrow ? 0 : nameWidth(ends) + LEADER_PX;
  const colour = ({ series }) => look.get(series).colour;
  const isTime = chart.kind === "time";
  return Plot.plot(frame(shape, {
    height: shape.isNarrow ? 260 : Math.max(360, ends.length * LABEL_PX + 120),
    marginLeft: 52,
    marginRight: Math.max(names, 14),
    marginTop: 28,
    marginBottom: 44,
    x: across,
    y: axis.scale,
    symbol: { type: "identity" },
    marks: [
      Plot.gridY({ strokeOpacity: 0.15, ticks: axis.ticks ?? 5 }),
      Plot.axisY({
        label: axis.label,
        labelArrow: "none",
        tickSize: 0,
        labelAnchor: "top",
        ...named(axis.ticks ?? 5, axis.tickFormat),
      }),
      Plot.axisX({
        label: chart.x.label,
        labelArrow: "none",
        labelAnchor: "center",
        labelOffset: 38,
        ...named(across.ticks, across.tickFormat),
      }),
      isTime
        ? Plot.areaY(rows, { x: "at", y1: "lower", y2: "upper", z: "series", fill: colour, fillOpacity: 0.2 })
        : Plot.ruleX(rows, { x: "at", y1: "lower", y2: "upper", stroke: colour, strokeOpacity: 0.7, strokeWidth: 1.5 }),
      Plot.line(rows, {
        x: "at",
        y: "median",
        z: "series",
        stroke: colour,
        strokeWidth: ({ series }) => look.get(series).width,
      }),
      Plot.dot(isTime ? ends : rows, {
        x: "at",
        y: "median",
        fill: colour,
        stroke: colour,
        symbol: ({ series }) => look.get(series).symbol,
        r: 3.5,
        title: told,
      }),
      ...(shape.isNarrow ? [] : [
        Plot.link(
          ends,
          leaders({
            x1: "at",
            x2: "at",
            y1: "median",
            y2: "median",
            stroke: colour,
            strokeOpacity: 0.6,
            strokeDasharray: "2,2",
          }),
        ),
        Plot.text(ends, apart({ ...cut, x: "at", y: "median", text: "series", textAnchor: "start", fill: colour })),
      ]),
    ],
  }));
}

function grouped(rows) {
  const groups = new Map();
  for (const row of rows) groups.set(row.series, [...(groups.get(row.series) ?? []), row]);
  return groups;
}

/** A piece of a line with its mark. */
function swatch({ colour, symbol, width }) {
  const style = { stroke: colour, fill: colour };
  return finish(
    Plot.plot({
      document,
      className: "plot",
      width: 22,
      height: 12,
      margin: 0,
      axis: null,
      x: { domain: [-1, 1] },
      y: { domain: [-1, 1] },
      symbol: { type: "identity" },
      marks: [
        Plot.ruleY([0], { stroke: colour, strokeWidth: width }),
        Plot.dot([0], { x: 0, y: 0, r: 3.5, symbol, ...style }),
      ],
    }),
    "",
  );
}

/**
 * The chart in each of `shapes`, as SVG text, and the marks of its series for
 * where there is no room for names in it.
 *
 * @param {import('./json.js').Chart} chart
 * @param {import('./json.js').Sample[]} samples its own
 * @param {string[]} rivals every series of the run that is not ours
 */
export function draw(chart, samples, rivals) {
  const look = looks(samples, rivals);
  const plot = chart.kind === "bars" ? bars : lines;
  const label = `${chart.title}, ${chart.y.label}; the table below has the values`;
  return {
    drawings: shapes.map((shape) => ({ name: shape.name, svg: finish(plot(chart, samples, shape, look), label) })),
    legend: [...look].map(([series, each]) => ({ series, svg: swatch(each) })),
  };
}
