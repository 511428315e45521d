// What a question of the benchmarks is. To add one, write questions/<id>.ts,
// which does nothing when it is imported except to export this, and name it in
// `order`:
//
//     export const question: Question = {
//       question: "What does one decision on a hot key cost?",
//       size: (small) => `${roundsOf(small)} rounds of 5,000 decisions`,
//       charts: [barChart("admitted", "...", "ns a decision")],
//       cases: { coarse: async (small) => ({ samples, figures }) },
//       figures: (samples) => [...], // optional: figures that need several cases
//       notMeasured: ["..."],
//     };
//
// Entrants that run in one thread are timed by `interleave` (measure/rounds.ts).

import type { Axis, Chart, Figure, Sample } from "./report/run.js";

/** What one case found. Every sample names one of the question's charts. */
export interface Found {
  samples: Sample[];
  figures?: Figure[];
}

/**
 * Measures one case. A small run takes about two seconds and only shows that
 * everything works: its figures mean nothing.
 */
export type Case = (small: boolean) => Promise<Found>;

export interface Question {
  question: string;
  /** How much a run measures. */
  size: (small: boolean) => string;
  charts: Chart[];
  cases: Record<string, Case>;
  /** Figures that need the samples of several cases. Not called if a case failed. */
  figures?: (samples: Sample[]) => Figure[];
  notMeasured: string[];
}

export interface NamedQuestion extends Question {
  id: string;
}

/** Files of questions/, in the order of the report. */
export const order: readonly string[] = [
  "hot",
  "keys",
  "key-types",
  "batches",
  "memory",
  "threads",
  "waiters",
  "latency",
  "flood",
  "kinds",
  "calls",
  "http",
  "redis",
];

export async function loadQuestion(id: string): Promise<NamedQuestion> {
  const { question } = (await import(`./questions/${id}.js`)) as { question: Question };
  return { id, ...question };
}

type Better = Chart["better"];

/** A chart with one bar a series. */
export function barChart(
  id: string,
  title: string,
  label: string,
  scale: Axis["scale"] = "linear",
  better: Better = "lower",
): Chart {
  return { id, title, kind: "bars", x: null, y: { label, scale }, better };
}

/** A chart with one line a series. */
export function lineChart(id: string, title: string, x: Axis, y: Axis, better: Better = "lower"): Chart {
  return { id, title, kind: "lines", x, y, better };
}
