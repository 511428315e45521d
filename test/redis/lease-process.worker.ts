// A process that spends leased tokens at a steady pace. It says when it is
// connected, begins at the moment that a message names, and reports for every tick what was admitted.

import { Redis } from "ioredis";
import { Sluice } from "sluice";
import { RedisSluice } from "sluice/redis";

/** The process's argument, as JSON. */
export interface Load {
  limit: { rate: number; burst: number; leaseMs: number };
  decisionsAMs: number;
  forMs: number;
}

/** When it began and ended, ms on the machine's clock, and how many it admitted. */
export type Tick = [beginMs: number, endMs: number, admitted: number];

export interface Report {
  ticks: Tick[];
  decisions: number;
  stats: ReturnType<typeof limiter.stats>;
}

/** Sent after every tick: what that tick admitted, and what was leased so far. */
export interface Progress {
  admitted: number;
  leased: number;
  leases: number;
}

const { port, limit, decisionsAMs, forMs }: Load & { port: number } = JSON.parse(process.argv[2]);
const client = new Redis({ host: "127.0.0.1", port }).on("error", () => {});
await client.ping();
const local = Sluice.create({ capacity: 100, maxThreads: 2 });
const redis = RedisSluice.create({ client, onFailure: "closed", local });
const limiter = redis.leased("hot", limit);
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
const send = (message: { ready: true } | Progress | { report: Report }): void => void process.send!(message);

process.once("message", async (startMs: number) => {
  await new Promise((resolve) => setTimeout(resolve, startMs - nowMs()));
  const ticks: Tick[] = [];
  let decisions = 0;
  for (;;) {
    const beginMs = nowMs();
    const due = Math.floor(Math.min(beginMs - startMs, forMs) * decisionsAMs);
    let admitted = 0;
    for (; decisions < due; decisions++) if (limiter.allow("key")) admitted++;
    ticks.push([beginMs, nowMs(), admitted]);
    const { leased, leases } = limiter.stats();
    send({ admitted, leased, leases });
    if (beginMs - startMs >= forMs) break;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  await redis.close();
  send({ report: { ticks, decisions, stats: limiter.stats() } });
  client.disconnect();
  local.close();
  process.disconnect();
});
send({ ready: true });
