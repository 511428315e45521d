// A thread with a client of its own. Each message is a key of a leased limiter to consume from.

import { Redis } from "ioredis";
import { parentPort, workerData } from "node:worker_threads";
import { Sluice, type SluiceHandle } from "sluice";
import { RedisSluice } from "sluice/redis";

interface LeaseThread {
  handle: SluiceHandle;
  port: number;
  prefix: string;
  limit: { rate: number; burst: number };
}

const { handle, port, prefix, limit }: LeaseThread = workerData;
const client = new Redis({ host: "127.0.0.1", port }).on("error", () => {});
await client.ping();
const redis = RedisSluice.create({ client, onFailure: "closed", local: Sluice.attach(handle), prefix });
const limiter = redis.leased("it", limit);

parentPort!.on("message", async (key: string) => {
  const decision = limiter.consume(key);
  parentPort!.postMessage("asked");
  parentPort!.postMessage({ decision: await decision });
});
parentPort!.postMessage("ready");
