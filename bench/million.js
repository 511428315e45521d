// What does a decision cost among a million keys in random order, when neither
// the strings nor the buckets are in the caches? One at a time, and in batches.

import { Sluice } from 'sluice'
import { addresses, shuffled } from './addresses.js'
import { benchmark } from './cases.js'
import { mapBucket } from './map-bucket.js'
import { between, number, table } from './report.js'
import { COLD, interleave, quartiles, speedRatio } from './rounds.js'
import { checkSamePolicy } from './same-policy.js'

const KEYS = 1_000_000
const BATCH = 256
const DECISIONS = 32 * BATCH
const SLOTS = Math.floor(KEYS / DECISIONS)
const CHECKED = 50_000
/** Never used up here. */
const policy = { rate: 100, burst: 1_000_000 }

/** Calls `allow` with the keys of a slot. */
const singly = (keys, allow) => (slot) => {
  const from = (slot % SLOTS) * DECISIONS
  let admitted = 0
  for (let i = from; i < from + DECISIONS; i++) if (allow(keys[i])) admitted++
  return admitted
}

/** Decides for the same keys in batches, which lie ready, as a server would have gathered them. */
const inBatches = (keys, limiter) => {
  const batches = Array.from({ length: (SLOTS * DECISIONS) / BATCH }, (_, i) => keys.slice(i * BATCH, (i + 1) * BATCH))
  const answers = new Uint8Array(BATCH)
  const batchesInSlot = DECISIONS / BATCH
  return (slot) => {
    const from = (slot % SLOTS) * batchesInSlot
    let admitted = 0
    for (let i = from; i < from + batchesInSlot; i++) {
      limiter.allowMany(batches[i], 1, answers)
      for (let j = 0; j < BATCH; j++) admitted += answers[j]
    }
    return admitted
  }
}

/**
 * Rivals in one round walk through the same shuffled keys, but begin a third of
 * the way apart: in the same place, the first would load the strings into the
 * caches and the next would find them there.
 */
const apart = (runs) => runs.map((run, i) => (slot) => run(slot + Math.floor((i * SLOTS) / runs.length)))

const oneKind = (kind, makeKeys, least) => (quick) => {
  const made = makeKeys()
  const sluice = Sluice.create({ capacity: KEYS })
  const limiter = sluice.tokenBucket('address', policy)
  const allowInMap = mapBucket(policy)
  for (const key of shuffled(made, 1)) {
    allowInMap(key)
    limiter.allow(key)
  }
  const keys = shuffled(made, 2)
  const isRight = (sum) => sum === DECISIONS
  const [map, single, batched] = apart([singly(keys, allowInMap), singly(keys, (key) => limiter.allow(key)), inBatches(keys, limiter)])
  const rivals = [
    { name: 'Map', run: map, isRight },
    { name: 'sluice, allow', run: single, isRight },
    { name: 'sluice, allowMany', run: batched, isRight },
  ]
  const times = interleave(rivals, { rounds: quick ? SLOTS : 4 * SLOTS, decisions: DECISIONS, slots: COLD })
  const { evicted } = sluice.stats()
  sluice.close()
  checkSamePolicy(keys.slice(0, CHECKED), 'precise')

  const ratios = new Map(rivals.map(({ name }) => [name, speedRatio(times, name, 'Map')]))
  const cells = rivals.map(({ name }) => {
    const ns = quartiles(times.get(name))
    const speed = ratios.get(name)
    return [name, number(ns.median), between(ns), number(speed.median), between(speed)]
  })
  return {
    text: `${table([`${kind}, precise clock`, 'ns, median', 'quartiles', 'decisions/s x Map', 'quartiles'], cells)}\n`
      + `(capacity ${KEYS.toLocaleString('en')}, all of it used; ${evicted} evictions on the way)`,
    figures: rivals.slice(1).map(({ name }, i) => {
      const speed = ratios.get(name)
      return { name: `${kind}, ${name}: decisions/s x Map`, measured: speed.median, spread: speed, least: least?.[i] }
    }),
  }
}

await benchmark(import.meta.url, {
  question: 'What does a decision cost among 1,000,000 keys in random order?',
  cases: {
    strings: oneKind('strings', () => addresses(KEYS).all(), [3, 5]),
    numbers: oneKind('numbers', () => Array.from({ length: KEYS }, (_, i) => Math.imul(i + 1, 2654435761) & 0x3fffffff)),
  },
  notMeasured: [
    'strings that are new for every call: these are the very strings that the Map holds, which is its best case',
    'keys of which some are far more frequent than others, which the caches would favour',
    'gathering keys into a batch',
    'huge pages',
  ],
})
