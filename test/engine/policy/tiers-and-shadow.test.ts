/** Tiers are limiters under their limiter's name; a shadow admits all and counts what it would refuse. */
import fc from "fast-check";
import { type Limiter, Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import { announceSeed } from "../../seed.js";
import { create, open, openTable } from "../../tables.js";

/** Makes a limiter of each kind, with the options that all have. */
type Common = { shadow?: boolean };
const kinds: [string, (sluice: Sluice, common: Common) => Limiter][] = [
  ["token bucket", (sluice, common) => sluice.tokenBucket("it", { rate: 10, burst: 5, ...common })],
  ["leaky meter", (sluice, common) => sluice.leakyBucket("it", { rate: 10, burst: 5, ...common })],
  ["leaky queue", (sluice, common) => sluice.leakyBucket("it", { rate: 10, queue: 5, ...common })],
  ["fixed window", (sluice, common) => sluice.fixedWindow("it", { limit: 5, windowMs: 500, ...common })],
  ["sliding window", (sluice, common) => sluice.slidingWindow("it", { limit: 5, windowMs: 500, ...common })],
  [
    "window with slots",
    (sluice, common) => sluice.slidingWindow("it", { limit: 5, windowMs: 500, slots: 5, ...common }),
  ],
  [
    "several limits",
    (sluice, common) =>
      sluice.tokenBucket("it", { limits: [{ rate: 10, burst: 5 }, { rate: 2, burst: 8 }], ...common }),
  ],
  ["warm-up", (sluice, common) => sluice.warmUp("it", { rate: 10, warmupMs: 500, ...common })],
];

describe("a tier", () => {
  it("has limits and buckets of its own, and the rest from its limiter", () => {
    const { sluice, clock } = create();
    const limiter = sluice.tokenBucket("user", {
      rate: 1,
      burst: 2,
      tiers: { gold: { burst: 10 }, staff: { rate: Infinity } },
    });
    const gold = limiter.tier("gold");
    expect([gold.name, gold.rate, gold.burst]).toEqual(["user/gold", 1, 10]);
    expect(limiter.allow("alice", 2)).toBe(true);
    expect(limiter.allow("alice")).toBe(false);
    expect(gold.peek("alice").remaining).toBe(10);
    expect(gold.allow("alice", 10)).toBe(true);
    expect(gold.consume("alice")).toMatchObject({ allowed: false, limit: 10, retryAfterMs: 1000 });
    for (let i = 0; i < 100; i++) expect(limiter.tier("staff").allow("alice", 1000)).toBe(true);
    clock.advance(1000);
    expect(limiter.allow("alice")).toBe(true);
    limiter.setRate(5);
    expect(gold.rate).toBe(1);
    gold.setBurst(20);
    expect(limiter.burst).toBe(2);
    expect(limiter.tier("gold")).toBe(gold);
    expect(Object.keys(sluice.stats().limiters)).toEqual(["user", "user/gold", "user/staff"]);
  });

  it.each<[string, (sluice: Sluice) => Limiter, number]>([
    ["leaky bucket", (sluice) => sluice.leakyBucket("it", { rate: 1, burst: 1, tiers: { gold: { burst: 4 } } }), 4],
    [
      "fixed window",
      (sluice) => sluice.fixedWindow("it", { limit: 1, windowMs: 1000, tiers: { gold: { limit: 4 } } }),
      4,
    ],
    [
      "sliding window",
      (sluice) => sluice.slidingWindow("it", { limit: 1, windowMs: 1000, tiers: { gold: { limit: 4 } } }),
      4,
    ],
    [
      "window with slots",
      (sluice) => sluice.slidingWindow("it", { limit: 1, windowMs: 1000, slots: 3, tiers: { gold: { limit: 4 } } }),
      4,
    ],
    [
      "several limits",
      (sluice) =>
        sluice.tokenBucket("it", {
          limits: [{ rate: 1, burst: 1 }],
          tiers: { gold: { limits: [{ rate: 1, burst: 9 }, { rate: 1, burst: 4 }] } },
        }),
      4,
    ],
  ])("of a %s has its own allowance", (_, make, most) => {
    const { sluice } = create();
    const limiter = make(sluice);
    const count = (of: Limiter): number => {
      let admitted = 0;
      while (of.allow("key")) admitted++;
      return admitted;
    };
    expect(count(limiter)).toBe(1);
    expect(count(limiter.tier("gold"))).toBe(most);
    expect(limiter.allow("key")).toBe(false);
  });

  it("of a warm-up has another rate", () => {
    const { sluice } = create();
    const limiter = sluice.warmUp("it", { rate: 1, warmupMs: 0, tiers: { gold: { rate: 100 } } });
    limiter.allow("key");
    limiter.tier("gold").allow("key");
    expect(limiter.peek("key").retryAfterMs).toBe(1000);
    expect(limiter.tier("gold").peek("key").retryAfterMs).toBe(10);
  });

  it("that does not exist is an error that names the existing ones", () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("user", { rate: 1, burst: 2, tiers: { gold: { burst: 10 } } });
    expect(() => limiter.tier("silver")).toThrow(
      "no limiter \"user/silver\": this table has \"user\", \"user/gold\"",
    );
    expect(() => limiter.tier("silver")).toThrow(expect.objectContaining({ code: "ERR_SLUICE_NO_POLICY" }));
  });

  it("with wrong limits is refused before anything is made", () => {
    const { sluice } = create();
    expect(() => sluice.tokenBucket("user", { rate: 1, burst: 2, tiers: { gold: { burst: -1 } } })).toThrow(
      "\"burst\" expected",
    );
    expect(() => sluice.tokenBucket("user", { rate: 1, burst: 2, tiers: { gold: null as unknown as object } })).toThrow(
      "\"tiers.gold\" expected an object, got null",
    );
    expect(() => sluice.limiter("user")).toThrow("this table has none");
  });

  it("with a name that is too long is refused before anything is made", () => {
    const { sluice } = create();
    expect(() => sluice.tokenBucket("user", { rate: 1, burst: 2, tiers: { ["g".repeat(95)]: { burst: 1 } } })).toThrow(
      "\"name\" expected",
    );
    expect(() => sluice.limiter("user")).toThrow("this table has none");
  });

  it("of several limits takes a rate and burst of its own, or refuses them", () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("user", {
      limits: [{ rate: 1, burst: 2 }],
      tiers: { gold: { rate: 1, burst: 50 } },
    });
    expect(limiter.tier("gold").allow("key", 50)).toBe(true);
  });
});

describe("a shadow", () => {
  it.each(kinds)("of a %s admits everything and counts exactly what its twin refuses", (kind, make) => {
    const seed = announceSeed(`shadow, ${kind}`);
    let refusals = 0;
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            ms: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 300 })),
            key: fc.nat(2),
            cost: fc.integer({ min: 0, max: 6 }),
            way: fc.nat(3),
          }),
          { maxLength: 60 },
        ),
        (calls) => {
          const { sluice: shadowed, clock } = create();
          const strict = openTable({ clock });
          const shadow = make(shadowed, { shadow: true });
          const twin = make(strict, {});
          let refused = 0;
          for (const { ms, key, cost, way } of calls) {
            clock.advance(ms);
            if (way === 0) {
              expect(shadow.consume(key, cost)).toMatchObject({ allowed: true, retryAfterMs: 0 });
              if (!twin.consume(key, cost).allowed) refused++;
            } else if (way === 1) {
              expect([...shadow.allowMany([key, key], cost)]).toEqual([1, 1]);
              refused += [...twin.allowMany([key, key], cost)].filter((each) => each === 0).length;
            } else if (way === 2) {
              const reservation = shadow.reserve(key, cost);
              expect(reservation).toMatchObject({ granted: true, delayMs: 0 });
              if (!twin.reserve(key, cost, { maxWaitMs: 0 }).granted) refused++;
            } else {
              expect(shadow.key(key).allow(cost)).toBe(true);
              if (!twin.allow(key, cost)) refused++;
            }
          }
          const { allowed, denied, shadowed: counted } = shadowed.stats().limiters.it;
          const own = strict.stats().limiters.it;
          expect({ counted, denied, allowed }).toEqual({
            counted: refused,
            denied: 0,
            allowed: own.allowed + own.denied,
          });
          expect(own.denied).toBe(refused);
          refusals += refused;
          for (const sluice of open.splice(0)) sluice.close();
        },
      ),
      { seed, numRuns: 40 },
    );
    expect(refusals).toBeGreaterThan(20);
  });

  it.each(kinds)("of a %s makes no call wait", async (_, make) => {
    const { sluice } = create();
    const limiter = make(sluice, { shadow: true });
    for (let i = 0; i < 20; i++) await limiter.wait("key", 1);
    expect(sluice.stats().limiters.it.shadowed).toBeGreaterThan(0);
  });

  it("takes nothing for what it would have refused, so that a cancel gives nothing back", () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("it", { rate: 1, burst: 1, shadow: true });
    limiter.allow("key");
    const reservation = limiter.reserve("key");
    expect(reservation.granted).toBe(true);
    expect(reservation.cancel()).toBe(false);
    expect(limiter.peek("key").remaining).toBe(0);
  });

  it("is inherited by tiers, and works in a group", () => {
    const { sluice } = create();
    const shadow = sluice.tokenBucket("shadow", { rate: 0, burst: 1, shadow: true, tiers: { gold: { burst: 2 } } });
    const strict = sluice.tokenBucket("strict", { rate: 0, burst: 3 });
    for (let i = 0; i < 5; i++) expect(shadow.tier("gold").allow("key")).toBe(true);
    expect(sluice.stats().limiters["shadow/gold"].shadowed).toBe(3);
    const admitted = Array.from({ length: 5 }, () => sluice.all([[shadow, "key"], [strict, "key"]]).allowed);
    expect(admitted).toEqual([true, true, true, false, false]);
    // The shadow's own charge went back with the group's.
    expect(strict.peek("key").remaining).toBe(0);
  });

  it("is not the same limiter as one that refuses", () => {
    const { sluice } = create();
    sluice.tokenBucket("it", { rate: 1, burst: 1, shadow: true });
    expect(() => sluice.tokenBucket("it", { rate: 1, burst: 1 })).toThrow("exists");
    expect(() => sluice.tokenBucket("other", { rate: 1, burst: 1, shadow: 1 as unknown as boolean })).toThrow(
      "\"shadow\" expected true or false, got 1",
    );
  });
});
