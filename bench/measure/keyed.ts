// Entrants that ask for many keys. Each call gets a key made for it, as from a
// socket; the keys of a slot are made beforehand, outside the measured time.
// Every slot takes the next keys of the same order, the same for each entrant,
// so the untimed run before a timed one warms the caches and not the very
// buckets that are timed.

import type { Ask, Key } from "../rivals/rival.js";
import { askKeys } from "./loops.js";
import type { Entrant } from "./rounds.js";

export interface Work<K> {
  /** Numbers of keys, `decisions` of them a slot. */
  order: Uint32Array;
  keyOf(i: number): K;
  decisions: number;
}

/** Takes many keys in one call, as a limiter's `allowMany`. */
interface Batched {
  allowMany(keys: string[], cost: number, out: Uint8Array): Uint8Array;
}

/** A function that fills `keys` with the next ones. */
function dealer<K>(keys: K[], { order, keyOf, decisions }: Work<K>): () => void {
  let at = 0;
  return () => {
    for (let i = 0; i < decisions; i++) keys[i] = keyOf(order[(at + i) % order.length]);
    at = (at + decisions) % order.length;
  };
}

/** Asks one at a time. */
export function singly<K>(name: string, ask: Ask<K>, work: Work<K>, isAsync = false): Entrant {
  const keys = new Array<K>(work.decisions);
  const loop = askKeys(ask, keys, work.decisions, isAsync);
  return {
    name,
    isAsync,
    prepare: dealer(keys, work),
    run: () => loop(0),
    isRight: (admitted) => admitted === work.decisions,
  };
}

/** Asks `limiter.allowMany` for batches of `size`, which divides the decisions of a slot. */
export function inBatches(name: string, limiter: Batched, size: number, work: Work<string>): Entrant {
  const keys = new Array<string>(work.decisions);
  const deal = dealer(keys, work);
  const batches = Array.from({ length: work.decisions / size }, () => new Array<string>(size));
  const answers = new Uint8Array(size);
  return {
    name,
    prepare() {
      deal();
      for (let i = 0; i < keys.length; i++) batches[Math.floor(i / size)][i % size] = keys[i];
    },
    run() {
      let admitted = 0;
      for (const batch of batches) {
        limiter.allowMany(batch, 1, answers);
        for (let i = 0; i < size; i++) admitted += answers[i];
      }
      return admitted;
    },
    isRight: (admitted) => admitted === work.decisions,
  };
}

/** Asks for the keys 0 to `count` - 1 once, so that each has a bucket. */
export async function fill<K extends Key>(asks: Ask<K>[], count: number, keyOf: (i: number) => K): Promise<void> {
  for (let i = 0; i < count; i++) {
    const key = keyOf(i);
    for (const ask of asks) {
      const answer = ask(key);
      if (answer !== true && !(await answer)) throw new Error(`key ${i} of ${count} was refused when it was new`);
    }
  }
}
