// Starts a worker that attaches to the same table, and says when both have.

import { parentPort, Worker, workerData } from "node:worker_threads";
import { Sluice } from "sluice";

Sluice.attach(workerData.handle);
const child = new Worker(new URL("./attached.worker.js", import.meta.url), { workerData, execArgv: [] });
child.on("message", (message) => parentPort!.postMessage(message));
parentPort!.on("message", () => {});
