// Deaths: when a worker ends that this thread started, every table of this
// thread frees the worker's number and locks. A worker that exits by itself
// frees its number on the way out.

import { isMainThread, type Worker } from "node:worker_threads";
import { adopt, type Table } from "./table.js";

/** Frees the thread number of a table that was garbage collected. */
const forgotten = new FinalizationRegistry((release: () => void) => release());
const tables = new Set<WeakRef<Table>>();
let isWatching = false;

function each(call: (table: Table) => void): void {
  for (const ref of tables) {
    const table = ref.deref();
    if (table) call(table);
    else tables.delete(ref);
  }
}

/**
 * Frees what `worker` holds in this thread's tables once it has ended. Only
 * workers that were started before this thread had a table need it.
 */
export function watch(worker: Worker): void {
  const { threadId } = worker;
  worker.once("exit", () => each((table) => table.bury(threadId)));
}

/** @internal Stops watching the deaths of workers for a table. */
export function unwatch(table: Table): void {
  forgotten.unregister(table);
  for (const ref of tables) if (ref.deref() === table) tables.delete(ref);
}

/** @internal Watches the deaths of this thread's workers for a table. */
export function join(table: Table): void {
  tables.add(new WeakRef(table));
  const { threads, thread } = table;
  forgotten.register(table, () => threads.release(thread), table);
  if (isWatching) return;
  isWatching = true;
  adopt();
  process.on("worker", watch);
  if (!isMainThread) process.on("exit", () => each((own) => own.leave()));
}
