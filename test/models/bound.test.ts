// The bound of a token bucket over every prefix, and exact boundaries.

import fc from "fast-check";
import { every, type Key, perDay, perHour, perMinute } from "sluice";
import { describe, expect, it } from "vitest";
import { kernelConstants } from "../../src/engine/table/kernel.js";
import { callsOf } from "../tables.js";
import { changed } from "./faults.js";
import { fractionOf, quotient } from "./model.js";
import { nextHome, type Wrap } from "./run.js";
import { bursts, KEYS, LATEST_NS, MAX_COST, parameters, rates, READING, spans } from "./scenario.js";

const { at } = kernelConstants();

describe("the bound", () => {
  /** Parts of a token per nanosecond: fine enough for a whole number of them at any rate. */
  const PARTS = 2n ** 90n;
  const partsOf = (rate: number): bigint => {
    const { over, under } = fractionOf(rate);
    expect((over * PARTS) % under).toBe(0n);
    return (over * PARTS) / under;
  };

  type Act = { do: "allow"; cost: number } | { do: "pass" | "goBack"; ns: number } | { do: "setRate"; rate: number } | {
    do: "setBurst";
    burst: number;
  };
  const finite = rates.filter((rate) => rate !== Infinity);
  const acts: fc.Arbitrary<Act> = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant("allow"),
        cost: fc.oneof(fc.constantFrom(0, 1, 1, 2), fc.nat(1000), fc.nat(MAX_COST)),
      }),
    },
    { weight: 4, arbitrary: fc.record({ do: fc.constantFrom("pass", "pass", "goBack"), ns: spans }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("setRate"), rate: finite }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("setBurst"), burst: bursts }) },
  ) as fc.Arbitrary<Act>;

  /** Fails as soon as a key was admitted more than its burst and what has flowed since; returns the most it was. */
  function follow(
    first: { rate: number; burst: number },
    key: Key | undefined,
    list: Act[],
    wrap: Wrap = (limiter) => limiter,
  ): number {
    const home = nextHome();
    const { clock, sluice, bytes, words } = home;
    clock.set(0);
    const limiter = wrap(sluice.tokenBucket(`limiter ${home.made++}`, first));
    const record = home.recordOf(home.made);
    const unit = (): number => {
      const segment = record + at.POLICY_SEGMENT + (words[record / 4] & 1) * at.SEGMENT_BYTES;
      return 2 ** -(bytes.readInt32LE(segment + at.BUCKET_TOKEN_SHIFT) - 2);
    };
    let { rate, burst } = first;
    let now = 0n;
    let latest = 0n;
    let began = 0n;
    let flowedBefore = 0n;
    let most = 0n;
    let admitted = 0;
    let bound: bigint | undefined;
    let error = 0;
    const flowed = (): bigint => flowedBefore + (now > began ? now - began : 0n) * partsOf(rate);
    const moveTo = (ns: bigint): void => {
      if (ns < 0n || ns > LATEST_NS) return;
      clock.set(Number(ns) / 1e6);
      now = BigInt(Math.round(clock.nowMs * 1e6));
      if (now > latest) latest = now;
    };
    for (const act of list) {
      if (act.do === "pass") moveTo(now + BigInt(act.ns));
      else if (act.do === "goBack") moveTo(now - BigInt(act.ns));
      else if (act.do === "allow") {
        if (!callsOf(limiter, key).allow(act.cost) || act.cost === 0) continue;
        // The key was full when it was first seen.
        bound ??= BigInt(burst) * PARTS * 1_000_000_000n - flowed();
        admitted += act.cost;
      } else {
        // Not at an earlier time: a word may then be ahead by any amount.
        if (now < latest) moveTo(latest);
        error += READING * unit();
        flowedBefore = flowed();
        began = now > began ? now : began;
        if (act.do === "setRate") limiter.setRate(rate = act.rate);
        if (act.do === "setBurst") limiter.setBurst(burst = act.burst);
      }
      if (flowed() > most) most = flowed();
      const room = quotient((bound ?? 0n) + most - BigInt(admitted) * PARTS * 1_000_000_000n, PARTS * 1_000_000_000n);
      const slack = 2 * (error + READING * unit());
      if (admitted > 0 && room < -slack) {
        throw new Error(`admitted ${admitted}, ${-room} tokens too many, slack ${slack}, at ${now} ns`);
      }
    }
    return admitted;
  }

  it("holds for every key over every prefix, under any clock and limits: admitted <= burst + rate x time", () => {
    let admitted = 0;
    fc.assert(
      fc.property(
        fc.record({ rate: finite, burst: bursts }),
        fc.constantFrom(...KEYS),
        fc.array(acts, { maxLength: 80, size: "max" }),
        (first, key, list) => {
          admitted += follow(first, key, list);
        },
      ),
      parameters,
    );
    expect(admitted).toBeGreaterThan(0);
  });

  it("holds for a key that was not used for two changes of scale", () => {
    const list: Act[] = [
      { do: "setRate", rate: 1 },
      { do: "allow", cost: 1 },
      { do: "setRate", rate: 2e9 },
      { do: "pass", ns: 100_000 },
      { do: "setRate", rate: perDay(1) },
      { do: "setBurst", burst: MAX_COST },
      { do: "allow", cost: 200_002 },
    ];
    expect(follow({ rate: 0, burst: 1 }, "alice", list)).toBe(1);
  });

  it("is broken by a limiter that admits one token too many", () => {
    const generous: Wrap = (limiter) =>
      changed(
        limiter,
        "allow",
        (key, cost) => limiter.allow(key, cost) || (limiter.peek(key, 0).remaining + 1 >= cost! && cost! > 0),
      );
    const list: Act[] = [{ do: "allow", cost: 10 }, { do: "pass", ns: 1e9 }, { do: "allow", cost: 3 }];
    expect(follow({ rate: 2, burst: 10 }, "k", list)).toBe(10);
    expect(() => follow({ rate: 2, burst: 10 }, "k", list, generous)).toThrow(/admitted 13, 1 tokens too many/);
  });
});

describe("an exact boundary", () => {
  const boundaries: [rate: number, waitMs: number, tokens: number][] = [
    [10, 100, 1],
    [1000, 1, 1],
    [1, 1000, 1],
    [8, 125, 1],
    [3, 1000, 3],
    [7, 1000, 7],
    [0.1, 10_000, 1],
    [0.3, 10_000, 3],
    [1e9, 1e-6, 1],
    [3e9, 1e-6, 3],
    [2e9, 1e-6, 2],
    [perMinute(1), 60_000, 1],
    [perMinute(7), 60_000, 7],
    [perHour(1), 3_600_000, 1],
    [perDay(1), 86_400_000, 1],
    [perDay(1000), 86_400, 1],
    [every(3), 3, 1],
    [every(250), 250, 1],
  ];

  it.each(boundaries)(
    "admits: at %d tokens/s, %d ms bring %d tokens, and slightly less time does not",
    (rate, waitMs, tokens) => {
      const home = nextHome();
      const { clock, sluice } = home;
      for (const startMs of [0, 1, 0.000001, 12_345.678901, 86_400_000 * 10]) {
        clock.set(startMs);
        const limiter = sluice.tokenBucket(`limiter ${home.made++}`, { rate, burst: tokens });
        for (const bucket of [callsOf(limiter, "k"), limiter.global]) {
          clock.set(startMs);
          expect(bucket.allow(tokens)).toBe(true);
          // One nanosecond before is too soon; at slow rates, the time that 2^-40 tokens take.
          const little = Math.max(1e-6, (1000 / rate) * 2 ** -40);
          const { retryAfterMs } = bucket.peek(tokens);
          expect(retryAfterMs).toBeLessThanOrEqual(waitMs);
          expect(retryAfterMs).toBeGreaterThan(waitMs - little);
          clock.set(startMs + waitMs - little);
          expect(bucket.allow(tokens)).toBe(false);
          clock.set(startMs + waitMs);
          expect(bucket.allow(tokens)).toBe(true);
          expect(bucket.peek(0).remaining).toBe(0);
        }
      }
    },
  );
});
