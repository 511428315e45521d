// A worker that runs one framework's server, limited by what its table has.

import { parentPort, workerData } from "node:worker_threads";
import { Sluice } from "sluice";
import { type AnyOptions, servers } from "./servers.js";

const sluice = Sluice.attach(workerData.handle);
const limits: AnyOptions["limits"] = [
  { limiter: sluice.limiter("user"), key: (request, reader) => String(reader.header(request, "user")) },
  { limiter: sluice.limiter("everybody") },
];
const { port } = await servers[workerData.framework]({ options: { limits } });
parentPort!.postMessage({ port });
