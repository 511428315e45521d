// A chart of bars: one bar for each series, the best first, with its quartiles,
// its median and the median as a multiple of our best.

import * as Plot from "@observablehq/plot";
import { number } from "../numbers.js";
import type { Chart, Sample } from "../run.js";
import { measureAxis, namedTicks, tick } from "./axes.js";
import { oursIn } from "./looks.js";
import { CHARACTER_PX, cutName, inShape, nameWidth, type Shape, tooltip } from "./shape.js";

export function bars(chart: Chart, samples: readonly Sample[], shape: Shape): Element {
  const sign = chart.better === "lower" ? 1 : -1;
  const isOurs = oursIn(samples);
  const rows = samples.toSorted((a, b) => sign * (a.median - b.median));
  const best = rows.find(isOurs)!;
  const axis = measureAxis(chart, rows);
  const value = (row: Sample): string => {
    const ratio = !isOurs(row) && best.median > 0 ? `  (${number(row.median / best.median)} ×)` : "";
    return `${number(row.median, ` ${row.unit}`)}${ratio}`;
  };
  const valueWidth = Math.max(...rows.map((row) => value(row).length)) * CHARACTER_PX + 14;
  const band = shape.isNarrow ? 40 : 26;
  // On a phone the name stands above the bar.
  const top = shape.isNarrow ? 18 : 4;
  const dy = (top - 4) / 2;
  const weights = [{ filter: isOurs, fontWeight: 700 }, { filter: (row: Sample) => !isOurs(row) }];
  const at = { y: "series" };
  const step = shape.isNarrow && axis.ticks !== undefined && axis.ticks.length > 4 ? 2 : 1;
  const ticks = axis.ticks?.filter((_, i) => i % step === 0) ?? (shape.isNarrow ? 3 : 6);
  const namePlace = shape.isNarrow
    ? { textAnchor: "start", dy: -11, dx: 1 } as const
    : { textAnchor: "end", dx: -8 } as const;
  return Plot.plot(inShape(shape, {
    height: rows.length * band + 48,
    marginLeft: shape.isNarrow ? 4 : nameWidth(rows),
    marginRight: valueWidth,
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
        ...namedTicks(ticks, tick),
        tickSize: 0,
      }),
      Plot.gridX({ ticks, strokeOpacity: 0.15 }),
      Plot.barX(rows, {
        ...at,
        x1: axis.from,
        x2: "median",
        fill: (row: Sample) => (isOurs(row) ? "var(--ours-1)" : "var(--bar)"),
        insetTop: top,
        insetBottom: 4,
        title: tooltip,
      }),
      Plot.ruleY(rows, { ...at, x1: "lower", x2: "upper", strokeWidth: 1.5, dy }),
      ...["lower", "upper"].map((quartile) =>
        Plot.tickX(rows, { ...at, x: quartile, insetTop: top + 5, insetBottom: 9, strokeWidth: 1.5 })
      ),
      ...weights.map((weight) =>
        Plot.text(rows, { ...at, ...weight, x: "upper", text: value, textAnchor: "start", dx: 8, dy })
      ),
      ...weights.map((weight) =>
        Plot.text(rows, { ...at, ...weight, ...cutName, text: "series", frameAnchor: "left", ...namePlace })
      ),
    ],
  }));
}
