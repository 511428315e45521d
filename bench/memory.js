// What does a key cost in memory, and what does a flood of keys? Resident
// memory of a process of its own, after garbage collection, before and after.

import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { perDay, Sluice } from 'sluice'
import { benchmark } from './cases.js'
import { mapBucket } from './map-bucket.js'
import { number, table } from './report.js'

const CAPACITY = 1_000_000
const BURST = 5
/** Refills nothing that counts here, so that no key becomes fresh again. */
const policy = { rate: perDay(1), burst: BURST }
const MILLION = 1_000_000

/** Resident bytes, once garbage is gone: the engine hands its pages back in the background, so the least of some readings. */
async function residentBytes() {
  let least = Infinity
  for (let i = 0; i < 6; i++) {
    globalThis.gc()
    await sleep(50)
    least = Math.min(least, process.memoryUsage.rss())
  }
  return least
}

const addressOf = (i) => `10.${(i >>> 16) & 255}.${(i >>> 8) & 255}.${i & 255}`
const numberOf = (i) => i

function fill(allow, keyOf, from, to) {
  let admitted = 0
  for (let i = from; i < to; i++) if (allow(keyOf(i))) admitted++
  assert.equal(admitted, to - from, 'a new key is admitted')
}

const tableOf = (capacity) => {
  const sluice = Sluice.create({ capacity })
  const limiter = sluice.tokenBucket('flooded', policy)
  return { sluice, limiter, allow: (key) => limiter.allow(key) }
}
const mapOf = () => ({ allow: mapBucket(policy) })

const memoryOf = (name, make, keyOf, most) => async () => {
  // Code, compiled code and a grown young generation are no part of a key.
  for (let i = 0; i < 40; i++) fill(make(50_000).allow, keyOf, 0, 50_000)
  const before = await residentBytes()
  const made = make(CAPACITY)
  fill(made.allow, keyOf, 0, CAPACITY)
  const bytesAKey = ((await residentBytes()) - before) / CAPACITY
  for (let call = 2; call <= BURST + 1; call++) {
    let admitted = 0
    for (let i = 0; i < 1000; i++) if (made.allow(keyOf(i))) admitted++
    if (call <= BURST) assert.equal(admitted, 1000, 'a key is admitted as often as its burst says')
    else assert.ok(admitted <= (made.sluice?.stats().evicted ?? 0), 'and no more, but for the few that lost their slots to others')
  }
  const inTable = made.sluice && made.sluice.audit()
  if (inTable) assert.ok(inTable.clean && inTable.used - inTable.fresh > 0.999 * CAPACITY, 'all keys are in use')
  return {
    text: table(['memory', 'bytes a key', 'keys in use'], [[name, number(bytesAKey), String(inTable ? inTable.used - inTable.fresh : CAPACITY)]]),
    figures: [{ name: `${name}: resident bytes a key`, measured: bytesAKey, unit: ' B', most }],
  }
}

const BLOCKED = 1000
const MIB = 2 ** 20

/**
 * Keys that nobody will ask for again, through a table that cannot hold them:
 * numbers, because strings make garbage, and what the engine keeps for garbage
 * is not the table's. 1,000 keys used up their burst before; they are asked for
 * after every million keys.
 */
async function flood(quick) {
  const millions = quick ? 5 : 20
  const { sluice, limiter } = tableOf(CAPACITY)
  const blocked = Array.from({ length: BLOCKED }, (_, i) => `blocked ${i}`)
  for (const key of blocked) for (let call = 0; call <= BURST; call++) assert.equal(limiter.allow(key), call < BURST)

  let unblocked = 0
  let baseBytes = 0
  let mostBytes = 0
  for (let done = 1; done <= millions; done++) {
    fill((key) => limiter.allow(key), numberOf, (done - 1) * MILLION, done * MILLION)
    for (const key of blocked) if (limiter.allow(key)) unblocked++
    const bytes = await residentBytes()
    // After two million keys every page of the table has been touched.
    if (done === 2) baseBytes = bytes
    if (done > 2) mostBytes = Math.max(mostBytes, bytes)
    process.stderr.write(`flood: ${done} of ${millions} million keys, ${(bytes / MIB).toFixed(1)} MiB, ${unblocked} unblocked\n`)
  }
  const { evicted } = sluice.stats()
  assert.ok(evicted >= (millions - 2) * MILLION, 'it was a flood')
  assert.ok(sluice.audit().clean)
  const growth = 100 * (mostBytes / baseBytes - 1)
  return {
    text: table(
      [`flood of ${millions} million keys, capacity 1 million`, 'value'],
      [
        ['resident after 2 million, MiB', number(baseBytes / MIB)],
        ['most resident after that, MiB', number(mostBytes / MIB)],
        ['evicted', String(evicted)],
        [`unblocked, of ${BLOCKED} keys over their limit`, String(unblocked)],
      ],
    ),
    figures: [
      { name: 'flood: growth of resident memory', measured: growth, unit: ' %', most: 2 },
      { name: `flood: unblocked of ${BLOCKED} keys over their limit`, measured: unblocked, most: 0 },
    ],
  }
}

await benchmark(import.meta.url, {
  question: 'What does a key cost in memory, and what does a flood of keys?',
  cases: {
    // A table keeps no key. Numbers make no garbage, which would be taken for the table's.
    table: memoryOf('sluice, keys of any kind', tableOf, numberOf, 24),
    map: memoryOf('Map, number keys', mapOf, numberOf),
    'map-strings': memoryOf('Map, string keys', mapOf, addressOf),
    flood,
  },
  notMeasured: [
    'a table of which only a part is used: pages cost memory once touched, and keys are spread over all of them',
    'what each further thread needs for its own instance of the kernel',
    'a flood whose keys use up their own burst, which competes with the blocked keys on equal terms',
  ],
})
