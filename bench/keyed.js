// Entrants that ask for many keys. What a call gets is a key made for it, as
// from a socket; the keys of a slot are laid ready beforehand, outside of the
// time that is measured. Every slot takes further keys out of the same order,
// the same for each entrant, so that the untimed pass of a WARM slot warms the
// caches and not the very buckets that are timed.

import { askKeys } from "./loops.js";

/**
 * @typedef {{ order: Uint32Array, keyOf: (i: number) => string | number, decisions: number }} Work
 *   `order` holds numbers of keys, `decisions` of them a slot
 */

/** Fills `keys` with those that come next. */
function dealer(keys, { order, keyOf, decisions }) {
  let at = 0;
  return () => {
    for (let i = 0; i < decisions; i++) keys[i] = keyOf(order[(at + i) % order.length]);
    at = (at + decisions) % order.length;
  };
}

const allOf = ({ decisions }) => (admitted) => admitted === decisions;

/** Asks one at a time. */
export function singly(name, ask, work, isAsync = false) {
  const keys = new Array(work.decisions);
  const loop = askKeys(ask, keys, work.decisions, isAsync);
  return { name, isAsync, prepare: dealer(keys, work), run: () => loop(0), isRight: allOf(work) };
}

/** Asks `limiter.allowMany` for batches of `size`, which divides the decisions of a slot. */
export function inBatches(name, limiter, size, work) {
  const keys = new Array(work.decisions);
  const deal = dealer(keys, work);
  const batches = Array.from({ length: work.decisions / size }, () => new Array(size));
  const answers = new Uint8Array(size);
  return {
    name,
    // As a server would have gathered them.
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
    isRight: allOf(work),
  };
}

/** Asks for the keys 0 to `count` - 1 once, so that all have a bucket. */
export async function fill(asks, count, keyOf) {
  for (let i = 0; i < count; i++) {
    const key = keyOf(i);
    for (const ask of asks) {
      const answer = ask(key);
      if (answer !== true && !(await answer)) throw new Error(`key ${i} of ${count} was refused when it was new`);
    }
  }
}
