// The ticker of a coarse clock: one worker thread that writes the time into the
// table's clock cell twice a millisecond, whatever the other threads' event
// loops do. It belongs to the thread that started it; should that thread end,
// the others notice that the cell lags, and one of them starts another.

import { Worker } from "node:worker_threads";
import type { Table } from "./table.js";

/** How often an attached thread looks whether the cell still moves, ms. */
const WATCH_MS = 100;
/** A cell that lags by more has lost its ticker, ms. */
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

/** Starts a ticker if none runs for this table yet, and watches over it. Returns what stops both. */
export function keepTicking(table: Table): () => void {
  let worker: Worker | undefined;
  let myTurn = 0;

  const start = (): void => {
    const turn = Atomics.load(table.words, table.at.HEADER_TICKER / 4);
    // Whoever raises the turn starts the next ticker; a ticker of an older turn stops.
    if (Atomics.compareExchange(table.words, table.at.HEADER_TICKER / 4, turn, turn + 1) !== turn) return;
    myTurn = turn + 1;
    table.clockCell.set(table.sinceEpochMs());
    worker = new Worker(source, {
      eval: true,
      name: "sluice ticker",
      execArgv: [],
      workerData: {
        memory: table.memory,
        msAt: table.at.HEADER_CLOCK,
        nsAt: table.at.HEADER_CLOCK_NS,
        turnAt: table.at.HEADER_TICKER,
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
  if (Atomics.load(table.words, table.at.HEADER_TICKER / 4) === 0) start();

  return () => {
    clearInterval(watch);
    if (!worker) return;
    // Ends the loop of our ticker only if nobody has taken over since.
    if (Atomics.compareExchange(table.words, table.at.HEADER_TICKER / 4, myTurn, myTurn + 1) === myTurn) {
      Atomics.notify(table.words, table.at.HEADER_TICKER / 4);
    }
    worker = undefined;
  };
}
