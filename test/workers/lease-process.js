// A process that spends leased tokens at a steady pace. It says when it is
// connected, begins at the moment that it is told, and reports for every tick what was admitted.

import { Redis } from "ioredis";
import { Sluice } from "sluice";
import { RedisSluice } from "sluice/redis";

const { port, limit, options, decisionsAMs, forMs } = JSON.parse(process.argv[2]);
const client = new Redis({ host: "127.0.0.1", port }).on("error", () => {});
await client.ping();
const local = Sluice.create({ capacity: 100, maxThreads: 2 });
const redis = RedisSluice.create({ client, onFailure: "closed", local, ...options });
const limiter = redis.leased("hot", limit);
const nowMs = () => Number(process.hrtime.bigint()) / 1e6;

process.once("message", async (startMs) => {
  await new Promise((resolve) => setTimeout(resolve, startMs - nowMs()));
  const ticks = [];
  let decisions = 0;
  for (;;) {
    const beginMs = nowMs();
    const due = Math.floor(Math.min(beginMs - startMs, forMs) * decisionsAMs);
    let admitted = 0;
    for (; decisions < due; decisions++) if (limiter.allow("key")) admitted++;
    ticks.push([beginMs, nowMs(), admitted]);
    const { leased, leases } = limiter.stats();
    process.send({ admitted, leased, leases });
    if (beginMs - startMs >= forMs) break;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  await redis.close();
  process.send({ report: { ticks, decisions, stats: limiter.stats() } });
  client.disconnect();
  local.close();
  process.disconnect();
});
process.send({ ready: true });
