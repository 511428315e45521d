// A benchmark of wrong answers is worth nothing. Our limiters and the rivals are
// asked the same calls under a policy whose answers are known.

import assert from "node:assert/strict";
import { perDay, Sluice } from "sluice";
import type { Ask, Rival } from "../rivals/rival.js";

const BURST = 3;
const CALLS = 5;

/**
 * Throws unless ours, one by one and in batches, and each of `rivals` admit each
 * key exactly as often as the burst says. The keys must differ.
 */
export async function checkSamePolicy(rivals: Rival[], keys: string[], clock: "coarse" | "precise"): Promise<void> {
  const policy = { rate: perDay(1), burst: BURST };
  const capacity = 4 * keys.length;
  const sluice = Sluice.create({ capacity, clock });
  const single = sluice.tokenBucket("single", policy);
  const batched = sluice.tokenBucket("batched", policy);
  const made = rivals.map(({ name, make }) => ({ name, ...make({ ...policy, capacity }) }));
  for (let call = 1; call <= CALLS; call++) {
    const expected = call <= BURST ? keys.length : 0;
    const check = async (name: string, ask: Ask<string>): Promise<void> => {
      let admitted = 0;
      for (const key of keys) if (await ask(key)) admitted++;
      assert.equal(admitted, expected, `${name}, call ${call} for each key`);
    };
    await check("sluice allow", (key) => single.allow(key));
    const inBatch = batched.allowMany(keys).reduce((sum, is) => sum + is, 0);
    assert.equal(inBatch, expected, `sluice allowMany, call ${call} for each key`);
    for (const { name, ask } of made) await check(name, ask);
  }
  for (const { close } of made) await close();
  sluice.close();
}
