// A thread with a client of its own that checks keys of a leased limiter when told to.

import { Redis } from "ioredis";
import { parentPort, workerData } from "node:worker_threads";
import { Sluice } from "sluice";
import { RedisSluice } from "sluice/redis";

const { handle, port, prefix, limit } = workerData;
const client = new Redis({ host: "127.0.0.1", port }).on("error", () => {});
await client.ping();
const redis = RedisSluice.create({ client, onFailure: "closed", local: Sluice.attach(handle), prefix });
const limiter = redis.leased("it", limit);

parentPort.on("message", async (key) => {
  const checked = limiter.consume(key);
  parentPort.postMessage("asked");
  parentPort.postMessage({ decision: await checked });
});
parentPort.postMessage("ready");
