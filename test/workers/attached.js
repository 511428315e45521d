// Attaches, and does what it is told, one message at a time: { ask, ... } is
// answered by { answer } or { error: { code, message } }.

import { parentPort, workerData } from "node:worker_threads";
import { Sluice } from "sluice";

let sluice;
const answers = {
  attach: ({ handle }) => void (sluice = Sluice.attach(handle)),
  create: ({ options }) => (sluice = Sluice.create(options)).handle,
  tokenBucket: ({ name, options }) => sluice.tokenBucket(name, options).name,
  allow: ({ name, key, cost }) => sluice.limiter(name).allow(key, cost),
  stats: () => sluice.stats(),
  close: () => sluice.close(),
  setRate: ({ name, rate }) => sluice.limiter(name).setRate(rate),
  end: () => parentPort.close(),
  exit: () => process.exit(0),
  throw: () =>
    void setImmediate(() => {
      throw new Error("meant to");
    }),
};

parentPort.on("message", ({ ask, ...options }) => {
  try {
    parentPort.postMessage({ answer: answers[ask](options) });
  } catch ({ code, message }) {
    parentPort.postMessage({ error: { code, message } });
  }
});
if (workerData?.handle) sluice = Sluice.attach(workerData.handle);
parentPort.postMessage({ answer: "ready" });
