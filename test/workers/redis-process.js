// A process of its own that decides on one key in a Redis: as often as it can,
// so many at a time, until it is told to stop. Its clocks may be wrong.

import { Redis } from "ioredis";
import { RedisSluice } from "sluice/redis";

const { port, kind, options, inFlight, wrongByMs } = JSON.parse(process.argv[2]);

if (wrongByMs) {
  const { now } = Date;
  Date.now = () => now() + wrongByMs;
  const own = performance.now.bind(performance);
  performance.now = () => own() + wrongByMs;
}

const client = new Redis({ host: "127.0.0.1", port });
const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 10_000, prefix: "processes" });
const limiter = redis[kind]("it", options);
let isOver = false;
let admitted = 0;
let refused = 0;
let degraded = 0;

async function decide() {
  while (!isOver) {
    const decision = await limiter.consume("alice");
    if (decision.allowed) admitted++;
    else refused++;
    if (decision.degraded) degraded++;
  }
}

await client.ping();
process.send("ready");
process.on("message", (message) => {
  if (message === "go") {
    void Promise.all(Array.from({ length: inFlight }, decide)).then(() => {
      process.send({ admitted, refused, degraded });
      client.disconnect();
      process.disconnect();
    });
  } else {
    isOver = true;
  }
});
