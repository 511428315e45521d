// A thread whose Redis does not answer: it decides so many times and counts how
// often Redis was really asked.

import { RedisSluice } from "sluice/redis";
import { work } from "./crew.js";

await work({
  decides: (sluice, { prefix, calls }) => {
    let asked = 0;
    const dead = () => {
      asked++;
      return Promise.reject(new Error("connect ECONNREFUSED"));
    };
    const redis = RedisSluice.create({
      client: { evalsha: dead, eval: dead },
      onFailure: "local",
      local: sluice,
      prefix,
      probeMs: 1000,
    });
    const limiter = redis.tokenBucket("it", { rate: 1, burst: 100_000_000 });
    return async () => {
      let admitted = 0;
      let degraded = 0;
      for (let i = 0; i < calls; i++) {
        const decision = await limiter.consume("alice");
        if (decision.allowed) admitted++;
        if (decision.degraded) degraded++;
      }
      return { asked, admitted, degraded };
    };
  },
});
