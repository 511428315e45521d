// The clients of questions/http.js, in a process of their own: told a port, they
// make so many requests and answer how many that was a second.

import autocannon from "autocannon";

process.on("message", async ({ port, requests, status }) => {
  let right = 0;
  let lastMs = 0;
  const startMs = performance.now();
  const run = autocannon({ url: `http://127.0.0.1:${port}/`, connections: 50, amount: requests, sampleInt: 10 });
  // What it says itself of the time is whole samples.
  run.on("response", (_, got) => {
    if (got === status) right++;
    lastMs = performance.now();
  });
  await run;
  process.send({ perSecond: (1000 * right) / (lastMs - startMs), wrong: requests - right });
});
process.on("disconnect", () => process.exit());
