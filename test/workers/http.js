// A worker that serves one framework's server, limited by what its table has.

import { parentPort, workerData } from "node:worker_threads";
import { Sluice } from "sluice";
import { servers } from "./http-servers.js";

const sluice = Sluice.attach(workerData.handle);
const limits = [
  { limiter: sluice.limiter("user"), key: (request, reader) => reader.header(request, "user") },
  { limiter: sluice.limiter("everybody") },
];
const { port } = await servers[workerData.framework]({ options: { limits } });
parentPort.postMessage({ port });
