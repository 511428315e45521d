// The bound of leases, over processes that come and go, with a real Redis whose
// clock and theirs are moved by hand and whose replies may be long under way:
// in any time W at most burst + rate x (W + leaseMs) are admitted.

import fc from "fast-check";
import { ManualClock, Sluice } from "sluice";
import { type LeasedLimiter, RedisSluice } from "sluice/redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { announceSeed } from "../seed.js";
import { TimedClient } from "./server-time.js";
import { redisBinary, RedisServer } from "./server.js";

/** A client whose scripts run at once, but whose replies wait until they are let through. */
class SlowClient extends TimedClient {
  #underWay: { settled: Promise<unknown>; let: () => void }[] = [];

  override eval(source: string, keyCount: number, ...rest: string[]): Promise<unknown> {
    const reply = super.eval(source, keyCount, ...rest);
    return new Promise((resolve, reject) => {
      const settled = reply.then(() => {}, () => {});
      this.#underWay.push({ settled, let: () => void reply.then(resolve, reject) });
    });
  }

  /** Lets `which` of the replies through, or all of them and those that follow. */
  async letThrough(which?: number): Promise<void> {
    do {
      // Scripts are sent by their digest first: the source follows a turn later.
      await new Promise((resolve) => setImmediate(resolve));
      const some = which === undefined
        ? this.#underWay.splice(0)
        : this.#underWay.splice(which % (this.#underWay.length || 1), 1);
      for (const each of some) {
        await each.settled;
        each.let();
      }
      await new Promise((resolve) => setImmediate(resolve));
    } while (which === undefined && this.#underWay.length > 0);
  }
}

const RATE = 2;
const BURST = 400;
const LEASE_MS = 200_000;
const PROCESSES = 4;

type Step =
  | { do: "allow" | "consume"; process: number; cost: number; times: number }
  | { do: "pass"; ms: number }
  | { do: "let through"; which: number | undefined }
  | { do: "restart"; process: number };

const process = fc.nat(PROCESSES - 1);
const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom("allow", "consume"),
      process,
      cost: fc.constantFrom(1, 1, 1, 3, 20),
      times: fc.constantFrom(1, 5, 40),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("pass"),
      ms: fc.oneof(fc.nat(2000), fc.nat(LEASE_MS), fc.constantFrom(LEASE_MS / 2 - 1000, LEASE_MS - 1000)),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant("let through"), which: fc.option(fc.nat(5), { nil: undefined }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("restart"), process }) },
) as fc.Arbitrary<Step>;

interface Process {
  local: Sluice;
  redis: RedisSluice;
  limiter: LeasedLimiter;
}

function start(client: SlowClient, clock: ManualClock, name: string): Process {
  const local = Sluice.create({ capacity: 10, clock, maxThreads: 1 });
  const redis = RedisSluice.create({ client, onFailure: "closed", local, deadlineMs: 60_000, prefix: "bound" });
  return { local, redis, limiter: redis.leased(name, { rate: RATE, burst: BURST, leaseMs: LEASE_MS }) };
}

/** Ends a process in order; how many tokens went back. */
async function end(client: SlowClient, { local, redis, limiter }: Process): Promise<number> {
  const closing = redis.close();
  await client.letThrough();
  await closing;
  const { returned } = limiter.stats();
  local.close();
  return returned;
}

describe.skipIf(!redisBinary)("leases of 4 processes that come and go", () => {
  let server: RedisServer;
  let client: SlowClient;
  beforeAll(async () => {
    server = await RedisServer.start();
    client = new SlowClient(server.port);
  });
  afterAll(async () => {
    client?.close();
    await server?.close();
  });

  it("admit no more than burst + rate x (W + leaseMs) in any time W", { timeout: 120_000 }, async () => {
    const seed = announceSeed("the bound of leases");
    const clock = new ManualClock();
    let runs = 0;
    let mostBeyond = 0;
    let returned = 0;

    await fc.assert(
      fc.asyncProperty(fc.array(steps, { minLength: 20, maxLength: 60, size: "max" }), async (all) => {
        const name = `run${runs++}`;
        const processes = Array.from({ length: PROCESSES }, () => start(client, clock, name));
        const admitted: [ms: number, tokens: number][] = [];
        const pass = (ms: number): void => {
          clock.advance(ms);
          client.nowUs += ms * 1000;
        };
        try {
          for (const step of all) {
            if (step.do === "pass") pass(step.ms);
            else if (step.do === "let through") await client.letThrough(step.which);
            else if (step.do === "restart") {
              returned += await end(client, processes[step.process]);
              processes[step.process] = start(client, clock, name);
            } else {
              const { limiter } = processes[step.process];
              for (let i = 0; i < step.times; i++) {
                if (step.do === "allow") {
                  if (limiter.allow("key", step.cost)) admitted.push([clock.nowMs, step.cost]);
                } else {
                  limiter.consume("key", step.cost).then(
                    ({ allowed }) => allowed && admitted.push([clock.nowMs, step.cost]),
                    () => {},
                  );
                }
              }
            }
          }
        } finally {
          for (const each of processes) returned += await end(client, each);
        }
        // The largest sum of admitted - rate x time over all stretches, in one pass.
        let sum = 0;
        let best = -Infinity;
        for (const [ms, tokens] of admitted) {
          best = Math.max(best, (RATE * ms) / 1000 - sum);
          sum += tokens;
          mostBeyond = Math.max(mostBeyond, sum + best - (RATE * ms) / 1000);
        }
        expect(mostBeyond).toBeLessThanOrEqual(BURST + (RATE * LEASE_MS) / 1000);
      }),
      { seed, numRuns: Number(globalThis.process.env.FUZZ_RUNS ?? 100) },
    );
    console.log(
      `at most ${mostBeyond} beyond the rate, of ${BURST} + ${(RATE * LEASE_MS) / 1000}; ${returned} tokens went back`,
    );
    // Leases are seen to be spent late, and given back.
    expect(mostBeyond).toBeGreaterThan(BURST);
    expect(returned).toBeGreaterThan(0);
  });

  it("cannot pile tokens up by handing them from lease to lease", async () => {
    const clock = new ManualClock();
    const name = "hoard";
    let holders: Process[] = [];
    let returned = 0;
    /** A process that leases all that is there, and spends nothing. */
    const hoard = async (): Promise<void> => {
      const process = start(client, clock, name);
      const peeked = process.redis.tokenBucket(name, { rate: RATE, burst: BURST }).peek("key");
      await client.letThrough();
      process.limiter.allow("key", (await peeked).remaining);
      await client.letThrough();
      holders.push(process);
    };
    for (let round = 0; round < 10; round++) {
      const former = holders;
      holders = [];
      await hoard();
      // Tokens that are about to lapse go back to an empty bucket, and to the next.
      for (const process of former) {
        returned += await end(client, process);
        await hoard();
      }
      if (round === 9) break;
      const ms = LEASE_MS / 2 - 1000;
      clock.advance(ms);
      client.nowUs += ms * 1000;
    }
    let spent = 0;
    for (const { limiter } of holders) {
      for (let cost = BURST; cost > 0; cost--) while (limiter.allow("key", cost)) spent += cost;
    }
    await client.letThrough();
    for (const process of holders) await end(client, process);
    console.log(`${spent} tokens piled up; ${returned} went back`);
    expect(returned).toBeGreaterThan(0);
    expect(spent).toBeGreaterThan(0);
    expect(spent).toBeLessThanOrEqual(BURST + (RATE * LEASE_MS) / 1000);
  });
});
