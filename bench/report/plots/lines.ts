// A chart of lines: one line for each series over x, with its quartiles.

import * as Plot from "@observablehq/plot";
import type { Chart, Sample } from "../run.js";
import { measureAxis, namedTicks, placeAxis, tick } from "./axes.js";
import { apart, LEADER_PX, leaders } from "./labels.js";
import type { Look } from "./looks.js";
import { cutName, inShape, LABEL_PX, nameWidth, type Shape, tooltip } from "./shape.js";

/** A sample with its place on the axis. */
interface Row extends Sample {
  at: number;
}

/** The last row of each series. */
function endsOf(rows: readonly Row[]): Row[] {
  const ends = new Map<string, Row>();
  for (const row of rows) {
    const last = ends.get(row.series);
    if (last === undefined || row.at > last.at) ends.set(row.series, row);
  }
  return [...ends.values()];
}

export function lines(chart: Chart, samples: readonly Sample[], shape: Shape, looks: Map<string, Look>): Element {
  const across = placeAxis(chart, samples);
  const axis = measureAxis(chart, samples);
  const rows = samples.map((sample): Row => ({ ...sample, at: across.places.get(sample.x)! }));
  const ends = endsOf(rows);
  const nameSpace = shape.isNarrow ? 0 : nameWidth(ends) + LEADER_PX;
  const colour = ({ series }: Row): string => looks.get(series)!.colour;
  const isTime = chart.kind === "time";
  const quartiles = { x: "at", y1: "lower", y2: "upper" };
  const median = { x: "at", y: "median" };
  const names = [
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
    Plot.text(ends, apart({ ...cutName, ...median, text: "series", textAnchor: "start" as const, fill: colour })),
  ];
  return Plot.plot(inShape(shape, {
    height: shape.isNarrow ? 260 : Math.max(360, ends.length * LABEL_PX + 120),
    marginLeft: 52,
    marginRight: Math.max(nameSpace, 14),
    marginTop: 28,
    marginBottom: 44,
    x: across.scale,
    y: axis.scale,
    symbol: { type: "identity" },
    marks: [
      Plot.gridY({ strokeOpacity: 0.15, ticks: axis.ticks ?? 5 }),
      Plot.axisY({
        label: axis.label,
        labelArrow: "none",
        tickSize: 0,
        labelAnchor: "top",
        ...namedTicks(axis.ticks ?? 5, tick),
      }),
      Plot.axisX({
        label: chart.x?.label ?? null,
        labelArrow: "none",
        labelAnchor: "center",
        labelOffset: 38,
        ...namedTicks(across.ticks, across.tickFormat),
      }),
      isTime
        ? Plot.areaY(rows, { ...quartiles, z: "series", fill: colour, fillOpacity: 0.2 })
        : Plot.ruleX(rows, { ...quartiles, stroke: colour, strokeOpacity: 0.7, strokeWidth: 1.5 }),
      Plot.line(rows, {
        ...median,
        z: "series",
        stroke: colour,
        strokeWidth: ({ series }: Row) => looks.get(series)!.width,
      }),
      Plot.dot(isTime ? ends : rows, {
        ...median,
        fill: colour,
        stroke: colour,
        symbol: ({ series }: Row) => looks.get(series)!.symbol,
        r: 3.5,
        title: tooltip,
      }),
      ...(shape.isNarrow ? [] : names),
    ],
  }));
}
