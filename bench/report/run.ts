// A run as it is stored in JSON: what the pages, the documents and the
// comparison read.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** Quartiles of `count` measurements. `x` is null in a chart of bars. */
export interface Sample {
  chart: string;
  series: string;
  x: number | string | null;
  unit: string;
  median: number;
  lower: number;
  upper: number;
  count: number;
}

export interface Axis {
  label: string;
  scale: "log" | "linear" | "band";
}

export interface Chart {
  id: string;
  title: string;
  kind: "bars" | "lines" | "percentiles" | "time";
  /** null in a chart of bars. */
  x: Axis | null;
  y: Axis;
  better: "lower" | "higher";
}

/** A target: the measured value should be at most `most` or at least `least`. */
export interface Target {
  most?: number | undefined;
  least?: number | undefined;
}

export interface Spread {
  lower: number;
  upper: number;
}

/** A number worth quoting by itself. Without a target it is for information. */
export interface Figure extends Target {
  name: string;
  measured: number;
  spread?: Spread;
  unit?: string;
}

/** What one question found. `failed` names the cases that failed. */
export interface Answer {
  id: string;
  question: string;
  size: string;
  tookMs: number;
  notMeasured: string[];
  charts: Chart[];
  samples: Sample[];
  figures: Figure[];
  failed?: string[];
}

export interface Machine {
  cpu: string;
  cores: number;
  memoryGiB: number;
  platform: string;
  node: string;
  v8: string;
  commit: string;
  dirty: boolean;
  /** Load averages over 1, 5 and 15 minutes. */
  loadAtStart: number[];
  quiet: boolean;
  unquietBecause?: string;
}

/** A rival as the report names it. `absent` says why it could not be measured. */
export interface RivalEntry {
  name: string;
  version?: string;
  what: string;
  absent?: string;
  /** false if a decision reads no clock. */
  readsClock?: boolean;
}

export interface Run {
  schema: number;
  startedAt: string;
  tookMs: number;
  small: boolean;
  machine: Machine;
  rivals: RivalEntry[];
  questions: Answer[];
}

export const SCHEMA = 1;

/** A file that holds no run, or two runs that cannot be compared. */
export class RunError extends Error {}

export function writeRun(path: string, run: Run): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(run, null, 1)}\n`);
}

/** @throws RunError if the file holds no run of this schema. */
export function readRun(path: string): Run {
  let run: Run | null;
  try {
    run = JSON.parse(readFileSync(path, "utf8")) as Run | null;
  } catch (error) {
    throw new RunError(`"${path}" expected a run of these benchmarks: ${(error as Error).message}`);
  }
  if (run?.schema !== SCHEMA) throw new RunError(`"${path}" expected a run of schema ${SCHEMA}, got ${run?.schema}`);
  return run;
}
