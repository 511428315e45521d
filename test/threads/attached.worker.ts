// Attaches, and answers one message at a time: { ask, ... } is answered by
// { answer } or by { error: { code, message } }.

import { parentPort, workerData } from "node:worker_threads";
import { type Key, Sluice, type SluiceHandle, type SluiceOptions } from "sluice";

interface Options {
  handle: SluiceHandle;
  options: SluiceOptions;
  name: string;
  limit: Parameters<Sluice["tokenBucket"]>[1];
  key?: Key;
  cost?: number;
  rate: number;
  burst: number;
}

let sluice: Sluice;
const answers: Record<string, (options: Options) => unknown> = {
  attach: ({ handle }) => void (sluice = Sluice.attach(handle)),
  create: ({ options }) => (sluice = Sluice.create(options)).handle,
  tokenBucket: ({ name, limit }) => sluice.tokenBucket(name, limit).name,
  allow: ({ name, key, cost }) => {
    const limiter = sluice.limiter(name);
    return key === undefined ? limiter.global.allow(cost) : limiter.allow(key, cost);
  },
  stats: () => sluice.stats(),
  close: () => sluice.close(),
  setRate: ({ name, rate }) => sluice.limiter(name).setRate(rate),
  setBurst: ({ name, burst }) => sluice.limiter(name).setBurst(burst),
  end: () => parentPort!.close(),
  exit: () => process.exit(0),
  throw: () =>
    void setImmediate(() => {
      throw new Error("meant to");
    }),
};

parentPort!.on("message", ({ ask, ...options }: { ask: string } & Options) => {
  try {
    parentPort!.postMessage({ answer: answers[ask](options) });
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    parentPort!.postMessage({ error: { code, message } });
  }
});
if (workerData?.handle) sluice = Sluice.attach(workerData.handle);
parentPort!.postMessage({ answer: "ready" });
