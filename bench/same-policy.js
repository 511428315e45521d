// A benchmark of wrong answers is worth nothing: the table and the Map are
// asked the same for a policy whose answers are known.

import assert from 'node:assert/strict'
import { perDay, Sluice } from 'sluice'
import { mapBucket } from './map-bucket.js'

const BURST = 3
const ASKED = 5

/** Throws unless table, batch and Map admit each of `keys`, all different, exactly as often as its burst says. */
export function checkSamePolicy(keys, clock) {
  const sluice = Sluice.create({ capacity: 4 * keys.length, clock })
  const policy = { rate: perDay(1), burst: BURST }
  const single = sluice.tokenBucket('single', policy)
  const batched = sluice.tokenBucket('batched', policy)
  const allowInMap = mapBucket(policy)
  for (let i = 1; i <= ASKED; i++) {
    const expected = i <= BURST ? keys.length : 0
    const admitted = (allow) => keys.reduce((sum, key) => sum + (allow(key) ? 1 : 0), 0)
    assert.equal(admitted((key) => single.allow(key)), expected, `allow, call ${i} for each key`)
    assert.equal(batched.allowMany(keys).reduce((sum, is) => sum + is, 0), expected, `allowMany, call ${i} for each key`)
    assert.equal(admitted(allowInMap), expected, `Map, call ${i} for each key`)
  }
  sluice.close()
}
