// The ticker of a coarse clock: one worker thread that writes the time into the
// table's clock cell twice a millisecond, even while all event loops are busy.
// It ends with the thread that started it. The other threads then notice that
// the cell lags, and one of them starts the next ticker.

import { Worker } from "node:worker_threads";
import type { Table } from "./table.js";

/** How often an attached thread checks that the cell still moves, ms. */
const WATCH_MS = 100;
/** A cell that lags by more than this has lost its ticker, ms. */
const LAG_MS = 50;

const source = `
const { workerData } = require('node:worker_threads')
const { memory, msAt, nsAt, turnAt, epochNs, turn } = workerData
const ms = new Float64Array(memory.buffer, msAt, 1)
const ns = new BigInt64Array(memory.buffer, nsAt, 1)
const words = new Int32Array(memory.buffer)
while (Atomics.load(words, turnAt / 4) === turn) {
  ns[0] = process.hrtime.bigint() - epochNs
  ms[0] = Number(ns[0]) / 1e6
  Atomics.wait(words, turnAt / 4, turn, 0.5)
}
`;

/** Starts a ticker if none runs for this table yet, and starts another when it dies. Returns what stops both. */
export function keepTicking(table: Table): () => void {
  let worker: Worker | undefined;
  let myTurn = 0;

  const start = (): void => {
    const { turn } = table.header;
    // The thread that ends the turn starts the next ticker; a ticker of an older turn stops.
    if (!table.header.endTurn(turn)) return;
    myTurn = turn + 1;
    table.clockCell.set(table.sinceEpochMs());
    worker = new Worker(source, {
      eval: true,
      name: "sluice ticker",
      execArgv: [],
      workerData: {
        memory: table.memory,
        ...table.header.tickerAddresses,
        epochNs: table.epochNs,
        turn: myTurn,
      },
    });
    worker.on("error", () => {});
    worker.unref();
  };

  const watch = setInterval(() => {
    if (table.sinceEpochMs() - table.clockCell.ms[0] > LAG_MS) start();
  }, WATCH_MS);
  watch.unref();
  if (table.header.turn === 0) start();

  return () => {
    clearInterval(watch);
    // Stops our ticker, unless another thread has started the next one since.
    if (worker) table.header.endTurn(myTurn);
    worker = undefined;
  };
}
