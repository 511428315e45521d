// Entrants in turn. A shared machine is never quiet, so entrants are not
// measured one after the other: every round gives each of them one short slot
// of the same work, in an order that moves on by one a round, and a ratio is
// taken within its round. What disturbs a round disturbs all of them; what
// disturbs a slot makes one ratio of hundreds wrong, and the median does not
// mind. The time of a slot is taken by tinybench.

import { Bench } from "tinybench";

/**
 * One way to make decisions. `run(slot)` makes the decisions of that slot and
 * returns a number that depends on every answer, or a promise of it if
 * `isAsync`. Outside of the time that is measured, `prepare(slot)` lays ready
 * what the run needs, and `isRight` judges the answer. `slot` counts up over
 * all rounds, so that an entrant can walk through its keys. `decisions` is
 * there for one that is so slow that it has to do fewer than the others.
 *
 * @typedef {{ name: string, run: (slot: number) => number | Promise<number>, isRight: (answer: number) => boolean,
 *   isAsync?: boolean, prepare?: (slot: number) => void, decisions?: number }} Entrant
 */

/** How a slot begins: an entrant may find in the caches what it used last, or nothing. */
export const WARM = true;
export const COLD = false;

/**
 * Runs the entrants in rounds and resolves to the nanoseconds a decision took
 * in each round, by name. In a WARM slot the entrant does its work once before
 * it is timed: otherwise the one with the larger memory would pay for being
 * interleaved, which it would not where it is used.
 *
 * @param {Entrant[]} entrants
 * @param {{ rounds: number, decisions: number, slots: boolean }} options
 * @returns {Promise<Map<string, Float64Array>>}
 */
export async function interleave(entrants, { rounds, decisions, slots }) {
  let slot = 0;
  const check = ({ name, isRight }, answer) => {
    if (!isRight(answer)) throw new Error(`${name}: wrong answers, they sum up to ${answer} in slot ${slot}`);
  };
  const untimed = async (entrant) => {
    entrant.prepare?.(slot);
    check(entrant, await entrant.run(slot));
  };
  const addTo = (bench, entrant) => {
    const { name, run, prepare, isAsync = false } = entrant;
    let answer;
    bench.add(
      name,
      isAsync
        ? async () => {
          answer = await run(slot);
        }
        : () => {
          answer = run(slot);
        },
      {
        async: isAsync,
        async beforeEach() {
          if (slots === WARM) await untimed(entrant);
          prepare?.(slot);
        },
        afterEach: () => check(entrant, answer),
      },
    );
  };
  const benches = entrants.map((_, first) => {
    const bench = new Bench({ time: 0, iterations: 1, warmup: false, throws: true });
    for (let turn = 0; turn < entrants.length; turn++) addTo(bench, entrants[(first + turn) % entrants.length]);
    return bench;
  });

  const decisionsOf = new Map(entrants.map((entrant) => [entrant.name, entrant.decisions ?? decisions]));
  const times = new Map(entrants.map(({ name }) => [name, new Float64Array(rounds)]));
  const warmUps = Math.min(rounds, Math.max(20, rounds >> 3));
  for (; slot < warmUps; slot++) for (const entrant of entrants) await untimed(entrant);
  globalThis.gc?.();
  for (let round = 0; round < rounds; round++, slot++) {
    const bench = benches[round % benches.length];
    bench.reset();
    for (const { name, result } of await bench.run()) {
      times.get(name)[round] = (result.latency.mean * 1e6) / decisionsOf.get(name);
    }
  }
  return times;
}

/** The lower quartile, the median and the upper quartile. */
export function quartiles(values) {
  const sorted = Float64Array.from(values).sort();
  const at = (share) => {
    const place = share * (sorted.length - 1);
    const below = Math.floor(place);
    return sorted[below] + (sorted[Math.ceil(place)] - sorted[below]) * (place - below);
  };
  return { lower: at(0.25), median: at(0.5), upper: at(0.75) };
}

/** What is drawn: the quartiles of `values`. `x` is null in a chart of bars. */
export function sample(chart, series, x, unit, values) {
  return { chart, series, x, unit, ...quartiles(values), count: values.length };
}

/** Round by round, how many times the cost of `reference` is that of `name`. */
export function costRatio(times, name, reference) {
  const own = times.get(name);
  const other = times.get(reference);
  return quartiles(own.map((ns, round) => ns / other[round]));
}

/** Round by round, how many times the decisions a second of `reference` are those of `name`. */
export function speedRatio(times, name, reference) {
  return costRatio(times, reference, name);
}

/** How many times `a` is `b`, both quartiles of measurements that had no rounds in common: the spread is the widest that there can be. */
export function unpairedRatio(a, b) {
  return { lower: a.lower / b.upper, median: a.median / b.median, upper: a.upper / b.lower };
}

/** A figure that is the median of a ratio; `asked` is `{ most }`, `{ least }` or nothing. */
export function ratioFigure(name, { lower, median, upper }, asked = {}) {
  return { name, measured: median, spread: { lower, upper }, unit: " x", ...asked };
}
