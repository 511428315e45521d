// Outlives the others: decides on their hot keys and on keys of its own, and
// counts its rounds in word 1, until a message ends it.

import { parentPort, workerData } from "node:worker_threads";
import { Sluice, type SluiceHandle } from "sluice";

const { handle, words }: { handle: SluiceHandle; words: Int32Array } = workerData;
const sluice = Sluice.attach(handle);
const hot = sluice.limiter("hot").global;
const slow = sluice.limiter("slow");
const crowd = sluice.limiter("crowd");
let isOver = false;
parentPort!.on("message", () => (isOver = true));

for (let i = 0; !isOver; i++) {
  for (let n = 0; n < 100; n++) {
    if (hot.allow()) Atomics.add(words, 0, 1);
    slow.allow("key");
    crowd.allow(`hot ${n % 8}`);
    crowd.allow(`survivor ${i} ${n}`);
  }
  Atomics.add(words, 1, 1);
  // Leaves the cores to the workers that are to be terminated.
  await new Promise((resolve) => setTimeout(resolve, 1));
}
parentPort!.close();
