// Which series are ours, and how each series looks.

import type { Sample } from "../run.js";

/** Colours of rivals. Beyond that number they repeat, together with other marks. */
const RIVAL_COLOURS = 12;
const OUR_COLOURS = 4;
const SYMBOLS = ["square", "triangle", "diamond", "star", "cross", "wye", "asterisk"] as const;

export interface Look {
  /** A CSS variable of the page. */
  colour: string;
  symbol: "circle" | (typeof SYMBOLS)[number];
  /** Of the line, px. */
  width: number;
}

/** Tells our series of a chart: those that say so, or all if none does. */
export function oursIn(samples: readonly Sample[]): (sample: Sample) => boolean {
  const says = ({ series }: Sample): boolean => series.startsWith("sluice");
  return samples.some(says) ? says : () => true;
}

/**
 * The look of each series of a chart. A rival looks the same in all charts of the
 * run, unless another rival of the chart has its colour already. `rivals` are the
 * series of the run that are not ours, in order of appearance.
 */
export function looksOf(samples: readonly Sample[], rivals: readonly string[]): Map<string, Look> {
  const isOurs = oursIn(samples);
  const taken = new Set<number>();
  const freeColour = (i: number): string => {
    let colour = i % RIVAL_COLOURS;
    for (let turn = 0; taken.has(colour) && turn < RIVAL_COLOURS; turn++) colour = (colour + 1) % RIVAL_COLOURS;
    taken.add(colour);
    return `var(--rival-${1 + colour})`;
  };
  const ours = new Set(samples.filter(isOurs).map(({ series }) => series));
  const theirs = new Set(samples.filter((each) => !isOurs(each)).map(({ series }) => series));
  const looks = new Map<string, Look>();
  for (const series of ours) {
    looks.set(series, { colour: `var(--ours-${1 + (looks.size % OUR_COLOURS)})`, symbol: "circle", width: 2.5 });
  }
  for (const series of theirs) {
    const i = rivals.indexOf(series);
    looks.set(series, { colour: freeColour(i), symbol: SYMBOLS[i % SYMBOLS.length], width: 1.5 });
  }
  return looks;
}
