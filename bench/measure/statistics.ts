// Quartiles and ratios of measurements, and the samples and figures made of
// them.

import type { Figure, Sample, Spread, Target } from "../report/run.js";

export interface Quartiles extends Spread {
  median: number;
}

/** Nanoseconds a decision in each round, by the entrant's name. */
export type Times = Map<string, Float64Array>;

/** The lower quartile, the median and the upper quartile. */
export function quartiles(values: ArrayLike<number>): Quartiles {
  const sorted = Float64Array.from(values).sort();
  const at = (share: number): number => {
    const place = share * (sorted.length - 1);
    const below = Math.floor(place);
    return sorted[below] + (sorted[Math.ceil(place)] - sorted[below]) * (place - below);
  };
  return { lower: at(0.25), median: at(0.5), upper: at(0.75) };
}

/** What a chart shows: the quartiles of `values`. `x` is null in a chart of bars. */
export function sample(
  chart: string,
  series: string,
  x: Sample["x"],
  unit: string,
  values: ArrayLike<number>,
): Sample {
  return { chart, series, x, unit, ...quartiles(values), count: values.length };
}

/** Bars of one chart: the time of each entrant. */
export function timeSamples(chart: string, times: Times): Sample[] {
  return [...times].map(([name, ns]) => sample(chart, name, null, "ns", ns));
}

/** Quartiles of values / others, round by round. */
export function ratio(values: Float64Array, others: Float64Array): Quartiles {
  return quartiles(values.map((value, round) => value / others[round]));
}

/** Round by round, the cost of `name` as a multiple of the cost of `reference`. */
export function costRatio(times: Times, name: string, reference: string): Quartiles {
  return ratio(times.get(name)!, times.get(reference)!);
}

/** Round by round, the decisions a second of `name` as a multiple of those of `reference`. */
export function speedRatio(times: Times, name: string, reference: string): Quartiles {
  return costRatio(times, reference, name);
}

/** a / b of measurements that shared no rounds. The spread is the widest possible. */
export function unpairedRatio(a: Quartiles, b: Quartiles): Quartiles {
  return { lower: a.lower / b.upper, median: a.median / b.median, upper: a.upper / b.lower };
}

/** A figure that is a median with its quartiles. */
export function figure(name: string, { lower, median, upper }: Quartiles, unit: string, target: Target = {}): Figure {
  return { name, measured: median, spread: { lower, upper }, unit, ...target };
}

/** A figure that is a ratio. */
export function ratioFigure(name: string, values: Quartiles, target: Target = {}): Figure {
  return figure(name, values, " x", target);
}
