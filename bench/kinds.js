// What does each kind of limiter cost beside the token bucket? On a hot key,
// among a million keys, and with two workers.

import { Sluice } from 'sluice'
import { shuffled } from './addresses.js'
import { benchmark } from './cases.js'
import { kindNames, limiterOf, placeOf, REFERENCE } from './every-kind.js'
import { between, number, table } from './report.js'
import { COLD, costRatio, interleave, quartiles, WARM } from './rounds.js'
import { Crew, kindJob } from './threads-crew.js'

const HOT_DECISIONS = 10_000
const KEYS = 1_000_000
const DECISIONS = 8_000
const WORKERS = 2

/** What is asked of a kind's cost, times the token bucket's. */
const asked = { word: 1.2, line: 3 }

function report(title, times, isAsked) {
  const ratios = new Map(kindNames.map((kind) => [kind, costRatio(times, kind, REFERENCE)]))
  return {
    text: table(
      [title, 'state', 'ns, median', 'quartiles', 'cost x tokenBucket', 'quartiles'],
      kindNames.map((kind) => {
        const ns = quartiles(times.get(kind))
        return [kind, placeOf(kind), number(ns.median), between(ns), number(ratios.get(kind).median), between(ratios.get(kind))]
      }),
    ),
    figures: kindNames.filter((kind) => kind !== REFERENCE).map((kind) => ({
      name: `${kind}, ${title}: cost x tokenBucket`, measured: ratios.get(kind).median, spread: ratios.get(kind), most: isAsked ? asked[placeOf(kind)] : undefined,
    })),
  }
}

function hot(quick) {
  const sluice = Sluice.create({ capacity: 1000, clock: 'coarse' })
  const rivals = kindNames.map((kind) => {
    const key = limiterOf(sluice, kind).key('hot')
    return {
      name: kind,
      run: () => {
        let admitted = 0
        for (let i = 0; i < HOT_DECISIONS; i++) if (key.allow()) admitted++
        return admitted
      },
      // The sliding counter's limit is spent in a long run.
      isRight: (admitted) => admitted === HOT_DECISIONS || kind !== REFERENCE,
    }
  })
  const times = interleave(rivals, { rounds: quick ? 40 : 300, decisions: HOT_DECISIONS, slots: WARM })
  sluice.close()
  return report('hot key', times, true)
}

function million(quick) {
  const sluice = Sluice.create({ capacity: kindNames.length * KEYS, lineCapacity: 3 * KEYS, clock: 'coarse' })
  const keys = shuffled(Array.from({ length: KEYS }, (_, i) => i), 3)
  const slots = KEYS / DECISIONS
  const rivals = kindNames.map((kind, at) => {
    const limiter = limiterOf(sluice, kind)
    for (let i = 0; i < KEYS; i++) limiter.allow(i)
    return {
      name: kind,
      run: (slot) => {
        const from = ((slot + Math.floor((at * slots) / kindNames.length)) % slots) * DECISIONS
        let admitted = 0
        for (let i = from; i < from + DECISIONS; i++) if (limiter.allow(keys[i])) admitted++
        return admitted
      },
      isRight: (admitted) => admitted === DECISIONS,
    }
  })
  const times = interleave(rivals, { rounds: quick ? 40 : 250, decisions: DECISIONS, slots: COLD })
  sluice.close()
  return report('1,000,000 number keys', times, true)
}

async function workers(quick) {
  const sluice = Sluice.create({ capacity: 1000, clock: 'coarse' })
  for (const kind of kindNames) limiterOf(sluice, kind)
  const crew = await Crew.hire(WORKERS, 'coarse', sluice.handle)
  const everyone = Array.from({ length: WORKERS }, (_, me) => me)
  const times = new Map(kindNames.map((kind) => [kind, []]))
  const rounds = quick ? 5 : 20
  for (let round = -1; round < rounds; round++) {
    for (const kind of kindNames) {
      const done = await crew.work(kindJob(kind), everyone, quick ? 50 : 100)
      // Nanoseconds of one worker while both decide.
      if (round >= 0) times.get(kind).push((done.reduce((sum, { ms }) => sum + ms, 0) * 1e6) / done.reduce((sum, { decisions }) => sum + decisions, 0))
    }
  }
  await crew.dismiss()
  sluice.close()
  return report('two workers, a hot key each', new Map([...times].map(([kind, ns]) => [kind, Float64Array.from(ns)])), false)
}

await benchmark(import.meta.url, {
  question: 'What does each kind of limiter cost beside the token bucket?',
  cases: { hot, million, workers },
  notMeasured: ['refusals', 'two workers on one key', 'what check, peek, reserve and wait add', 'string keys, whose cost is in all kinds alike'],
})
