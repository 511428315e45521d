// A thread whose Redis does not answer: it decides `calls` times and counts how
// often Redis was really called.

import type { Sluice } from "sluice";
import { RedisSluice } from "sluice/redis";
import { work } from "../threads/crew-member.js";

const jobs = {
  decides: (sluice: Sluice, { prefix, calls }: { prefix: string; calls: number }) => {
    let asked = 0;
    const dead = (): Promise<never> => {
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
    return async (): Promise<{ asked: number; admitted: number; degraded: number }> => {
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
};

export type FailureJobs = typeof jobs;
await work(jobs);
