// Deaths: every table of this thread learns when a worker that this thread
// started has ended, and takes back what the worker held. A worker that ends
// by itself gives its number back on the way out.

import { isMainThread, threadId, type Worker } from "node:worker_threads";
import { adopt, type Table } from "./table.js";

/** A table that nobody here holds any more gives its thread number back. */
const forgotten = new FinalizationRegistry((leave: () => void) => leave());
const tables = new Set<WeakRef<Table>>();
let isWatching = false;

function each(act: (table: Table) => void): void {
  for (const ref of tables) {
    const table = ref.deref();
    if (table) act(table);
    else tables.delete(ref);
  }
}

/** Takes back what `worker` holds once it has ended. For workers that were started before this thread had a table. */
export function watch(worker: Worker): void {
  const { threadId } = worker;
  worker.once("exit", () => each((table) => table.bury(threadId)));
}

/** Stops watching over a table. */
export function part(table: Table): void {
  forgotten.unregister(table);
  for (const ref of tables) if (ref.deref() === table) tables.delete(ref);
}

/** Watches over a table on behalf of this thread. */
export function join(table: Table): void {
  tables.add(new WeakRef(table));
  const { words, thread } = table;
  const owner = table.ownerAt(thread);
  forgotten.register(table, () => Atomics.compareExchange(words, owner, threadId + 1, 0), table);
  if (isWatching) return;
  isWatching = true;
  adopt();
  process.on("worker", watch);
  if (!isMainThread) process.on("exit", () => each((own) => own.leave()));
}
