// The judge of the fuzz test, judged: every fault of a limiter is noticed.

import type { Decision, Reservation } from "sluice";
import { describe, expect, it } from "vitest";
import { changed } from "./faults.js";
import { home, play, type Wrap } from "./run.js";
import type { Scenario, Step } from "./scenario.js";

describe("the comparison", () => {
  const decision = (change: (decision: Decision) => Partial<Decision>): Wrap => (limiter) =>
    changed(limiter, "consume", (key, cost) => {
      const answer = limiter.consume(key, cost);
      return { ...answer, ...change(answer) };
    });
  const reserve = (change: (reservation: Reservation) => Partial<Reservation>): Wrap => (limiter) =>
    changed(limiter, "reserve", (key, cost, options) => {
      const { granted, delayMs, cancel, [Symbol.dispose]: dispose } = limiter.reserve(key, cost, options);
      const answer: Reservation = { granted, delayMs, cancel, [Symbol.dispose]: dispose };
      return { ...answer, ...change(answer) };
    });
  const use: Step = { do: "allow", on: 0, cost: 1 };
  const consume: Step = { do: "consume", on: 0, cost: 1 };

  const faults: [fault: string, seen: RegExp, wrap: Wrap, steps: Step[]][] = [
    ["refuses what is there", /refused with 0 tokens to spare/, (limiter) => changed(limiter, "allow", () => false), [
      use,
    ]],
    [
      "admits without tokens",
      /granted with -1 tokens to spare/,
      (limiter) => changed(limiter, "allow", () => true),
      [use, use],
    ],
    [
      "admits a nanosecond too soon",
      /granted with -1(\.\d+)?e-8 tokens/,
      (limiter) =>
        changed(limiter, "allow", (key, cost) => {
          const { nowMs } = home.clock;
          if (nowMs > 0) home.clock.advance(1e-6);
          const is = limiter.allow(key, cost);
          home.clock.set(nowMs);
          return is;
        }),
      [use, { do: "passUntil", on: 0, cost: 1, more: -1 }, use],
    ],
    ["admits by going back", /granted with -\d/, (limiter) => {
      let latestMs = 0;
      return changed(limiter, "allow", (key, cost) => {
        if (home.clock.nowMs < latestMs) limiter.reset(key);
        latestMs = home.clock.nowMs;
        return limiter.allow(key, cost);
      });
    }, [{ do: "pass", ns: 1000 }, use, { do: "goBack", ns: 1 }, use]],
    [
      "takes on a peek",
      /peek.* wrote to the table/,
      (limiter) => changed(limiter, "peek", limiter.consume.bind(limiter)),
      [{ do: "peek", on: 0, cost: 1 }],
    ],
    ["takes when it refuses", /consume.* wrote to the table/, (limiter) =>
      changed(limiter, "consume", (key, cost) => {
        const answer = limiter.consume(key, cost);
        if (!answer.allowed) limiter.charge(key, 1);
        return answer;
      }), [use, consume]],
    ["says that more remains", /remaining 1$/, decision(({ remaining }) => ({ remaining: remaining + 1 })), [consume]],
    ["says a fraction remains", /remaining 0.5 is not an integer/, decision(() => ({ remaining: 0.5 })), [consume]],
    ["says another limit", /limit 2 is not 1/, decision(() => ({ limit: 2 })), [consume]],
    ["says that it was refused for no time", /retryAfterMs 0 though/, decision(() => ({ retryAfterMs: 0 })), [
      use,
      consume,
    ]],
    [
      "answers a retryAfterMs that is a nanosecond short",
      /would still be refused/,
      decision(({ retryAfterMs }) => ({ retryAfterMs: retryAfterMs - 1e-6 })),
      [use, consume],
    ],
    [
      "answers a retryAfterMs that is a nanosecond long",
      /would be granted before/,
      decision(({ retryAfterMs }) => ({ retryAfterMs: retryAfterMs + 1e-6 })),
      [use, consume],
    ],
    ["says \"never\" for \"not yet\"", /retryAfterMs is Infinity/, decision(() => ({ retryAfterMs: Infinity })), [
      use,
      consume,
    ]],
    ["says a wrong time to be full", /resetMs is/, decision(({ resetMs }) => ({ resetMs: resetMs + 3e-6 })), [consume]],
    ["forgets a charge", /granted with -1 tokens/, (limiter) => changed(limiter, "charge", () => {}), [{
      do: "charge",
      on: 0,
      cost: 1,
    }, use]],
    [
      "refunds twice",
      /granted with -1 tokens/,
      (limiter) => changed(limiter, "refund", (key, cost) => limiter.refund(key, 2 * cost!)),
      [use, { do: "charge", on: 0, cost: 1 }, { do: "refund", on: 0, cost: 1 }, use],
    ],
    ["forgets a reset", /refused with 0 tokens/, (limiter) => changed(limiter, "reset", () => {}), [use, {
      do: "reset",
      on: 0,
    }, use]],
    [
      "admits every key of a batch",
      /allowMany, key 1, .* granted/,
      (limiter) => changed(limiter, "allowMany", (keys) => new Uint8Array(keys.length).fill(1)),
      [{ do: "allowMany", on: 0, keys: [0, 0], cost: 1 }],
    ],
    [
      "grants a wait that is too long",
      /granted though late/,
      (limiter) => changed(limiter, "reserve", (key, cost) => limiter.reserve(key, cost)),
      [use, { do: "reserve", on: 0, cost: 1, maxWait: [-2] }],
    ],
    ["says a wrong delay", /delayMs is/, reserve(({ delayMs }) => ({ delayMs: delayMs + 3e-6 })), [use, {
      do: "reserve",
      on: 0,
      cost: 1,
      maxWait: 1e10,
    }]],
    ["cancels twice", /given back before/, reserve(() => ({ cancel: () => true })), [
      use,
      { do: "reserve", on: 0, cost: 1, maxWait: 1e10 },
      { do: "cancel", which: 0 },
      { do: "cancel", which: 0 },
    ]],
    ["cancels too late", /gave tokens back, \d+ ns late/, reserve(() => ({ cancel: () => true })), [
      use,
      { do: "reserve", on: 0, cost: 1, maxWait: 1e10 },
      { do: "passUntil", on: 0, cost: 1, more: 1 },
      { do: "cancel", which: 0 },
    ]],
    ["does not cancel", /gave nothing back/, reserve(() => ({ cancel: () => false })), [use, {
      do: "reserve",
      on: 0,
      cost: 1,
      maxWait: 1e10,
    }, { do: "cancel", which: 0 }]],
    ["forgets a new rate", /expected 10 to be 20/, (limiter) => changed(limiter, "setRate", () => {}), [{
      do: "setRate",
      on: 0,
      rate: 20,
    }]],
  ];

  it.each(faults)("notices a limiter that %s", (_, seen, wrap, list) => {
    const scenario: Scenario = { startNs: 0, limiters: [{ rate: 10, burst: 1 }], steps: list };
    play(scenario);
    expect(() => play(scenario, wrap)).toThrow(seen);
  });

  it("notices an infinite rate that refuses", () => {
    const scenario: Scenario = { startNs: 0, limiters: [{ rate: Infinity, burst: 0 }], steps: [use] };
    play(scenario);
    expect(() => play(scenario, (limiter) => changed(limiter, "allow", () => false))).toThrow(
      /refused by an infinite rate/,
    );
  });
});
