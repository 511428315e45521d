// A process of its own that decides on one key in a Redis, `inFlight` calls at a
// time, until a message stops it. Its clocks may be wrong.

import { Redis } from "ioredis";
import { RedisSluice } from "sluice/redis";

type Kind = "tokenBucket" | "leakyBucket" | "fixedWindow" | "slidingWindow";

/** The process's argument, as JSON. */
export interface Work {
  port: number;
  kind: Kind;
  options: Parameters<RedisSluice[Kind]>[1];
  inFlight: number;
  wrongByMs: number;
}

export interface Report {
  admitted: number;
  refused: number;
  degraded: number;
}

const { port, kind, options, inFlight, wrongByMs }: Work = JSON.parse(process.argv[2]);

if (wrongByMs) {
  const { now } = Date;
  Date.now = () => now() + wrongByMs;
  const own = performance.now.bind(performance);
  performance.now = () => own() + wrongByMs;
}

const client = new Redis({ host: "127.0.0.1", port });
const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 10_000, prefix: "processes" });
const limiter = redis[kind]("it", options as never);
const report: Report = { admitted: 0, refused: 0, degraded: 0 };
let isOver = false;

async function decide(): Promise<void> {
  while (!isOver) {
    const decision = await limiter.consume("alice");
    if (decision.allowed) report.admitted++;
    else report.refused++;
    if (decision.degraded) report.degraded++;
  }
}

await client.ping();
process.send!("ready");
process.on("message", (message) => {
  if (message === "go") {
    void Promise.all(Array.from({ length: inFlight }, decide)).then(() => {
      process.send!(report);
      client.disconnect();
      process.disconnect();
    });
  } else {
    isOver = true;
  }
});
