// Numbers as text, the same in the terminal, on the page and in the documents.

import type { Figure, Spread, Target } from "./run.js";

/** About three digits, and all digits of an integer. */
export function number(value: number, unit = ""): string {
  return digits(value) + unit;
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return size >= 0.1 ? value.toFixed(2) : value.toPrecision(2);
}

/** A place on an axis, as it was given. */
export function place(x: number | string | null): string {
  return typeof x === "number" && x >= 1000 ? number(x) : String(x);
}

/** The quartiles. */
export function between({ lower, upper }: Spread, unit = ""): string {
  return `${number(lower, unit)} to ${number(upper, unit)}`;
}

/** A ratio's " x" as a multiplication sign. */
export function withTimesSign(text: string): string {
  return text.replaceAll(" x", " ×");
}

/** "at most 3 x"; empty without a target. */
export function targetText({ most, least }: Target, unit = ""): string {
  if (most !== undefined) return `at most ${number(most, unit)}`;
  return least === undefined ? "" : `at least ${number(least, unit)}`;
}

export function hasTarget({ most, least }: Target): boolean {
  return (most ?? least) !== undefined;
}

export interface Verdict {
  /** undefined without a target. */
  isMet: boolean | undefined;
  /** Whether the target lies between the quartiles. */
  isClose: boolean;
  text: string;
}

/** Compares the median with the target. */
export function verdict({ measured, spread, most, least }: Figure): Verdict {
  const target = most ?? least;
  if (target === undefined) return { isMet: undefined, isClose: false, text: "for information" };
  const isMet = most === undefined ? measured >= target : measured <= target;
  const isClose = spread !== undefined && spread.lower < target && target < spread.upper;
  return { isMet, isClose, text: (isMet ? "met" : "NOT met") + (isClose ? ", within the spread" : "") };
}
