// Entrants take turns. A shared machine is never quiet, so entrants are not
// measured one after the other. Every round gives each entrant one short slot of
// the same work, in an order that moves on by one each round, and a ratio is
// taken within its round. A disturbance of a round affects all entrants; a
// disturbance of one slot spoils one ratio of hundreds, and the median ignores
// it. tinybench takes the time of a slot.

import { Bench } from "tinybench";
import type { Admitted } from "./loops.js";
import type { Times } from "./statistics.js";

/** One way to make decisions. `slot` counts up over all rounds, so that an entrant can walk through its keys. */
export interface Entrant {
  name: string;
  /** Makes the decisions of one slot. Returns a number that depends on every answer: a promise if `isAsync`. */
  run(slot: number): Admitted;
  /** Judges what `run` returned, outside the measured time. */
  isRight(answer: number): boolean;
  isAsync?: boolean;
  /** Prepares what the run needs, outside the measured time. */
  prepare?(slot: number): void;
  /** Decisions a slot, for an entrant too slow to make as many as the others. */
  decisions?: number;
}

export interface RoundOptions {
  rounds: number;
  /** Decisions a slot. */
  decisions: number;
}

function check({ name, isRight }: Entrant, answer: number, slot: number): void {
  if (!isRight(answer)) throw new Error(`${name}: wrong answers, they add up to ${answer} in slot ${slot}`);
}

async function untimed(entrant: Entrant, slot: number): Promise<void> {
  entrant.prepare?.(slot);
  check(entrant, await entrant.run(slot), slot);
}

/**
 * Runs the entrants in rounds. Before each timed run an entrant does its work
 * once without being timed: otherwise the one with the larger memory would pay
 * for the interleaving, which it would not in real use.
 */
export async function interleave(entrants: readonly Entrant[], { rounds, decisions }: RoundOptions): Promise<Times> {
  let slot = 0;
  const addTo = (bench: Bench, entrant: Entrant): void => {
    const { name, run, prepare, isAsync = false } = entrant;
    let answer = 0;
    const timed = isAsync
      ? async () => {
        answer = await run(slot);
      }
      : () => {
        answer = run(slot) as number;
      };
    bench.add(name, timed, {
      async: isAsync,
      async beforeEach() {
        await untimed(entrant, slot);
        prepare?.(slot);
      },
      afterEach: () => check(entrant, answer, slot),
    });
  };
  const benches = entrants.map((_, first) => {
    const bench = new Bench({ time: 0, iterations: 1, warmup: false, throws: true });
    for (let turn = 0; turn < entrants.length; turn++) addTo(bench, entrants[(first + turn) % entrants.length]);
    return bench;
  });

  const decisionsOf = new Map(entrants.map((entrant) => [entrant.name, entrant.decisions ?? decisions]));
  const times: Times = new Map(entrants.map(({ name }) => [name, new Float64Array(rounds)]));
  const warmUps = Math.min(rounds, Math.max(20, rounds >> 3));
  for (; slot < warmUps; slot++) for (const entrant of entrants) await untimed(entrant, slot);
  globalThis.gc?.();
  for (let round = 0; round < rounds; round++, slot++) {
    const bench = benches[round % benches.length];
    bench.reset();
    for (const task of await bench.run()) {
      const { name, result } = task;
      if (!("latency" in result)) throw new Error(`${name}: ${result.state}`);
      times.get(name)![round] = (result.latency.mean * 1e6) / decisionsOf.get(name)!;
    }
  }
  return times;
}
