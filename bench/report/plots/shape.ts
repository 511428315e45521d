// The document that charts are drawn into, and the shapes they are drawn in.

import type { PlotOptions } from "@observablehq/plot";
import { parseHTML } from "linkedom";
import { number } from "../numbers.js";
import type { Sample } from "../run.js";

export const { document } = parseHTML("<!doctype html><html><body></body></html>");

export interface Shape {
  name: string;
  /** px */
  width: number;
  isNarrow: boolean;
}

/** A chart is drawn for a page and for a phone. */
export const shapes: readonly Shape[] = [
  { name: "wide", width: 880, isNarrow: false },
  { name: "narrow", width: 350, isNarrow: true },
];

const FONT_PX = 12;
/** About the width of a character. */
export const CHARACTER_PX = 7;
/** From one label to the next. */
export const LABEL_PX = FONT_PX + 3;
/** The largest width of a name. The rest of it is cut off; the table has it. */
const MAX_NAME_PX = 280;

export const cutName = { textOverflow: "ellipsis", lineWidth: MAX_NAME_PX / FONT_PX } as const;

/** The width of the longest name. */
export function nameWidth(rows: readonly Sample[]): number {
  const longest = Math.max(...rows.map(({ series }) => series.length));
  return Math.min(longest * CHARACTER_PX, MAX_NAME_PX) + 16;
}

/** What the pointer shows. */
export function tooltip({ series, x, unit, median, lower, upper }: Sample): string {
  const at = x === null ? "" : `, ${x}`;
  return `${series}${at}: ${number(median, ` ${unit}`)}; quartiles ${number(lower)} to ${number(upper)}`;
}

/** Options of Plot for a chart in this shape. */
export function inShape(shape: Shape, rest: PlotOptions): PlotOptions {
  return { document, className: "plot", width: shape.width, style: { fontSize: `${FONT_PX}px` }, ...rest };
}
