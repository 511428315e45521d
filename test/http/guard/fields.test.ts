/**
 * The header fields that clients get: they parse to what was meant, and a retry after
 * Retry-After succeeds.
 */
import fc from "fast-check";
import { type Limiter, Sluice } from "sluice";
import { type Answer, Guard, type HeaderStyle, type LimitOptions, plainReader, type PlainRequest } from "sluice/http";
import { parseDictionary, parseItem, parseList } from "structured-headers";
import { describe, expect, it } from "vitest";
import { announceSeed } from "../../seed.js";
import { create } from "../../tables.js";

const request: PlainRequest = { method: "GET", url: "/", headers: {} };

/** Asks a guard with these limits, whose functions are all synchronous. */
function asker(limits: LimitOptions<PlainRequest>[], headers?: HeaderStyle): () => Answer {
  const guard = new Guard<PlainRequest>({ limits, ...(headers && { headers }) }, plainReader);
  return () => guard.decide(request) as Answer;
}

function fieldsOf({ fields }: Answer): Record<string, string> {
  return Object.fromEntries(Array.from({ length: fields.length / 2 }, (_, i) => [fields[2 * i], fields[2 * i + 1]]));
}

describe("the fields", () => {
  const answersOf = (style?: HeaderStyle): Record<string, string>[] => {
    const { sluice } = create();
    const ask = asker([{ limiter: sluice.tokenBucket("user", { rate: 0.5, burst: 2 }), key: () => "alice" }], style);
    return [ask(), ask(), ask()].map(fieldsOf);
  };
  const refusal = { "Retry-After": "2", "Content-Type": "application/problem+json" };

  it.each<[HeaderStyle | undefined, Record<string, string>[]]>([
    [undefined, [{ "RateLimit-Policy": "\"user\";q=2;w=4", RateLimit: "\"user\";r=1;t=2" }, {
      "RateLimit-Policy": "\"user\";q=2;w=4",
      RateLimit: "\"user\";r=0;t=4",
    }, { "RateLimit-Policy": "\"user\";q=2;w=4", RateLimit: "\"user\";r=0;t=2", ...refusal }]],
    ["draft-7", [{ "RateLimit-Policy": "2;w=4", RateLimit: "limit=2, remaining=1, reset=2" }, {
      "RateLimit-Policy": "2;w=4",
      RateLimit: "limit=2, remaining=0, reset=4",
    }, { "RateLimit-Policy": "2;w=4", RateLimit: "limit=2, remaining=0, reset=2", ...refusal }]],
    [
      "draft-6",
      [1, 0].map((left) => ({
        "RateLimit-Policy": "2;w=4",
        "RateLimit-Limit": "2",
        "RateLimit-Remaining": `${left}`,
        "RateLimit-Reset": left ? "2" : "4",
      })).concat([
        {
          "RateLimit-Policy": "2;w=4",
          "RateLimit-Limit": "2",
          "RateLimit-Remaining": "0",
          "RateLimit-Reset": "2",
          ...refusal,
        } as never,
      ]),
    ],
    [
      "x-ratelimit",
      [1, 0].map((left) => ({
        "X-RateLimit-Limit": "2",
        "X-RateLimit-Remaining": `${left}`,
        "X-RateLimit-Reset": left ? "2" : "4",
      })).concat([
        { "X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "2", ...refusal } as never,
      ]),
    ],
    ["none", [{}, {}, refusal]],
  ])("in style %s", (style, expected) => {
    expect(answersOf(style)).toEqual(expected);
  });

  it("parse to what was meant, whatever the name of the limiter", () => {
    const seed = announceSeed("fields");
    const name = fc.string({ unit: fc.constantFrom(..."\"\\ ;,=?:azAZ09/#~"), minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(
        name,
        fc.integer({ min: 1, max: 2 ** 31 - 1 }),
        fc.double({ min: 1e-9, max: 3e9, noNaN: true }),
        fc.nat(),
        fc.constantFrom<HeaderStyle>("draft-11", "draft-7", "draft-6", "x-ratelimit"),
        (text, burst, rate, cost, style) => {
          const { sluice } = create();
          const limiter = sluice.tokenBucket(text, { rate, burst });
          const before = cost % (burst + 1);
          limiter.charge("alice", before);
          const answer = asker([{ limiter, key: () => "alice" }], style)();
          const { remaining, limit, resetMs, retryAfterMs } = answer.decision!;
          const seconds = Math.min(999_999_999_999_999, Math.ceil((answer.allowed ? resetMs : retryAfterMs) / 1000));
          const fields = fieldsOf(answer);
          if (style === "draft-11") {
            expect(parseList(fields.RateLimit)).toEqual([[
              text,
              new Map([["r", remaining], ...(seconds < 999_999_999_999_999 ? [["t", seconds] as const] : [])]),
            ]]);
            const [[policy, parameters]] = parseList(fields["RateLimit-Policy"]);
            expect([policy, (parameters as Map<string, number>).get("q")]).toEqual([text, burst]);
            const w = (parameters as Map<string, number>).get("w");
            if (w === undefined) expect(burst / rate).toBeGreaterThan(1e14);
            else expect(Math.abs(w - burst / rate)).toBeLessThanOrEqual(1 + w * 1e-11);
          } else if (style === "draft-7") {
            expect(Object.fromEntries([...parseDictionary(fields.RateLimit)].map(([key, [value]]) => [key, value])))
              .toEqual({ limit, remaining, reset: seconds });
            expect(parseList(fields["RateLimit-Policy"])[0][0]).toBe(burst);
          } else {
            const prefix = style === "draft-6" ? "RateLimit" : "X-RateLimit";
            expect(["Limit", "Remaining", "Reset"].map((each) => parseItem(fields[`${prefix}-${each}`])[0])).toEqual([
              limit,
              remaining,
              seconds,
            ]);
            if (style === "draft-6") expect(parseList(fields["RateLimit-Policy"])[0][0]).toBe(burst);
          }
          sluice.close();
        },
      ),
      { seed, numRuns: 500 },
    );
  });

  it("describe every limit of a limiter with several, and the one that decided", () => {
    const { sluice, clock } = create();
    const limiter = sluice.tokenBucket("api", { limits: [{ rate: 1, burst: 1 }, { rate: 0.01, burst: 3 }] });
    const ask = asker([{ limiter }]);
    expect(fieldsOf(ask())).toEqual({
      "RateLimit-Policy": "\"api#0\";q=1;w=1, \"api#1\";q=3;w=300",
      RateLimit: "\"api#0\";r=0;t=100",
    });
    clock.advance(1000);
    ask();
    clock.advance(1000);
    ask();
    clock.advance(1000);
    expect(fieldsOf(ask())).toMatchObject({ RateLimit: "\"api#1\";r=0;t=97", "Retry-After": "97" });
  });

  it("describe all policies, and the tightest of several limiters", () => {
    const { sluice } = create();
    const limits = [
      { limiter: sluice.fixedWindow("tenant", { limit: 100, windowMs: 60_000 }), key: () => "acme" },
      { limiter: sluice.tokenBucket("user", { rate: 1, burst: 3 }), key: () => "alice" },
      { limiter: sluice.slidingWindow("everybody", { limit: 50, windowMs: 10_000, slots: 10 }) },
    ];
    const ask = asker(limits);
    expect(fieldsOf(ask())).toEqual({
      "RateLimit-Policy": "\"tenant\";q=100;w=60, \"user\";q=3;w=3, \"everybody\";q=50;w=10",
      RateLimit: "\"user\";r=2;t=1",
    });
    ask();
    ask();
    expect(fieldsOf(ask())).toMatchObject({ RateLimit: "\"user\";r=0;t=1", "Retry-After": "1" });
    for (let i = 0; i < 97; i++) limits[0].limiter.allow("acme");
    expect(fieldsOf(ask())).toMatchObject({ RateLimit: "\"tenant\";r=0;t=60", "Retry-After": "60" });
  });

  it("follow a new rate and a new burst", () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("user", { rate: 1, burst: 10 });
    const several = sluice.tokenBucket("several", { limits: [{ rate: 1, burst: 10 }, { rate: 1, burst: 20 }] });
    const ask = asker([{ limiter }, { limiter: several }]);
    expect(fieldsOf(ask())["RateLimit-Policy"]).toBe(
      "\"user\";q=10;w=10, \"several#0\";q=10;w=10, \"several#1\";q=20;w=20",
    );
    limiter.setBurst(20);
    limiter.setRate(4);
    several.setBurst(30, 1);
    expect(fieldsOf(ask())["RateLimit-Policy"]).toBe(
      "\"user\";q=20;w=5, \"several#0\";q=10;w=10, \"several#1\";q=30;w=30",
    );
  });

  it("leave out seconds that would be never or 0", () => {
    const { sluice } = create();
    const ask = asker([{ limiter: sluice.tokenBucket("once", { rate: 0, burst: 1 }) }]);
    expect(fieldsOf(ask())).toEqual({ "RateLimit-Policy": "\"once\";q=1", RateLimit: "\"once\";r=0" });
    expect(fieldsOf(ask())).toEqual({
      "RateLimit-Policy": "\"once\";q=1",
      RateLimit: "\"once\";r=0",
      "Content-Type": "application/problem+json",
    });
    expect(fieldsOf(asker([{ limiter: sluice.tokenBucket("small", { rate: 1, burst: 2 }), cost: 3 }])())).toEqual({
      "RateLimit-Policy": "\"small\";q=2;w=2",
      RateLimit: "\"small\";r=2;t=0",
      "Content-Type": "application/problem+json",
    });
    expect(fieldsOf(asker([{ limiter: sluice.tokenBucket("free", { rate: Infinity, burst: 5 }) }])())).toEqual({
      "RateLimit-Policy": "\"free\";q=5",
      RateLimit: "\"free\";r=5;t=0",
    });
    expect(fieldsOf(asker([{ limiter: sluice.fixedWindow("shut", { limit: 0, windowMs: 1000 }) }])())).toMatchObject({
      "RateLimit-Policy": "\"shut\";q=0",
    });
  });

  it("carry a key as partition with sendsKey, up to 256 bytes", () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("user", { rate: 1, burst: 10 });
    const sent = (key: string | number | bigint | Uint8Array): unknown => {
      const [[, parameters]] = parseList(fieldsOf(asker([{ limiter, key: () => key, sendsKey: true }])()).RateLimit);
      const pk = (parameters as Map<string, unknown>).get("pk");
      return pk && Buffer.from(pk as ArrayBuffer).toString();
    };
    expect([sent("alice"), sent("Zoë"), sent(7), sent(7n), sent(Buffer.from("bytes")), sent("")]).toEqual([
      "alice",
      "Zoë",
      "7",
      "7",
      "bytes",
      "",
    ]);
    expect([sent("x".repeat(256))?.toString().length, sent("x".repeat(257)), sent("x".repeat(2 ** 20))]).toEqual([
      256,
      undefined,
      undefined,
    ]);
    expect(fieldsOf(asker([{ limiter, sendsKey: true }])()).RateLimit).toMatch(/^"user";r=9;t=1$/);
  });

  it("refuse a name that a structured field cannot carry, in draft-11 only, when the guard is made", () => {
    const { sluice } = create();
    for (const name of ["Zoë", "tab\t", "\u{1f600}", "line\nbreak", "\u0000"]) {
      const limiter = sluice.tokenBucket(name, { rate: 1, burst: 1 });
      expect(() => asker([{ limiter }])).toThrow(
        new RangeError(
          `"limits[0].limiter" expected a limiter with a name of printable ASCII, which 'draft-11' headers carry, got ${
            JSON.stringify(name)
          }`,
        ),
      );
      for (const style of ["draft-7", "draft-6", "x-ratelimit", "none"] as const) {
        expect(() => asker([{ limiter }], style)).not.toThrow();
      }
    }
  });
});

type Kind = [name: string, make: (sluice: Sluice, limit: number, seconds: number) => Limiter];

const kinds: Kind[] = [
  ["token bucket", (sluice, limit, seconds) => sluice.tokenBucket("it", { rate: limit / seconds, burst: limit })],
  ["leaky meter", (sluice, limit, seconds) => sluice.leakyBucket("it", { rate: limit / seconds, burst: limit })],
  ["leaky queue", (sluice, limit, seconds) => sluice.leakyBucket("it", { rate: limit / seconds, queue: 5 })],
  [
    "fixed window",
    (sluice, limit, seconds) => sluice.fixedWindow("it", { limit, windowMs: Math.ceil(seconds * 1000) }),
  ],
  [
    "sliding window",
    (sluice, limit, seconds) => sluice.slidingWindow("it", { limit, windowMs: Math.ceil(seconds * 1000) }),
  ],
  [
    "window with slots",
    (sluice, limit, seconds) => sluice.slidingWindow("it", { limit, windowMs: Math.ceil(seconds * 1000), slots: 7 }),
  ],
  [
    "several limits",
    (sluice, limit, seconds) =>
      sluice.tokenBucket("it", {
        limits: [{ rate: limit / seconds, burst: limit }, { rate: 1 / seconds, burst: 2 * limit }],
      }),
  ],
  ["warm-up", (sluice, limit, seconds) => sluice.warmUp("it", { rate: limit / seconds, warmupMs: 3000 })],
];

describe("Retry-After", () => {
  /** `ms` as the engine's clock rounds it. */
  const wholeNs = (ms: number): number => Math.round(ms * 1e6) / 1e6;

  /** Draws histories, and after every refusal asks again at Retry-After and `earlierMs` before it. */
  function holds(make: Kind[1][], test: string, earlierMs = 1000): void {
    const seed = announceSeed(test);
    let refusals = 0;
    let late = 0;
    const step = fc.record({
      advanceMs: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 5000, noNaN: true }), fc.nat(5000)),
      cost: fc.integer({ min: 1, max: 4 }),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.double({ min: 0.5, max: 400, noNaN: true }),
        fc.array(step, { minLength: 10, maxLength: 40 }),
        fc.double({ min: 0, max: 1e9, noNaN: true }),
        (limit, seconds, steps, startMs) => {
          const { sluice, clock } = create(wholeNs(startMs));
          let cost = 1;
          const limits = make.map((each, i) => {
            const limiter = each({ ...others(sluice, i) } as Sluice, limit + i, seconds);
            return { limiter, key: () => "alice", cost: () => cost };
          });
          const ask = asker(limits);
          for (const step of steps) {
            clock.set(wholeNs(clock.nowMs + step.advanceMs));
            cost = step.cost;
            const answer = ask();
            const after = fieldsOf(answer)["Retry-After"];
            if (after === undefined) continue;
            refusals++;
            expect(answer.status).toBe(429);
            expect(after).toMatch(/^[1-9]\d*$/);
            const now = clock.nowMs;
            if (Number(after) > 1) {
              late++;
              clock.set(wholeNs(now + Number(after) * 1000 - earlierMs));
              expect(ask().allowed).toBe(false);
            }
            clock.set(wholeNs(now + Number(after) * 1000));
            expect(ask().allowed).toBe(true);
          }
          sluice.close();
        },
      ),
      { seed, numRuns: 100 },
    );
    expect(refusals).toBeGreaterThan(100);
    expect(late).toBeGreaterThan(20);
  }

  /** The limiters of a Sluice, each under a name of its own. */
  function others(sluice: Sluice, i: number): Partial<Sluice> {
    return {
      tokenBucket: (name, options) => sluice.tokenBucket(`${name}${i}`, options),
      leakyBucket: (name, options) => sluice.leakyBucket(`${name}${i}`, options),
      fixedWindow: (name, options) => sluice.fixedWindow(`${name}${i}`, options),
      slidingWindow: (name, options) => sluice.slidingWindow(`${name}${i}`, options),
      warmUp: (name, options) => sluice.warmUp(`${name}${i}`, options),
    };
  }

  it.each(kinds)("of a %s is the first whole second at which a retry succeeds", (name, make) => {
    // The cost of stored permits is rounded up to a nanosecond, so a whole second may come out as the next one.
    holds([make], `Retry-After of a ${name}`, name === "warm-up" ? 1000.000001 : 1000);
  });

  it("of several limiters is the first whole second at which all of them admit", () => {
    holds([kinds[0][1], kinds[3][1], kinds[5][1]], "Retry-After of several limiters");
  });
});
