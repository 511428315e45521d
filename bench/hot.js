// What does one decision cost when the key is hashed beforehand? Against one
// reading of the clock, which a decision with the precise clock contains.

import assert from 'node:assert/strict'
import { performance as imported } from 'node:perf_hooks'
import { perDay, Sluice } from 'sluice'
import { benchmark } from './cases.js'
import { between, number, table } from './report.js'
import { costRatio, interleave, quartiles, WARM } from './rounds.js'

const DECISIONS = 20_000
const CLOCK = 'performance.now()'
/** The same without the getter that the global is. */
const IMPORTED = 'performance.now() of node:perf_hooks'
/** Never used up here, so that every call takes from it. */
const PLENTY = 2 ** 31 - 1
const FEW = 10

/** Calls of `bucket.allow()`; how many were admitted. */
const asks = (bucket) => () => {
  let admitted = 0
  for (let i = 0; i < DECISIONS; i++) if (bucket.allow()) admitted++
  return admitted
}

function readClock() {
  let sum = 0
  for (let i = 0; i < DECISIONS; i++) sum += performance.now()
  return sum
}

function readImportedClock() {
  let sum = 0
  for (let i = 0; i < DECISIONS; i++) sum += imported.now()
  return sum
}

const oneClock = (clock, most) => (quick) => {
  const sluice = Sluice.create({ capacity: 1000, clock })
  const plenty = sluice.tokenBucket('plenty', { rate: perDay(1), burst: PLENTY })
  const few = sluice.tokenBucket('few', { rate: perDay(1), burst: FEW })
  const admitting = { name: 'key(), admitted', bucket: plenty.key('hot'), isRight: (sum) => sum === DECISIONS }
  const refusing = { name: 'key(), refused', bucket: few.key('hot'), isRight: (sum) => sum === 0 }
  const globalAdmitting = { name: 'global, admitted', bucket: plenty.key(), isRight: (sum) => sum === DECISIONS }
  const globalRefusing = { name: 'global, refused', bucket: few.key(), isRight: (sum) => sum === 0 }
  const handles = [admitting, refusing, globalAdmitting, globalRefusing]
  for (const { bucket } of [refusing, globalRefusing]) assert.equal(asks(bucket)(), FEW, 'the burst, and no more')

  const isRight = (sum) => sum > 0
  const rivals = [{ name: CLOCK, run: readClock, isRight }, { name: IMPORTED, run: readImportedClock, isRight }, ...handles.map((each) => ({ ...each, run: asks(each.bucket) }))]
  const times = interleave(rivals, { rounds: quick ? 60 : 500, decisions: DECISIONS, slots: WARM })

  const stats = sluice.stats()
  assert.equal(stats.limiters.few.allowed, 2 * FEW, 'refused in every round')
  for (const { bucket } of [admitting, globalAdmitting]) {
    const taken = PLENTY - bucket.peek().remaining
    assert.ok(Math.abs(taken - stats.limiters.plenty.allowed / 2) <= 1, `each admitted call took one token, got ${taken}`)
  }
  sluice.close()

  const ratios = new Map(rivals.map(({ name }) => [name, costRatio(times, name, CLOCK)]))
  return {
    text: table(
      [`${clock} clock`, 'ns, median', 'quartiles', `x ${CLOCK}`, 'quartiles'],
      rivals.map(({ name }) => {
        const ns = quartiles(times.get(name))
        const ratio = ratios.get(name)
        return [name, number(ns.median), between(ns), number(ratio.median), between(ratio)]
      }),
    ),
    figures: handles.map(({ name }) => ({
      name: `${name}, ${clock} clock: cost x ${CLOCK}`, measured: ratios.get(name).median, spread: ratios.get(name), most,
    })),
  }
}

await benchmark(import.meta.url, {
  question: 'What does one decision on a hot key cost?',
  cases: { precise: oneClock('precise', 1.3), coarse: oneClock('coarse', 0.3) },
  notMeasured: [
    'keys that have to be hashed first (keys.js)',
    'other threads on the same key (threads.js)',
    'costs above 1, and what check, peek, reserve and wait add to a decision',
    'a process with several tables',
  ],
})
