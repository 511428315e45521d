// The other thread of questions/latency.ts, on Piscina: decides without a pause,
// among the same keys, until it is asked to stop.

import { Sluice, type SluiceHandle } from "sluice";
import { address, draws } from "../measure/addresses.js";
import { rivals } from "../rivals/index.js";
import type { MadeRival, Policy } from "../rivals/rival.js";

const KEYS = 4096;

/** Indices of the shared words. */
export const STOP = 0;
export const STARTED = 1;

export interface Neighbour {
  /** Decides in this table, or without one in a table of its own as the rival of this name does. */
  handle?: SluiceHandle;
  rivalName?: string;
  limiterName: string;
  policy: Policy;
  /** Keys. */
  count: number;
  words: Int32Array;
}

function make({ handle, limiterName, rivalName, policy, count }: Neighbour): MadeRival {
  if (handle === undefined) return rivals.find(({ name }) => name === rivalName)!.make({ ...policy, capacity: count });
  const sluice = Sluice.attach(handle);
  const limiter = sluice.limiter(limiterName);
  return { ask: (key) => limiter.allow(key), close: () => sluice.close() };
}

/** How many decisions it made. */
export default async function decide(neighbour: Neighbour): Promise<number> {
  const { ask, close } = make(neighbour);
  const { count, words } = neighbour;
  const keys = Array.from(draws(KEYS, count, 7), address);
  let decisions = 0;
  Atomics.store(words, STARTED, 1);
  Atomics.notify(words, STARTED);
  while (Atomics.load(words, STOP) === 0) {
    for (let i = 0; i < KEYS; i++) {
      const answer = ask(keys[i]);
      if (typeof answer !== "boolean") await answer;
    }
    decisions += KEYS;
  }
  await close();
  return decisions;
}
