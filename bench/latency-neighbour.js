// The other thread of the question "latency": decides without a pause, among
// the same keys, until it is told to stop. Runs on Piscina.

import { Sluice } from "sluice";
import { address, draws } from "./addresses.js";
import { rivals } from "./rivals/index.js";

const KEYS = 4096;

/** Decides in the table of `handle`, or in one of its own as `rival` does it. */
export default async function decide({ handle, limiterName, rivalName, policy, count, words }) {
  const limiter = handle && Sluice.attach(handle).limiter(limiterName);
  const { ask, close } = limiter
    ? { ask: (key) => limiter.allow(key) }
    : rivals.find(({ name }) => name === rivalName).make({ ...policy, capacity: count });
  const keys = Array.from(draws(KEYS, count, 7), address);
  let decisions = 0;
  Atomics.store(words, 1, 1);
  Atomics.notify(words, 1);
  while (Atomics.load(words, 0) === 0) {
    for (let i = 0; i < KEYS; i++) {
      const answer = ask(keys[i]);
      if (typeof answer !== "boolean") await answer;
    }
    decisions += KEYS;
  }
  if (limiter) Sluice.attach(handle).close();
  await close?.();
  return decisions;
}
