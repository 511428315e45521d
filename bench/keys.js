// What does a decision cost by the key itself, among 10,000 keys? Against a
// bare Map of token buckets that does the same for one thread.

import { Sluice } from 'sluice'
import { addresses, draws, interned } from './addresses.js'
import { benchmark } from './cases.js'
import { mapBucket } from './map-bucket.js'
import { between, number, table } from './report.js'
import { interleave, quartiles, speedRatio, WARM } from './rounds.js'
import { checkSamePolicy } from './same-policy.js'

const KEYS = 10_000
const CAPACITY = 20_000
const DECISIONS = 20_000
const SLOTS = 50
/** Never used up here. */
const policy = { rate: 100, burst: 1_000_000 }

const order = draws(SLOTS * DECISIONS, KEYS)
const { fresh, all } = addresses(KEYS)

/** Calls `allow` with the keys of a slot, looked up in an array. */
const withKept = (keys) => (allow) => (slot) => {
  const from = (slot % SLOTS) * DECISIONS
  let admitted = 0
  for (let i = from; i < from + DECISIONS; i++) if (allow(keys[order[i]])) admitted++
  return admitted
}

/** Makes a new string for every call: part of what is timed, for all alike. */
const withFresh = (allow) => (slot) => {
  const from = (slot % SLOTS) * DECISIONS
  let admitted = 0
  for (let i = from; i < from + DECISIONS; i++) if (allow(fresh(order[i]))) admitted++
  return admitted
}

const kinds = {
  interned: () => ({ keys: interned(all()), calls: withKept(interned(all())) }),
  fresh: () => ({ keys: all(), calls: withFresh }),
  // As user ids are: small integers, but not 0, 1, 2.
  number: () => {
    const keys = Array.from({ length: KEYS }, (_, i) => Math.imul(i + 1, 2654435761) & 0x3fffffff)
    return { keys, calls: withKept(keys) }
  },
}

const oneKind = (clock, kind, least) => (quick) => {
  const { keys, calls } = kinds[kind]()
  const sluice = Sluice.create({ capacity: CAPACITY, clock })
  const limiter = sluice.tokenBucket('address', policy)
  const allowInMap = mapBucket(policy)
  const isRight = (sum) => sum === DECISIONS
  const rivals = [
    { name: 'Map', run: calls(allowInMap), isRight },
    { name: 'sluice', run: calls((key) => limiter.allow(key)), isRight },
  ]
  for (const key of keys) {
    allowInMap(key)
    limiter.allow(key)
  }
  const times = interleave(rivals, { rounds: quick ? 60 : 400, decisions: DECISIONS, slots: WARM })
  sluice.close()
  checkSamePolicy(keys, clock)

  const ratio = speedRatio(times, 'sluice', 'Map')
  return {
    text: table(
      [`${kind} keys, ${clock} clock`, 'ns, median', 'quartiles', 'decisions/s x Map', 'quartiles'],
      rivals.map(({ name }) => {
        const ns = quartiles(times.get(name))
        const speed = speedRatio(times, name, 'Map')
        return [name, number(ns.median), between(ns), number(speed.median), between(speed)]
      }),
    ),
    figures: [{ name: `${kind} keys, ${clock} clock: decisions/s x Map`, measured: ratio.median, spread: ratio, least }],
  }
}

await benchmark(import.meta.url, {
  question: 'What does a decision by key cost among 10,000 keys?',
  cases: {
    'interned-coarse': oneKind('coarse', 'interned', 1),
    'fresh-coarse': oneKind('coarse', 'fresh', 1.2),
    'interned-precise': oneKind('precise', 'interned', 0.65),
    'fresh-precise': oneKind('precise', 'fresh', 0.8),
    'number-coarse': oneKind('coarse', 'number'),
    'number-precise': oneKind('precise', 'number'),
  },
  notMeasured: [
    'long keys and keys beyond Latin-1',
    'a Map that forgets old keys, which ours never does',
    'garbage collection beyond what falls into the slots: a Map of many buckets lengthens pauses elsewhere too',
  ],
})
