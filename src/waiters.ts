// Those who wait. Each holds a reservation, so that its turn is settled when it
// begins to wait: first come, first served for each key. One timer a limiter.
//
// When one leaves early, those behind it on the same key move up, each taking
// the reservation of the one before it, and the last reservation is cancelled:
// so an abort gives its tokens back even from the middle of the queue. They
// move up as far as costs are equal; past that, as anywhere else, a cancel
// gives back what nobody has reserved behind it.

import { isMainThread } from 'node:worker_threads'
import type { Act, Bucket } from './bucket.js'
import type { Clock } from './clock.js'
import { SluiceError } from './errors.js'
import type { Policy } from './policy.js'
import { closed, type Table } from './table.js'

interface Waiter {
  readonly bucket: Bucket
  readonly cost: number
  readonly order: number
  readonly deadlineMs: number
  act: Act
  /** When its reservation may act, and when to look at it: then, or at its deadline. */
  actMs: number
  wakeMs: number
  /** Its place in the heap. */
  place: number
  readonly settle: (error?: unknown) => void
}

/** A reservation to wait for. */
interface Claim {
  readonly act: Act
  readonly delayMs: number
}

/** Throws ERR_SLUICE_MAIN_THREAD in the main thread. */
export function checkMayBlock(): void {
  if (isMainThread) {
    throw new SluiceError('ERR_SLUICE_MAIN_THREAD', 'a synchronous wait would block the main thread; call it in a worker thread, or wait asynchronously')
  }
}

function passed(): SluiceError {
  return new SluiceError('ERR_SLUICE_TIMEOUT', 'the deadline passed while waiting: the rate was lowered; the tokens went back')
}

const sleeper = new Int32Array(new SharedArrayBuffer(4))

/** Blocks this worker thread until a reservation of `cost` may act. Throws ERR_SLUICE_TIMEOUT at the deadline, and gives the tokens back. */
export function blockUntil(bucket: Bucket, cost: number, { act, delayMs }: Claim, nowMs: number, timeoutMs: number): void {
  if (delayMs === 0) return
  checkMayBlock()
  const { clock } = bucket.table
  const deadlineMs = nowMs + timeoutMs
  const most = clock.kind === 'manual' ? 1 : LONGEST_SLEEP_MS
  let actMs = nowMs + delayMs
  // It looks again now and then, and at the end, for the rate or a manual clock may have moved.
  for (;;) {
    nowMs = clock.now()
    const known = bucket.untilAct(act, nowMs)
    if (known) {
      if (known.ns === 0) return
      act = known.act
      actMs = nowMs + known.ns / 1e6
    } else if (nowMs >= actMs) {
      return
    }
    if (nowMs >= deadlineMs) {
      bucket.cancel(cost, act)
      throw passed()
    }
    Atomics.wait(sleeper, 0, 0, Math.min(Math.max(actMs - nowMs, 0.001), deadlineMs - nowMs, most))
  }
}

/** Sleeps until a table's clock reads `untilMs`; rejects with the signal's reason when it aborts, and when the table is closed. */
export function sleepUntil(table: Table, untilMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const { clock } = table
    let timer: NodeJS.Timeout | undefined
    let stopListening: (() => void) | undefined
    const stopMinding = table.onClose(() => {
      end()
      reject(closed())
    })
    const end = (): void => {
      clearTimeout(timer)
      stopListening?.()
      stopMinding()
      signal?.removeEventListener('abort', onAbort)
    }
    const onAbort = (): void => {
      end()
      reject(signal!.reason)
    }
    const look = (): void => {
      const leftMs = untilMs - clock.now()
      if (leftMs <= 0) {
        end()
        resolve()
      } else if (!clock.manual) {
        timer = setTimeout(look, sleepMs(clock, leftMs))
      }
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    stopListening = clock.manual?.onMove(look)
    look()
  })
}

/** Longest sleep, ms: so often a waiter looks whether another thread changed the rate. */
const LONGEST_SLEEP_MS = 1000
/** The same under a manual clock that another thread moves. */
const MANUAL_SLEEP_MS = 5

/** What to set a timer to. It counts whole ms and may fire a little early: it is armed again then. */
function sleepMs(clock: Clock, leftMs: number): number {
  return Math.min(Math.max(1, Math.ceil(leftMs)), clock.kind === 'manual' ? MANUAL_SLEEP_MS : LONGEST_SLEEP_MS)
}

export class Waiters {
  readonly #policy: Policy
  readonly #heap: Waiter[] = []
  readonly #queues = new Map<string, Waiter[]>()
  #timer: NodeJS.Timeout | undefined
  #timerMs = Infinity
  #order = 0
  #version: number
  #stopListening: (() => void) | undefined

  constructor(policy: Policy) {
    this.#policy = policy
    this.#version = policy.version
    const self = new WeakRef(this)
    policy.table.onClose(() => {
      const waiters = self.deref()
      if (waiters) waiters.#end()
    })
  }

  /** Gives everybody's tokens back, the last one's first, and rejects them with ERR_SLUICE_CLOSED. */
  #end(): void {
    for (const waiter of [...this.#heap].sort((a, b) => b.order - a.order)) {
      this.#leave(waiter)
      waiter.settle(closed())
    }
  }

  /** How many wait for this bucket in this thread. */
  count(bucket: Bucket): number {
    return this.#queues.get(bucket.id)?.length ?? 0
  }

  /** Waits until a reservation may act. Rejects with the signal's reason, or with ERR_SLUICE_TIMEOUT at the deadline. */
  add(bucket: Bucket, cost: number, claim: Claim, nowMs: number, deadlineMs: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const onAbort = (): void => {
        this.#leave(waiter)
        reject(signal!.reason)
      }
      const waiter: Waiter = {
        bucket,
        cost,
        order: this.#order++,
        deadlineMs,
        act: claim.act,
        actMs: nowMs + claim.delayMs,
        wakeMs: Math.min(nowMs + claim.delayMs, deadlineMs),
        place: -1,
        settle: (error) => {
          signal?.removeEventListener('abort', onAbort)
          if (error) reject(error)
          else resolve()
        },
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      const queue = this.#queues.get(bucket.id)
      if (queue) queue.push(waiter)
      else this.#queues.set(bucket.id, [waiter])
      this.#insert(waiter)
      this.#arm()
    })
  }

  /** Looks at everybody again: after the rate changed. */
  reconsider(): void {
    if (this.#heap.length === 0) return
    this.#version = this.#policy.version
    for (const waiter of [...this.#heap]) this.#refresh(waiter)
    this.#settleDue()
  }

  #refresh(waiter: Waiter): void {
    const nowMs = waiter.bucket.table.clock.now()
    const known = waiter.bucket.untilAct(waiter.act, nowMs)
    // If its scale is too long ago to tell, the time stands that was last known.
    if (known) {
      waiter.act = known.act
      waiter.actMs = nowMs + known.ns / 1e6
    }
    waiter.wakeMs = Math.min(waiter.actMs, waiter.deadlineMs)
    this.#settlePlace(waiter)
  }

  #settleDue = (): void => {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#timerMs = Infinity
    if (this.#policy.version !== this.#version) {
      this.#version = this.#policy.version
      for (const waiter of [...this.#heap]) this.#refresh(waiter)
    }
    const { clock } = this.#policy.table
    for (let first = this.#heap[0]; first && first.wakeMs <= clock.now(); first = this.#heap[0]) {
      const nowMs = clock.now()
      const ns = first.bucket.untilAct(first.act, nowMs)?.ns ?? Math.max(0, (first.actMs - nowMs) * 1e6)
      if (ns === 0) {
        this.#forget(first)
        first.settle()
      } else if (nowMs >= first.deadlineMs) {
        this.#leave(first)
        first.settle(passed())
      } else {
        // Later than now, even where a ns is less than the clock's double can tell.
        first.actMs = nowMs + Math.max(ns / 1e6, nowMs * 2 ** -51)
        first.wakeMs = Math.min(first.actMs, first.deadlineMs)
        this.#settlePlace(first)
      }
    }
    this.#arm()
  }

  #arm(): void {
    const first = this.#heap[0]
    const { clock } = this.#policy.table
    if (!first) {
      clearTimeout(this.#timer)
      this.#timer = undefined
      this.#timerMs = Infinity
      this.#stopListening?.()
      this.#stopListening = undefined
      return
    }
    if (clock.manual) {
      this.#stopListening ??= clock.manual.onMove(this.#settleDue)
      return
    }
    if (this.#timer && first.wakeMs >= this.#timerMs) return
    clearTimeout(this.#timer)
    this.#timerMs = first.wakeMs
    this.#timer = setTimeout(this.#settleDue, sleepMs(clock, first.wakeMs - clock.now()))
  }

  /** Takes a waiter out before its time and gives its tokens back. */
  #leave(waiter: Waiter): void {
    const behind = this.#queues.get(waiter.bucket.id)!
    const from = behind.indexOf(waiter)
    let { act, actMs } = waiter
    for (let i = from + 1; i < behind.length && behind[i].cost === waiter.cost; i++) {
      const next = behind[i]
      const freed = { act: next.act, actMs: next.actMs }
      next.act = act
      next.actMs = actMs
      next.wakeMs = Math.min(actMs, next.deadlineMs)
      this.#settlePlace(next)
      ;({ act, actMs } = freed)
    }
    this.#forget(waiter)
    waiter.bucket.cancel(waiter.cost, act)
    this.#arm()
  }

  #forget(waiter: Waiter): void {
    const queue = this.#queues.get(waiter.bucket.id)!
    if (queue.length === 1) this.#queues.delete(waiter.bucket.id)
    else queue.splice(queue.indexOf(waiter), 1)
    const last = this.#heap.pop()!
    if (last === waiter) return
    last.place = waiter.place
    this.#heap[last.place] = last
    this.#settlePlace(last)
  }

  // A binary heap by time to wake, ties by order of arrival.

  #insert(waiter: Waiter): void {
    waiter.place = this.#heap.length
    this.#heap.push(waiter)
    this.#settlePlace(waiter)
  }

  #settlePlace(waiter: Waiter): void {
    const heap = this.#heap
    let { place } = waiter
    while (place > 0 && isBefore(waiter, heap[(place - 1) >> 1])) {
      const above = heap[(place - 1) >> 1]
      above.place = place
      heap[place] = above
      place = (place - 1) >> 1
    }
    for (;;) {
      let below = 2 * place + 1
      if (below + 1 < heap.length && isBefore(heap[below + 1], heap[below])) below++
      if (below >= heap.length || !isBefore(heap[below], waiter)) break
      heap[below].place = place
      heap[place] = heap[below]
      place = below
    }
    waiter.place = place
    heap[place] = waiter
  }
}

function isBefore(a: Waiter, b: Waiter): boolean {
  return a.wakeMs < b.wakeMs || (a.wakeMs === b.wakeMs && a.order < b.order)
}
