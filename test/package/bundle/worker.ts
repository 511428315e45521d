// A worker of the bundled app: takes of a quota that all workers share until
// none is left, waits for its turns both ways, answers requests, and reports.

import { parentPort, workerData } from "node:worker_threads";
import { Sluice, type SluiceHandle } from "sluice";
import { clientAddress, Guard, plainReader } from "sluice/http";

const { handle, gate }: { handle: SluiceHandle; gate: Int32Array } = workerData;
const sluice = Sluice.attach(handle);
const quota = sluice.limiter("quota");
const paced = sluice.limiter("paced");
const guard = new Guard({ limits: [{ limiter: sluice.limiter("requests"), key: clientAddress() }] }, plainReader);

async function main(): Promise<void> {
  parentPort!.postMessage("ready");
  Atomics.wait(gate, 0, 0);
  let admitted = 0;
  while (quota.allow("alice")) admitted++;
  paced.waitSync("alice");
  await paced.wait("alice");
  let answered = 0;
  for (let i = 0; i < 50; i++) {
    const { status } = await guard.decide({ method: "GET", url: "/", headers: {}, remoteAddress: "2001:db8::1" });
    if (status === 200) answered++;
  }
  parentPort!.postMessage({ admitted, answered });
}

main();
// Lives on until it is terminated, still attached.
parentPort!.on("message", () => {});
