// Workers that stay alive and do a job for as long as they are told, both
// sides of it: the crew that the main thread holds, and what a worker runs.

import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { setTimeout as sleep } from 'node:timers/promises'
import { perDay, Sluice } from 'sluice'
import { addresses, draws } from './addresses.js'
import { kindNames, limiterOf } from './every-kind.js'

/** Limiters of the table, and their bursts. */
export const BURSTS = { plenty: 2 ** 31 - 1, few: 10_000 }

const KEYS = 10_000
const CHUNK = 2_000

export function makeTable(clock) {
  const sluice = Sluice.create({ capacity: 100_000, clock })
  for (const [name, burst] of Object.entries(BURSTS)) sluice.tokenBucket(name, { rate: perDay(1), burst })
  return sluice
}

const singly = (bucket) => () => {
  let admitted = 0
  for (let i = 0; i < CHUNK; i++) if (bucket.allow()) admitted++
  return admitted
}

const byKey = (limiter, keys) => {
  const order = draws(50 * CHUNK, KEYS)
  let at = 0
  return () => {
    let admitted = 0
    for (let i = at; i < at + CHUNK; i++) if (limiter.allow(keys[order[i]])) admitted++
    at = (at + CHUNK) % order.length
    return admitted
  }
}

/** Each makes a function that decides CHUNK times and returns how many were admitted. */
export const jobs = {
  'own keys, strings': (sluice, me) => byKey(sluice.limiter('plenty'), addresses(KEYS, (1 + me) * KEYS).all()),
  'own key, hot': (sluice, me) => singly(sluice.limiter('plenty').key(me)),
  'one shared key, refused': (sluice) => singly(sluice.limiter('few').key('shared')),
  'one shared key, admitted': (sluice) => singly(sluice.limiter('plenty').key('shared')),
  'shared keys, strings': (sluice) => byKey(sluice.limiter('plenty'), addresses(KEYS).all()),
}

/** The same for every kind of limiter, on a hot key of the worker's own. */
const kindJobs = Object.fromEntries(kindNames.map((kind) => [kind, (sluice, me) => singly(limiterOf(sluice, kind).key(me))]))
const allJobs = { ...jobs, ...kindJobs }

/** The number of a kind's job. */
export function kindJob(kind) {
  return Object.keys(allJobs).indexOf(kind)
}

// Words that the threads share: a worker sleeps on TURN until its bit is in
// WHO, works until STOP is the turn, writes its results, and counts in DONE.
const TURN = 0
const STOP = 1
const WHO = 2
const JOB = 3
const DONE = 4
const WORDS = 5
// Numbers for each worker.
const DECISIONS = 0
const ADMITTED = 1
const MS = 2
const NUMBERS = 3

export class Crew {
  #workers
  #words = new Int32Array(new SharedArrayBuffer(4 * WORDS))
  #numbers
  #failed

  constructor(size) {
    this.#numbers = new Float64Array(new SharedArrayBuffer(8 * NUMBERS * size))
  }

  /** `size` workers, ready to work: at the table behind `handle`, or without one each at a table of its own. */
  static async hire(size, clock, handle) {
    const crew = new Crew(size)
    crew.#workers = Array.from({ length: size }, (_, me) =>
      new Worker(new URL(import.meta.url), { workerData: { clock, handle, me, words: crew.#words, numbers: crew.#numbers } }))
    crew.#failed = new Promise((_, reject) => crew.#workers.forEach((worker) => worker.on('error', reject)))
    const ready = crew.#workers.map((worker) => new Promise((resolve) => worker.once('message', resolve)))
    await Promise.race([Promise.all(ready), crew.#failed])
    return crew
  }

  /** Lets the workers `who` do a job at the same time; resolves to what each of them did. */
  async work(job, who, lengthMs) {
    const words = this.#words
    Atomics.store(words, JOB, job)
    Atomics.store(words, DONE, 0)
    Atomics.store(words, WHO, who.reduce((bits, me) => bits | (1 << me), 0))
    const turn = Atomics.add(words, TURN, 1) + 1
    Atomics.notify(words, TURN)
    await Promise.race([sleep(lengthMs), this.#failed])
    Atomics.store(words, STOP, turn)
    while (Atomics.load(words, DONE) < who.length) await Promise.race([sleep(1), this.#failed])
    return who.map((me) => {
      const at = NUMBERS * me
      return { decisions: this.#numbers[at + DECISIONS], admitted: this.#numbers[at + ADMITTED], ms: this.#numbers[at + MS] }
    })
  }

  dismiss() {
    return Promise.all(this.#workers.map((worker) => worker.terminate()))
  }
}

function serve({ clock, handle, me, words, numbers }) {
  const sluice = handle ? Sluice.attach(handle) : makeTable(clock)
  // Made when first asked for: a table may lack the limiters of the others.
  const makers = Object.values(allJobs)
  const mine = []
  parentPort.postMessage('ready')
  for (let turn = 0; ; ) {
    Atomics.wait(words, TURN, turn)
    turn = Atomics.load(words, TURN)
    if (!(Atomics.load(words, WHO) & (1 << me))) continue
    const number = Atomics.load(words, JOB)
    const job = (mine[number] ??= makers[number](sluice, me))
    let decisions = 0
    let admitted = 0
    const startMs = performance.now()
    while (Atomics.load(words, STOP) !== turn) {
      admitted += job()
      decisions += CHUNK
    }
    numbers[NUMBERS * me + MS] = performance.now() - startMs
    numbers[NUMBERS * me + DECISIONS] = decisions
    numbers[NUMBERS * me + ADMITTED] = admitted
    Atomics.add(words, DONE, 1)
  }
}

if (!isMainThread && workerData?.words) serve(workerData)
