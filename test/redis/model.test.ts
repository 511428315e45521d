// Limiters in Redis beside the models that those of a table are held to, at a
// clock that is moved by hand; and what was admitted beside an exact log.

import fc from "fast-check";
import { type RedisLimiter, type RedisReservation, RedisSluice } from "sluice/redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ModelBucket } from "../models/model.js";
import {
  ExactLog,
  ModelFixedWindow,
  ModelSlidingCounter,
  ModelSlottedWindow,
  type WindowStep,
  windowSteps,
} from "../models/window-models.js";
import { announceSeed } from "../seed.js";
import { TimedClient } from "./server-time.js";
import { redisBinary, RedisServer } from "./server.js";

/** What a limiter in Redis is compared with. Times are microseconds, whatever a model's names say. */
interface Model<Ticket = any> {
  waitUs: (nowUs: bigint, cost: number) => number;
  reserve: (nowUs: bigint, cost: number, maxWaitUs: number) => Ticket | undefined;
  cancel: (nowUs: bigint, ticket: Ticket) => void;
  charge: (nowUs: bigint, cost: number) => void;
  refund: (nowUs: bigint, cost: number) => void;
  remaining: (nowUs: bigint) => number | undefined;
}

type AnyWindow = ModelFixedWindow | ModelSlidingCounter | ModelSlottedWindow;
function ofWindow(model: AnyWindow): Model {
  return {
    waitUs(nowUs, cost) {
      const first = model.firstNs(nowUs, BigInt(cost));
      return first === undefined ? Infinity : Number(first - nowUs);
    },
    reserve: (nowUs, cost, maxWaitUs) => model.reserve(nowUs, BigInt(cost), BigInt(maxWaitUs)),
    cancel: (nowUs, ticket) => model.cancel(nowUs, ticket),
    charge: (nowUs, cost) => model.charge(nowUs, BigInt(cost)),
    refund: (nowUs, cost) => model.refund(nowUs, BigInt(cost)),
    remaining: (nowUs) => (model.isAhead(nowUs) ? undefined : Number(model.remaining(nowUs))),
  };
}

/** Rates whose token takes whole microseconds: nothing is rounded, by neither. */
function ofBucket(model: ModelBucket): Model {
  const ns = (us: bigint | number): bigint => BigInt(us) * 1000n;
  return {
    waitUs: (nowUs, cost) => model.waitNs(ns(nowUs), cost) / 1000,
    reserve(nowUs, cost, maxWaitUs) {
      const { granted, ticket } = model.reserve(ns(nowUs), cost, ns(maxWaitUs));
      return granted ? ticket : undefined;
    },
    cancel: (nowUs, ticket) => void model.cancel(ns(nowUs), ticket as Parameters<ModelBucket["cancel"]>[1]),
    charge: (nowUs, cost) => void model.charge(ns(nowUs), cost),
    refund: (nowUs, cost) => void model.refund(ns(nowUs), cost),
    remaining: (nowUs) => Math.max(0, Math.floor(model.peekTokens(ns(nowUs)))),
  };
}

interface Entry {
  us: bigint;
  cost: number;
}
/** The log of a sliding window: all calls, in the order in which they act. */
class ModelLog implements Model<Entry> {
  readonly entries: Entry[] = [];
  constructor(private readonly limit: number, private readonly windowUs: bigint) {}

  private seen(us: bigint): number {
    return this.entries.reduce((sum, entry) => (entry.us + this.windowUs > us ? sum + entry.cost : sum), 0);
  }

  private last(nowUs: bigint): bigint {
    return this.entries.reduce((latest, { us }) => (us > latest ? us : latest), nowUs);
  }

  waitUs(nowUs: bigint, cost: number): number {
    if (cost > this.limit) return Infinity;
    const from = this.last(nowUs);
    const moments = [from, ...this.entries.map(({ us }) => us + this.windowUs)].filter((us) => us >= from).sort((
      a,
      b,
    ) => Number(a - b));
    return Number(moments.find((us) => this.seen(us) + cost <= this.limit)! - nowUs);
  }

  reserve(nowUs: bigint, cost: number, maxWaitUs: number): Entry | undefined {
    const wait = this.waitUs(nowUs, cost);
    if (wait > maxWaitUs) return undefined;
    const entry = { us: nowUs + BigInt(wait === Infinity ? 0 : wait), cost };
    if (cost > 0) this.entries.push(entry);
    return entry;
  }

  cancel(nowUs: bigint, entry: Entry): void {
    const { us, cost } = entry;
    if (cost === 0 || us < nowUs) return;
    // One that acts at the same moment and cost the same is as good, should a refund have taken this one's.
    const at = this.entries.findIndex((each) => each.us === us && (each === entry || each.cost === cost));
    if (at >= 0) this.entries.splice(at, 1);
  }

  charge(nowUs: bigint, cost: number): void {
    if (cost > 0) this.entries.push({ us: this.last(nowUs), cost });
  }

  refund(nowUs: bigint, cost: number): void {
    for (
      let entry = this.entries.at(-1);
      entry && cost > 0 && entry.us + this.windowUs > nowUs;
      entry = this.entries.at(-1)
    ) {
      const some = Math.min(cost, entry.cost);
      cost -= some;
      this.entries.pop();
      if (some < entry.cost) this.entries.push({ us: entry.us, cost: entry.cost - some });
    }
  }

  remaining(nowUs: bigint): number | undefined {
    return this.last(nowUs) > nowUs ? undefined : Math.max(0, this.limit - this.seen(nowUs));
  }
}

let server: RedisServer;
let client: TimedClient;
let redis: RedisSluice;
let made = 0;

/** Does the same to a limiter and its model: the first difference, or undefined. Steps' ns are microseconds here. */
async function difference(
  make: (name: string) => RedisLimiter,
  model: Model,
  steps: readonly WindowStep[],
  alignUs: number,
  log?: ExactLog,
): Promise<string | undefined> {
  const limiter = make(`it${made++}`);
  const taken: { reservation: RedisReservation; ticket: unknown }[] = [];
  const startUs = client.nowUs;
  for (const [i, step] of steps.entries()) {
    const now = BigInt(client.nowUs);
    const at = `step ${i} ${JSON.stringify(step)} at ${client.nowUs - startUs} us: `;
    switch (step.do) {
      case "pass":
        client.nowUs += step.ns;
        continue;
      case "align":
        client.nowUs = Math.max(client.nowUs, (Math.floor(client.nowUs / alignUs) + 1) * alignUs + step.past);
        continue;
      case "charge":
      case "refund":
        await limiter[step.do]("key", step.cost);
        model[step.do](now, step.cost);
        break;
      case "cancel": {
        if (taken.length === 0) continue;
        const [{ reservation, ticket }] = taken.splice(step.which % taken.length, 1);
        await reservation.cancel();
        model.cancel(now, ticket);
        break;
      }
      case "reserve": {
        const waitUs = model.waitUs(now, step.cost);
        const reservation = await limiter.reserve("key", step.cost, { maxWaitMs: step.waitNs / 1000 });
        const ticket = model.reserve(now, step.cost, step.waitNs);
        if (reservation.granted !== (ticket !== undefined)) {
          return `${at}granted ${reservation.granted}, the model after ${waitUs} us`;
        }
        if (Math.round(reservation.delayMs * 1000) !== waitUs) {
          return `${at}delay ${reservation.delayMs} ms, the model ${waitUs} us`;
        }
        if (ticket) taken.push({ reservation, ticket });
        if (ticket) log?.admit(now + BigInt(waitUs), step.cost);
        break;
      }
      case "allow":
      case "consume":
      case "peek": {
        const waitUs = model.waitUs(now, step.cost);
        const decision = await limiter[step.do === "peek" ? "peek" : "consume"]("key", step.cost);
        if (decision.allowed !== (waitUs === 0)) {
          return `${at}allowed ${decision.allowed}, the model after ${waitUs} us`;
        }
        if (Math.round(decision.retryAfterMs * 1000) !== waitUs) {
          return `${at}retry after ${decision.retryAfterMs} ms, the model ${waitUs} us`;
        }
        // 'consume' may have a script of its own, which answers otherwise than the others.
        const { remaining, resetMs } = await limiter.peek("key", decision.allowed ? 0 : step.cost);
        if (step.do !== "peek" && (remaining !== decision.remaining || resetMs !== decision.resetMs)) {
          return `${at}answered ${decision.remaining} and ${decision.resetMs} ms, then ${remaining} and ${resetMs} ms`;
        }
        if (step.do !== "peek" && waitUs === 0) {
          model.reserve(now, step.cost, 0);
          log?.admit(now, step.cost);
        }
        break;
      }
    }
    const left = model.remaining(now);
    const { remaining } = await limiter.peek("key", 0);
    if (left !== undefined && remaining !== left) return `${at}${remaining} remain, the model ${left}`;
  }
  return undefined;
}

const STEPS: readonly WindowStep["do"][] = [
  "allow",
  "allow",
  "consume",
  "peek",
  "charge",
  "refund",
  "reserve",
  "reserve",
  "cancel",
  "pass",
  "pass",
  "align",
];
const ADMITTING: readonly WindowStep["do"][] = ["allow", "allow", "allow", "reserve", "pass", "align"];

interface Case {
  kind: string;
  make: (name: string, limit: number, windowMs: number) => RedisLimiter;
  model: (limit: number, windowMs: number) => Model;
  alignUs: (windowMs: number) => number;
  /** The most that any interval of a window's length may see. */
  most: (limit: number) => number;
}
const windowUs = (windowMs: number): bigint => BigInt(windowMs) * 1000n;
const cases: Case[] = [
  {
    kind: "fixedWindow",
    make: (name, limit, windowMs) => redis.fixedWindow(name, { limit, windowMs }),
    model: (limit, windowMs) => ofWindow(new ModelFixedWindow(BigInt(limit), windowUs(windowMs), 0n)),
    alignUs: (windowMs) => windowMs * 1000,
    most: (limit) => 2 * limit,
  },
  {
    kind: "slidingWindow",
    make: (name, limit, windowMs) => redis.slidingWindow(name, { limit, windowMs }),
    model: (limit, windowMs) => ofWindow(new ModelSlidingCounter(BigInt(limit), windowUs(windowMs), 0n)),
    alignUs: (windowMs) => windowMs * 1000,
    most: (limit) => Math.max(limit, 2 * limit - 1),
  },
  {
    kind: "slidingWindow in 3 slots",
    make: (name, limit, windowMs) => redis.slidingWindow(name, { limit, windowMs, slots: 3 }),
    model: (limit, windowMs) => ofWindow(new ModelSlottedWindow(BigInt(limit), windowUs(windowMs), 3, 0n)),
    alignUs: (windowMs) => Math.ceil(windowMs * 1000 / 3),
    most: (limit) => limit,
  },
  {
    kind: "slidingWindow with a log",
    make: (name, limit, windowMs) => redis.slidingWindow(name, { limit, windowMs, log: true }),
    model: (limit, windowMs) => new ModelLog(limit, windowUs(windowMs)),
    alignUs: (windowMs) => windowMs * 1000,
    most: (limit) => limit,
  },
  {
    kind: "tokenBucket",
    make: (name, limit, windowMs) => redis.tokenBucket(name, { rate: 1000 / windowMs, burst: limit }),
    model: (limit, windowMs) =>
      ofBucket(new ModelBucket({ rate: 1000 / windowMs, burst: limit, nowNs: BigInt(client.nowUs) * 1000n })),
    alignUs: (windowMs) => windowMs * 1000,
    most: (limit) => limit + 1,
  },
];

describe.skipIf(!redisBinary)("in Redis", () => {
  beforeAll(async () => {
    server = await RedisServer.start();
    client = new TimedClient(server.port, 1_234_567);
    redis = RedisSluice.create({ client, onFailure: "closed", prefix: "model", deadlineMs: 10_000 });
  });
  afterAll(async () => {
    redis?.close();
    client?.close();
    await server?.close();
  });

  describe.each(cases)("a $kind", ({ make, model, alignUs, most }) => {
    const sizes = fc.record({
      limit: fc.constantFrom(1, 2, 3, 7, 10, 100),
      windowMs: fc.constantFrom(1, 8, 1000, 40_000),
    });
    const workloads = (
      steps: readonly WindowStep["do"][],
      maxLength: number,
    ): fc.Arbitrary<[{ limit: number; windowMs: number }, WindowStep[]]> =>
      sizes.chain((size) =>
        fc.tuple(
          fc.constant(size),
          windowSteps({ limit: size.limit, windowNs: size.windowMs * 1000 }, steps, maxLength),
        )
      );

    it("answers as its model does, whatever is done to it", async () => {
      const seed = announceSeed("a model beside Redis");
      await fc.assert(
        fc.asyncProperty(workloads(STEPS, 50), async ([{ limit, windowMs }, steps]) => {
          expect(
            await difference((name) => make(name, limit, windowMs), model(limit, windowMs), steps, alignUs(windowMs)),
          ).toBeUndefined();
        }),
        { seed, numRuns: 120 },
      );
    });

    it("keeps its bound in every interval of a window's length, reserved or not", async () => {
      const seed = announceSeed("a bound in Redis");
      let reached = 0;
      await fc.assert(
        fc.asyncProperty(workloads(ADMITTING, 80), async ([{ limit, windowMs }, steps]) => {
          const log = new ExactLog();
          expect(
            await difference(
              (name) => make(name, limit, windowMs),
              model(limit, windowMs),
              steps,
              alignUs(windowMs),
              log,
            ),
          ).toBeUndefined();
          const seen = Number(log.most(BigInt(windowMs) * 1000n));
          expect(seen).toBeLessThanOrEqual(most(limit));
          if (seen >= limit) reached++;
        }),
        { seed, numRuns: 60 },
      );
      expect(reached).toBeGreaterThan(5);
    });

    it("differs from a model of another limit", async () => {
      expect(await difference((name) => make(name, 10, 1000), model(10, 1000), [{ do: "consume", cost: 1 }], 1000))
        .toBeUndefined();
      expect(await difference((name) => make(name, 10, 1000), model(11, 1000), [{ do: "consume", cost: 1 }], 1000))
        .toMatch(/remain/);
    });
  });

  it("admits burst + rate x time and no more at rates whose tokens take no whole microseconds", async () => {
    const seed = announceSeed("odd rates in Redis");
    const rates = fc.constantFrom(3, 7, 1 / 3, 0.7, 999_983, 3_000_000, 1e9 / 7, 3e9, 100 / 60, 1e-6 * Math.PI);
    await fc.assert(
      fc.asyncProperty(
        rates,
        fc.integer({ min: 2, max: 50 }),
        fc.integer({ min: 1, max: 10 }),
        async (rate, extra, elevenths) => {
          const burst = extra + 2 * Math.ceil(rate / 1e6);
          const limiter = redis.tokenBucket(`odd${made++}`, { rate, burst });
          // It never fills up, so nothing is lost but what rounding would lose.
          const stepUs = Math.max(1, Math.floor(((burst - 1) * elevenths * 1e6) / (11 * rate)));
          let admitted = 0;
          for (let i = 0; i <= 60; i++) {
            const { remaining } = await limiter.peek("key", 0);
            if (remaining > 0 && (await limiter.allow("key", remaining))) admitted += remaining;
            const flown = (rate * i * stepUs) / 1e6;
            expect(admitted).toBeLessThanOrEqual(burst + flown * (1 + 2 ** -50));
            expect(admitted).toBeGreaterThan(burst + flown * (1 - 1e-6) - 1);
            client.nowUs += stepUs;
          }
        },
      ),
      { seed, numRuns: 40 },
    );
  });
});
