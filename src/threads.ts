// Deaths: every table of this thread learns when a worker that this thread
// started has ended, and takes back what the worker held. A worker that ends
// by itself gives its number back on the way out.

import { isMainThread, type Worker } from 'node:worker_threads'
import type { Table } from './table.js'

const tables = new Set<WeakRef<Table>>()
let isWatching = false

function each(act: (table: Table) => void): void {
  for (const ref of tables) {
    const table = ref.deref()
    if (table) act(table)
    else tables.delete(ref)
  }
}

/** Takes back what `worker` holds once it has ended. For workers that were started before this thread had a table. */
export function watch(worker: Worker): void {
  const { threadId } = worker
  worker.once('exit', () => each((table) => table.bury(threadId)))
}

/** Watches over a table on behalf of this thread. */
export function join(table: Table): void {
  tables.add(new WeakRef(table))
  if (isWatching) return
  isWatching = true
  process.on('worker', watch)
  if (!isMainThread) process.on('exit', () => each((own) => own.leave()))
}
