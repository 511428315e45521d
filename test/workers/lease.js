// Threads that spend leased tokens of one key, and deposit more when told to ask.

import { parentPort, workerData } from "node:worker_threads";
import { Policy } from "../../dist/engine/policy/policy.js";
import { putKey } from "../../dist/engine/table/key.js";
import { Table } from "../../dist/engine/table/table.js";
import { work } from "./crew.js";

const ASK = 2;

function leasesIn(table) {
  const { record } = new Policy(table, 1);
  const select = (key) => (key === undefined ? table.at.GLOBAL : (putKey(table, record, key), 0));
  return {
    take: (key, cost) => table.kernel.take(record, select(key), cost, 1, -1),
    deposit: (key, tokens, endMs) => table.kernel.deposit(record, select(key), tokens, endMs, 0, table.clock.now()),
  };
}

if (workerData.job === "ask and hang") {
  const { take } = leasesIn(Table.attach(workerData.handle));
  parentPort.postMessage(take("key", 1));
  setInterval(() => {}, 1000);
} else {
  await work({
    spend: (_, { handle, key, shared, calls, endMs }) => () => {
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
        // Others meet the flag meanwhile.
        for (let wait = 0; wait < 2000; wait++) Atomics.load(shared, 0);
        Atomics.sub(shared, 0, 1);
        added += deposit(key, 1024, endMs);
      }
      return { spent, added, asked };
    },
  });
}
