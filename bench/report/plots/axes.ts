// The axes of a chart: scales, places and ticks.

import type { ScaleOptions } from "@observablehq/plot";
import type { Chart, Sample } from "../run.js";

/** From this ratio on, bars or lines of a linear axis would be too short to tell apart. */
const LOG_SPAN = 30;

/** 1,000 as 1k. A number that is not round, or is below one, stays as it is. */
export function tick(value: number): string {
  const sizes: [letter: string, size: number][] = [["G", 1e9], ["M", 1e6], ["k", 1e3]];
  const [letter, size] = sizes.find(([, size]) => Math.abs(value) >= size) ?? ["", 1];
  const short = Number((value / size).toPrecision(4));
  return Number.isInteger(short * 10) ? `${short}${letter}` : Number(value.toPrecision(4)).toLocaleString("en");
}

/** Powers of ten from `from` to `to`; where they are few, twice and five times them too. */
function decades(from: number, to: number): number[] {
  const first = Math.floor(Math.log10(from));
  const powers = Array.from({ length: Math.ceil(Math.log10(to)) - first + 1 }, (_, i) => 10 ** (first + i));
  const inside = (values: number[]): number[] => values.filter((value) => value >= from && value <= to);
  return inside(powers).length > 2 ? inside(powers) : inside(powers.flatMap((power) => [power, 2 * power, 5 * power]));
}

type TickFormat = (value: number) => string;

/** Options of an axis whose given ticks all have names: a logarithmic scale by itself drops some. */
export function namedTicks(ticks: number[] | number | undefined, tickFormat: TickFormat): object {
  return Array.isArray(ticks) ? { ticks, text: tickFormat } : { ticks, tickFormat };
}

export interface MeasureAxis {
  scale: ScaleOptions;
  label: string;
  /** Where the axis begins. */
  from: number;
  /** undefined: as many as fit. */
  ticks: number[] | undefined;
}

/** The axis of the measured values: from zero, or logarithmic if they span too much for that. */
export function measureAxis({ y }: Chart, samples: readonly Sample[]): MeasureAxis {
  const least = Math.min(...samples.map(({ lower }) => lower));
  const most = Math.max(...samples.map(({ upper }) => upper));
  const isLog = least > 0 && most / least > LOG_SPAN;
  if (!isLog) {
    const domain = [Math.min(0, least), most || 1];
    return { scale: { type: "linear", domain, nice: true, label: null }, label: y.label, from: 0, ticks: undefined };
  }
  // Half a decade below the least, so that its bar has a length.
  const from = 10 ** Math.floor(Math.log10(least) - 0.3);
  const to = most * 1.05;
  return {
    scale: { type: "log", domain: [from, to], label: null },
    label: `${y.label} (logarithmic)`,
    from,
    ticks: decades(from, to),
  };
}

export interface PlaceAxis {
  /** The place of each x. */
  places: Map<Sample["x"], number>;
  scale: ScaleOptions;
  ticks: number[] | undefined;
  tickFormat: TickFormat;
}

/** Percentiles are placed by how rare the values beyond them are. */
const rarity = (percentile: number): number => -Math.log10(1 - percentile / 100);

/** The axis of the places x. */
export function placeAxis({ kind, x }: Chart, samples: readonly Sample[]): PlaceAxis {
  const all = [...new Set(samples.map(({ x }) => x))];
  const byName = (places: Map<Sample["x"], number>, nameOf: (x: Sample["x"]) => string): PlaceAxis => {
    const names = new Map([...places].map(([x, at]) => [at, nameOf(x)]));
    return {
      places,
      scale: { type: "linear" },
      ticks: [...places.values()],
      tickFormat: (at) => names.get(at) ?? "",
    };
  };
  if (kind === "percentiles") {
    const numbers = all.map(Number);
    const last = Math.max(...numbers.filter((x) => x < 100).map(rarity));
    const places = new Map(numbers.map((x) => [x as Sample["x"], x === 100 ? last + 1 : rarity(x)]));
    return byName(places, (x) => (x === 100 ? "max" : String(x)));
  }
  if (x?.scale === "band") return byName(new Map(all.map((x, i) => [x, i])), String);
  const numbers = all.map(Number);
  const isLog = x?.scale === "log" && numbers.every((x) => x > 0);
  return {
    places: new Map(numbers.map((x) => [x, x])),
    scale: { type: isLog ? "log" : "linear" },
    ticks: all.length <= 9 ? numbers : undefined,
    tickFormat: tick,
  };
}
