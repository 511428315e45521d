// Waits synchronously, as it is told, and says how that ended.
import { parentPort, workerData } from "node:worker_threads";
import { Sluice } from "sluice";

const limiter = Sluice.attach(workerData.handle).limiter("test");

parentPort.on("message", ({ key, cost, options }) => {
  parentPort.postMessage("waits");
  try {
    limiter.waitSync(key, cost, options);
    parentPort.postMessage("done");
  } catch (error) {
    parentPort.postMessage(error.code ?? String(error));
  }
});
