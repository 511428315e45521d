/**
 * A guard with limiters that answer in promises: those of Redis, alone, together and
 * with those of a table.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ManualClock, Sluice } from "sluice";
import { type Answer, type AsyncLimiter, Guard, type GuardOptions, plainReader, type PlainRequest } from "sluice/http";
import { limitHttp } from "sluice/http/node";
import { RedisSluice, type RedisSluiceOptions } from "sluice/redis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { clients } from "../../redis/clients.js";
import { redisBinary, RedisServer } from "../../redis/server.js";

const SLOW = { rate: 1 / 3600 };
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function table(): Sluice {
  const sluice = Sluice.create({ capacity: 1000, clock: new ManualClock(1000) });
  closers.push(() => sluice.close());
  return sluice;
}

const from = (headers: PlainRequest["headers"] = {}): PlainRequest => ({
  method: "GET",
  url: "/",
  headers,
  remoteAddress: undefined,
});
const header = (name: string) => ({ headers }: PlainRequest): string => String(headers[name]);

/** A guard that answers in promises. */
function guard(options: GuardOptions<PlainRequest>): (request?: PlainRequest) => Promise<Answer> {
  const made = new Guard(options, plainReader);
  return (request = from()) => {
    const answer = made.decide(request);
    expect(answer).toBeInstanceOf(Promise);
    return answer as Promise<Answer>;
  };
}

/** A limiter of the test's own, with `left` tokens and a record of its calls. */
function ownLimiter(name: string, left: number): AsyncLimiter & { asked: string[]; left: number } {
  const own = {
    name,
    left,
    asked: [] as string[],
    limits: [{ rate: 1, burst: 10 }],
    async consume(key: unknown, cost: number) {
      own.asked.push(`consume ${String(key)} ${cost}`);
      const allowed = own.left >= cost;
      if (allowed) own.left -= cost;
      return { allowed, limit: 10, remaining: own.left, retryAfterMs: allowed ? 0 : 1000, resetMs: 1000 };
    },
    refund(key: unknown, cost: number) {
      own.asked.push(`refund ${String(key)} ${cost}`);
      own.left += cost;
    },
    global: {
      consume: (cost: number) => own.consume("the global bucket", cost),
      refund: (cost: number) => own.refund("the global bucket", cost),
    },
  };
  return own;
}

describe("a guard with limiters that answer in promises", () => {
  it("asks them one after the other, none after a refusal, and gives back what it took", async () => {
    const [user, everybody] = [ownLimiter("user", 5), ownLimiter("everybody", 3)];
    const ask = guard({ limits: [{ limiter: user, key: header("user"), cost: 2 }, { limiter: everybody, cost: 2 }] });
    expect(await ask(from({ user: "alice" }))).toMatchObject({
      allowed: true,
      status: 200,
      policy: "everybody",
      fields: ["RateLimit-Policy", "\"user\";q=10;w=10, \"everybody\";q=10;w=10", "RateLimit", "\"everybody\";r=1;t=1"],
    });
    expect(await ask(from({ user: "alice" }))).toMatchObject({
      allowed: false,
      status: 429,
      refusal: "limited",
      policy: "everybody",
      decision: { refusedBy: "everybody" },
    });
    expect(user.asked).toEqual(["consume alice 2", "consume alice 2", "refund alice 2"]);
    expect([user.left, everybody.left]).toEqual([3, 1]);
    user.left = 0;
    expect(await ask(from({ user: "alice" }))).toMatchObject({ allowed: false, policy: "user" });
    expect(everybody.asked).toHaveLength(2);
  });

  it("gives back what it took if one of them fails, and fails with its error", async () => {
    const user = ownLimiter("user", 5);
    const broken = { ...ownLimiter("broken", 5), consume: () => Promise.reject(new Error("broken")) };
    const key = (): string => "alice";
    const ask = guard({ limits: [{ limiter: user }, { limiter: user, key }, { limiter: broken, key }] });
    await expect(ask()).rejects.toThrow("broken");
    expect(user.left).toBe(5);
    expect(user.asked).toEqual([
      "consume the global bucket 1",
      "consume alice 1",
      "refund the global bucket 1",
      "refund alice 1",
    ]);
  });

  it("may have limits of a table among them, and asks those in their turn", async () => {
    const here = table().tokenBucket("here", { ...SLOW, burst: 2 });
    const there = ownLimiter("there", 1);
    const ask = guard({ limits: [{ limiter: here, key: header("user") }, { limiter: there }] });
    const alice = from({ user: "alice" });
    expect((await ask(alice)).allowed).toBe(true);
    expect(await ask(alice)).toMatchObject({ allowed: false, policy: "there" });
    expect(here.peek("alice").remaining).toBe(1);
    here.charge("alice");
    expect(await ask(alice)).toMatchObject({ allowed: false, policy: "here" });
    expect(there.asked).toHaveLength(2);
  });

  it("chooses one by the request, and describes its limits", async () => {
    const several: AsyncLimiter = {
      ...ownLimiter("api", 5),
      limits: [{ rate: 1, burst: 10 }, { rate: 2, burst: 100 }],
    };
    const here = table().tokenBucket("here", { ...SLOW, burst: 2 });
    const made = new Guard({ limits: [{ limiter: ({ headers }) => (headers.far ? several : here) }] }, plainReader);
    expect((await made.decide(from({ far: "1" }))).fields.join()).toContain(
      "\"api#0\";q=10;w=10, \"api#1\";q=100;w=50,",
    );
    expect(made.decide(from())).toMatchObject({ allowed: true, policy: "here" });
  });

  it("answers 503 if no decision was possible, whatever its problem type, and in shadow mode proceeds", async () => {
    const away: AsyncLimiter = {
      ...ownLimiter("user", 0),
      consume: async () => ({
        allowed: false,
        limit: 10,
        remaining: 0,
        retryAfterMs: 1500,
        resetMs: 1500,
        unavailable: true,
      }),
    };
    const options = { limits: [{ limiter: away, key: () => "alice", problem: "abnormal-usage-detected" as const }] };
    const answer = await guard(options)();
    expect(answer).toMatchObject({
      allowed: false,
      status: 503,
      refusal: "limited",
      policy: "user",
      decision: { unavailable: true },
    });
    expect(answer.fields.join()).toContain("Retry-After,2,");
    expect(JSON.parse(answer.body!)).toMatchObject({
      type: "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
      status: 503,
      "violated-policies": ["user"],
    });
    expect(await guard({ ...options, shadow: true })()).toMatchObject({
      allowed: true,
      status: 200,
      refusal: "limited",
      decision: { unavailable: true },
    });
  });

  it("refuses an object that is not a limiter", async () => {
    const whole = ownLimiter("user", 1);
    for (
      const limiter of [
        { ...whole, name: 1 },
        { ...whole, limits: [] },
        { ...whole, consume: undefined },
        {
          ...whole,
          refund: undefined,
        },
        { ...whole, global: undefined },
        null,
      ]
    ) {
      expect(() => new Guard({ limits: [{ limiter: limiter as never }] }, plainReader)).toThrow(
        /^"limits\[0\]\.limiter" expected a limiter or a function, got (an object|null)$/,
      );
      const made = new Guard({ limits: [{ limiter: () => limiter as never }] }, plainReader);
      if (limiter) {
        expect(() => made.decide(from())).toThrow(
          "\"limits[0].limiter\" expected a limiter, or null if the limit does not apply, got an object",
        );
      }
    }
    expect(() => new Guard({ limits: [{ limiter: { ...whole, name: "schön" } }] }, plainReader)).toThrow(
      /^"limits\[0\]\.limiter" expected a limiter with a name of printable ASCII/,
    );
  });
});

describe.skipIf(!redisBinary)("a guard with limiters of Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server?.close());
  beforeEach(async () => {
    await server.ask("FLUSHALL");
  });

  async function create(options: Partial<RedisSluiceOptions> = {}): Promise<RedisSluice> {
    const { client, close } = await clients["node-redis"](server.port);
    closers.push(close);
    const redis = RedisSluice.create({ client, onFailure: "closed", probeMs: 50, ...options });
    closers.push(() => redis.close());
    return redis;
  }

  it("describes each kind of limiter as it describes the same in a table", async () => {
    const redis = await create({ local: Sluice.create({ capacity: 1000 }) });
    const sluice = table();
    const bucket = { rate: 0.5, burst: 20 };
    const window = { limit: 100, windowMs: 60_000 };
    for (
      const [far, near] of [
        [redis.tokenBucket("bucket", bucket), sluice.tokenBucket("bucket", bucket)],
        [redis.leakyBucket("leaky", bucket), sluice.leakyBucket("leaky", bucket)],
        [redis.fixedWindow("fixed", window), sluice.fixedWindow("fixed", window)],
        [redis.slidingWindow("sliding", window), sluice.slidingWindow("sliding", window)],
        [
          redis.slidingWindow("slots", { ...window, slots: 10 }),
          sluice.slidingWindow("slots", { ...window, slots: 10 }),
        ],
        [
          redis.tokenBucket("several", { limits: [bucket, { rate: 10, burst: 10 }] }),
          sluice.tokenBucket("several", { limits: [bucket, { rate: 10, burst: 10 }] }),
        ],
        [redis.leased("leased", bucket), sluice.tokenBucket("leased", bucket)],
      ] as const
    ) {
      const [, policies] = (await guard({ limits: [{ limiter: far }] })()).fields;
      expect(policies).toBe(
        (new Guard({ limits: [{ limiter: near }] }, plainReader).decide(from()) as Answer).fields[1],
      );
    }
  });

  it.each(["strict", "leased"])("charges every limit or none under concurrent requests: %s", async (mode) => {
    const redis = await create({ local: Sluice.create({ capacity: 1000 }) });
    const make = (
      name: string,
      burst: number,
    ) => (mode === "leased" ? redis.leased(name, { ...SLOW, burst }) : redis.tokenBucket(name, { ...SLOW, burst }));
    const [user, everybody] = [make("user", 40), make("everybody", 50)];
    const ask = guard({ limits: [{ limiter: user, key: header("user") }, { limiter: everybody }] });
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => ask(from({ user: i % 2 ? "alice" : "bob" }))),
    );
    const admitted = answers.filter(({ allowed }) => allowed).length;
    const refusedBy = new Set(answers.map(({ allowed, policy }) => (allowed ? undefined : policy)));
    expect(refusedBy.has("everybody")).toBe(true);
    expect(admitted).toBeLessThanOrEqual(50);
    // Requests refused while charges were on their way back are admitted now.
    let more = 0;
    for (const user of ["alice", "bob"]) while ((await ask(from({ user }))).allowed) more++;
    expect(admitted + more).toBe(50);
    await redis.close();
    const strict = await create();
    let left = 0;
    for (const key of ["alice", "bob"]) {
      left += (await strict.tokenBucket("user", { ...SLOW, burst: 40 }).peek(key)).remaining;
    }
    expect(left).toBe(80 - 50);
    expect((await strict.tokenBucket("everybody", { ...SLOW, burst: 50 }).global.peek()).remaining).toBe(0);
  });

  it("answers 503 while Redis is away under onFailure closed, and limits again when it is back", async () => {
    const redis = await create();
    const guarded = limitHttp({
      limits: [{ limiter: redis.tokenBucket("user", { ...SLOW, burst: 2 }), key: () => "alice" }],
    });
    const http = createServer(async (request, response) => {
      if (await guarded(request, response)) response.end("ok");
    }).listen(0, "127.0.0.1");
    await once(http, "listening");
    closers.push(() => http.close(), () => http.closeAllConnections());
    const ask = () => fetch(`http://127.0.0.1:${(http.address() as AddressInfo).port}/`);
    expect((await ask()).headers.get("ratelimit")).toMatch(/^"user";r=1;t=\d+$/);
    await server.kill();
    const gone = await ask();
    expect(gone.status).toBe(503);
    expect(gone.headers.get("retry-after")).toBe("1");
    expect(await gone.json()).toMatchObject({
      title: "Request cannot be satisfied due to temporary server capacity constraints",
    });
    await server.restart();
    let answer = await ask();
    while (answer.status === 503) answer = await ask();
    expect(answer.status).toBe(200);
    expect((await ask()).status).toBe(200);
    expect((await ask()).status).toBe(429);
  });

  it("gives back to the stand-in what the stand-in decided while Redis is away", async () => {
    const local = table();
    const redis = await create({ onFailure: "local", local, probeMs: 600_000 });
    const limiters = [
      redis.tokenBucket("user", { ...SLOW, burst: 5 }),
      redis.tokenBucket("everybody", { ...SLOW, burst: 1 }),
    ];
    const ask = guard({ limits: limiters.map((limiter) => ({ limiter })) });
    await server.kill();
    expect([(await ask()).allowed, (await ask()).allowed, (await ask()).policy]).toEqual([true, false, "everybody"]);
    await server.restart();
    expect((await limiters[0].global.peek()).remaining).toBe(4);
    // Redis took nothing.
    expect((await (await create()).tokenBucket("user", { ...SLOW, burst: 5 }).global.peek()).remaining).toBe(5);
  });
});
