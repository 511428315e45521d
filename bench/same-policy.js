// A benchmark of wrong answers is worth nothing: ours and the rivals are asked
// the same for a policy whose answers are known.

import assert from "node:assert/strict";
import { perDay, Sluice } from "sluice";

const BURST = 3;
const ASKED = 5;

/** Throws unless ours, one by one and in batches, and each of `rivals` admit each of `keys`, all different, exactly as often as its burst says. */
export async function checkSamePolicy(rivals, keys, clock) {
  const policy = { rate: perDay(1), burst: BURST };
  const capacity = 4 * keys.length;
  const sluice = Sluice.create({ capacity, clock });
  const single = sluice.tokenBucket("single", policy);
  const batched = sluice.tokenBucket("batched", policy);
  const made = rivals.map(({ name, make }) => ({ name, ...make({ ...policy, capacity }) }));
  for (let i = 1; i <= ASKED; i++) {
    const expected = i <= BURST ? keys.length : 0;
    const check = async (name, ask) => {
      let admitted = 0;
      for (const key of keys) if (await ask(key)) admitted++;
      assert.equal(admitted, expected, `${name}, call ${i} for each key`);
    };
    await check("sluice allow", (key) => single.allow(key));
    assert.equal(
      batched.allowMany(keys).reduce((sum, is) => sum + is, 0),
      expected,
      `sluice allowMany, call ${i} for each key`,
    );
    for (const { name, ask } of made) await check(name, ask);
  }
  for (const { close } of made) await close();
  sluice.close();
}
