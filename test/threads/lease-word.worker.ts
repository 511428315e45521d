// Threads that spend leased tokens of one key, and deposit more when the answer says to ask.

import { parentPort, workerData } from "node:worker_threads";
import type { Sluice } from "sluice";
import { Policy } from "../../src/engine/policy/policy.js";
import { type Key, putKey } from "../../src/engine/table/key.js";
import { Table } from "../../src/engine/table/table.js";
import { type Member, work } from "./crew-member.js";

const ASK = 2;

interface Spend extends Member {
  key?: Key;
  /** Word 0: threads that are asking; word 1: times that two asked at once. */
  shared: Int32Array;
  calls: number;
  endMs: number;
}

interface Leases {
  take(key: Key | undefined, cost: number): number;
  deposit(key: Key | undefined, tokens: number, endMs: number): number;
}

function leasesIn(table: Table): Leases {
  const { record } = new Policy(table, 1);
  const select = (key: Key | undefined): number =>
    key === undefined ? table.at.GLOBAL : (putKey(table, record, key), 0);
  return {
    take: (key, cost) => table.kernel.take(record, select(key), cost, 1, -1),
    deposit: (key, tokens, endMs) => table.kernel.deposit(record, select(key), tokens, endMs, 0, table.clock.now()),
  };
}

const jobs = {
  spend: (_: Sluice, { handle, key, shared, calls, endMs }: Spend) => () => {
    const { take, deposit } = leasesIn(Table.attach(handle));
    let spent = 0;
    let added = 0;
    let asked = 0;
    for (let i = 0; i < calls; i++) {
      const cost = 1 + (i % 3);
      const answer = take(key, cost);
      if (answer & 1) spent += cost;
      if (!(answer & ASK)) continue;
      asked++;
      if (Atomics.add(shared, 0, 1) !== 0) Atomics.add(shared, 1, 1);
      // The others meet the flag in the meantime.
      for (let wait = 0; wait < 2000; wait++) Atomics.load(shared, 0);
      Atomics.sub(shared, 0, 1);
      added += deposit(key, 1024, endMs);
    }
    return { spent, added, asked };
  },
};
export type LeaseWordJobs = typeof jobs;

if (workerData.job === "ask and hang") {
  const { take } = leasesIn(Table.attach(workerData.handle));
  parentPort!.postMessage(take("key", 1));
  setInterval(() => {}, 1000);
} else {
  await work(jobs);
}
