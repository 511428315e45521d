// Asks for one key once: word 0 says that it has begun, word 1 that it is done,
// word 2 what the answer was.

import { workerData } from "node:worker_threads";
import { Sluice } from "sluice";

const { handle, words, name, key } = workerData;
const limiter = Sluice.attach(handle).limiter(name);
Atomics.store(words, 0, 1);
const isAllowed = limiter.allow(key);
Atomics.store(words, 2, Number(isAllowed));
Atomics.store(words, 1, 1);
