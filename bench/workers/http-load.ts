// The clients of questions/http.ts, in a process of their own. For each message
// they make a number of requests to a port and answer how many they made a
// second.

import autocannon from "autocannon";

export interface LoadTask {
  port: number;
  requests: number;
  /** The expected status of every answer. */
  status: number;
}

export interface LoadResult {
  perSecond: number;
  /** Requests that were not answered with the expected status. */
  wrong: number;
}

process.on("message", async ({ port, requests, status }: LoadTask) => {
  let right = 0;
  let lastMs = 0;
  const startMs = performance.now();
  const run = autocannon({ url: `http://127.0.0.1:${port}/`, connections: 50, amount: requests, sampleInt: 10 });
  // Its own report counts time in whole samples.
  run.on("response", (_, got) => {
    if (got === status) right++;
    lastMs = performance.now();
  });
  await run;
  const result: LoadResult = { perSecond: (1000 * right) / (lastMs - startMs), wrong: requests - right };
  process.send!(result);
});
process.on("disconnect", () => process.exit());
