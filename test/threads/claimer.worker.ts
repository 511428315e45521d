// Asks for one key once. Word 0 says that it has begun, word 1 that it is done,
// word 2 what the answer was.

import { workerData } from "node:worker_threads";
import { type Key, Sluice, type SluiceHandle } from "sluice";

interface Claim {
  handle: SluiceHandle;
  words: Int32Array;
  name: string;
  key: Key;
}

const { handle, words, name, key }: Claim = workerData;
const limiter = Sluice.attach(handle).limiter(name);
Atomics.store(words, 0, 1);
const isAllowed = limiter.allow(key);
Atomics.store(words, 2, Number(isAllowed));
Atomics.store(words, 1, 1);
