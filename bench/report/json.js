// A run as it is kept: what the pages, the figures of the README and the
// comparison read.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * @typedef {{ chart: string, series: string, x: number | string | null, unit: string, median: number, lower: number, upper: number, count: number }} Sample
 *   quartiles of `count` measurements; `x` is null in a chart of bars
 * @typedef {{ label: string, scale: 'log' | 'linear' | 'band' }} Axis
 * @typedef {{ id: string, title: string, kind: 'bars' | 'lines' | 'percentiles' | 'time', x: Axis | null, y: Axis, better: 'lower' | 'higher' }} Chart
 * @typedef {{ name: string, measured: number, spread?: { lower: number, upper: number }, unit?: string, most?: number, least?: number }} Figure
 *   what is asked: `most` or `least`, or neither, then it is for information
 * @typedef {{ id: string, question: string, size: string, tookMs: number, notMeasured: string[], charts: Chart[], samples: Sample[], figures: Figure[], failed?: string[] }} Answer
 * @typedef {{ cpu: string, cores: number, memoryGiB: number, platform: string, node: string, v8: string, commit: string, dirty: boolean,
 *   loadAtStart: number[], quiet: boolean, unquietBecause?: string }} Machine
 * @typedef {{ schema: 1, startedAt: string, tookMs: number, small: boolean, machine: Machine,
 *   rivals: { name: string, version?: string, what: string, absent?: string }[], questions: Answer[] }} Run
 */

export const SCHEMA = 1;

/** A file that is no run, or two that cannot be compared. */
export class RunError extends Error {}

/** @param {Run} run */
export function writeRun(path, run) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(run, null, 1)}\n`);
}

/** @returns {Run} */
export function readRun(path) {
  let run;
  try {
    run = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new RunError(`"${path}" expected a run of these benchmarks: ${error.message}`);
  }
  if (run?.schema !== SCHEMA) throw new RunError(`"${path}" expected a run of schema ${SCHEMA}, got ${run?.schema}`);
  return run;
}
