// A chart of a run as SVG. Observable Plot draws it into a document of linkedom, so
// that the page that shows it needs no script. Colours are CSS variables of the
// page (page.css); everything else has the colour of its text.

import * as Plot from "@observablehq/plot";
import type { Chart, Sample } from "../run.js";
import { bars } from "./bars.js";
import { lines } from "./lines.js";
import { type Look, looksOf } from "./looks.js";
import { document, shapes } from "./shape.js";

/** The SVG as text. Without a label it is hidden from screen readers. */
function svgText(svg: Element, label?: string): string {
  for (const style of svg.querySelectorAll("style")) style.remove();
  if (label === undefined) {
    svg.setAttribute("aria-hidden", "true");
  } else {
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
  }
  return svg.outerHTML.replace(
    / (?:d|transform|[xy][12]?|width|height)="[^"]*"/g,
    (attribute) => attribute.replace(/(\.\d\d)\d+/g, "$1"),
  );
}

/** A short line with its mark, for a legend. */
function swatch({ colour, symbol, width }: Look): string {
  const svg = Plot.plot({
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
      Plot.dot([0], { x: 0, y: 0, r: 3.5, symbol, stroke: colour, fill: colour }),
    ],
  });
  return svgText(svg);
}

interface Drawn {
  /** The chart in each shape. */
  drawings: { name: string; svg: string }[];
  /** The marks of the series, for a shape without room for names. */
  legend: { series: string; svg: string }[];
}

/** Draws a chart with its samples. `rivals` are all series of the run that are not ours. */
export function draw(chart: Chart, samples: readonly Sample[], rivals: readonly string[]): Drawn {
  const looks = looksOf(samples, rivals);
  const label = `${chart.title}, ${chart.y.label}; the table below has the values`;
  return {
    drawings: shapes.map((shape) => {
      const plot = chart.kind === "bars" ? bars(chart, samples, shape) : lines(chart, samples, shape, looks);
      return { name: shape.name, svg: svgText(plot, label) };
    }),
    legend: [...looks].map(([series, look]) => ({ series, svg: swatch(look) })),
  };
}
