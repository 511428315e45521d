// Do two threads decide twice as much? On keys of their own, and on one shared
// key. Workers stay alive; rounds of one and of two workers alternate.
//
// Not every machine gives two threads twice the work of one: cores may be two
// faces of one core, or busy with something else. So the same work is also done
// by workers that share nothing, each at a table of its own. What those gain
// the machine gives; what they gain beyond the others, sharing costs.

import assert from 'node:assert/strict'
import { benchmark } from './cases.js'
import { between, number, table } from './report.js'
import { quartiles } from './rounds.js'
import { BURSTS, Crew, jobs, makeTable } from './threads-crew.js'

const WORKERS = 2
const EVERYONE = Array.from({ length: WORKERS }, (_, me) => me)
const REFUSED = 'one shared key, refused'
const ADMITTED = 'one shared key, admitted'
const names = Object.keys(jobs)

/** What is asked of two workers, times one. */
const asked = { 'own keys, strings': 1.8, 'own key, hot': 1.8, [REFUSED]: 1.6 }

/** A crew, and what it did. */
class Ledger {
  gains = new Map(names.map((name) => [name, []]))
  aloneNs = new Map(names.map((name) => [name, []]))
  admitted = new Map(names.map((name) => [name, 0]))

  constructor(crew) {
    this.crew = crew
  }

  /** Decisions a millisecond of the workers `who` together. */
  async speed(name, who, lengthMs) {
    const done = await this.crew.work(names.indexOf(name), who, lengthMs)
    for (const { decisions, admitted } of done) {
      this.admitted.set(name, this.admitted.get(name) + admitted)
      if (name !== REFUSED) assert.equal(admitted, decisions, `${name}: every call is admitted`)
    }
    return done.reduce((sum, { decisions, ms }) => sum + decisions / ms, 0)
  }

  /** One worker, both, the other one: what drifts meanwhile cancels out. */
  async round(name, turn, lengthMs) {
    const first = await this.speed(name, [turn % WORKERS], lengthMs)
    const both = await this.speed(name, EVERYONE, lengthMs)
    const second = await this.speed(name, [(turn + 1) % WORKERS], lengthMs)
    const one = (first + second) / 2
    this.aloneNs.get(name).push(1e6 / one)
    this.gains.get(name).push(both / one)
  }
}

const oneClock = (clock, isAsked) => async (quick) => {
  const lengthMs = quick ? 100 : 300
  const rounds = quick ? 4 : 12
  const sluice = makeTable(clock)
  const sharing = new Ledger(await Crew.hire(WORKERS, clock, sluice.handle))
  const apart = new Ledger(await Crew.hire(WORKERS, clock))

  for (const name of names) for (const ledger of [sharing, apart]) await ledger.speed(name, EVERYONE, lengthMs)
  for (let turn = 0; turn < rounds; turn++) {
    for (const name of names) for (const ledger of [sharing, apart]) await ledger.round(name, turn, lengthMs)
    // Nothing was lost or granted twice between the threads.
    const shared = sluice.limiter('plenty').key('shared')
    const taken = BURSTS.plenty - shared.peek().remaining
    assert.ok(Math.abs(taken - sharing.admitted.get(ADMITTED)) <= 1, `${ADMITTED}: ${sharing.admitted.get(ADMITTED)} times, but ${taken} were taken`)
    shared.reset()
    sharing.admitted.set(ADMITTED, 0)
  }
  assert.equal(sharing.admitted.get(REFUSED), BURSTS.few, 'the burst, and no more, whoever asks')
  assert.equal(apart.admitted.get(REFUSED), WORKERS * BURSTS.few, 'the burst, and no more, at each table')
  assert.ok(sluice.audit().clean)
  for (const { crew } of [sharing, apart]) await crew.dismiss()
  sluice.close()

  const gain = (name) => quartiles(sharing.gains.get(name))
  return {
    text: table(
      [`${clock} clock, ${WORKERS} workers`, 'ns, one worker', 'decisions/s x one', 'quartiles', 'at tables of their own', 'quartiles'],
      names.map((name) => {
        const own = quartiles(apart.gains.get(name))
        return [name, number(quartiles(sharing.aloneNs.get(name)).median), number(gain(name).median), between(gain(name)), number(own.median), between(own)]
      }),
    ),
    figures: names.map((name) => ({
      name: `${name}, ${clock} clock: ${WORKERS} workers x 1`, measured: gain(name).median, spread: gain(name), least: isAsked ? asked[name] : undefined,
    })),
  }
}

await benchmark(import.meta.url, {
  question: 'Do two threads decide twice as much as one?',
  cases: { precise: oneClock('precise', true), coarse: oneClock('coarse', false) },
  notMeasured: [
    `more than ${WORKERS} workers`,
    'a machine with idle cores, unless workers at tables of their own gain nearly 2',
    'threads that claim slots at the same time',
    'asking a thread that owns all buckets by messages',
  ],
})
