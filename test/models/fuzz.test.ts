// Random operations against limiters that share one table, judged step by step by the exact model (run.ts).

import fc from "fast-check";
import { describe, it } from "vitest";
import { closeHome, play } from "./run.js";
import { parameters, type Scenario, scenarios } from "./scenario.js";

/** Scenarios that failed once, the shortest known; run first. */
const failed: Record<string, Scenario> = {
  "a key that was reset is full under a larger burst too": {
    startNs: 0,
    limiters: [{ rate: 1, burst: 2 }],
    steps: [{ do: "allow", on: 0, cost: 2 }, { do: "reset", on: 0 }, { do: "setBurst", on: 0, burst: 3 }, {
      do: "peek",
      on: 0,
      cost: 3,
    }],
  },
  "a reservation from before an infinite rate gives nothing back": {
    startNs: 0,
    limiters: [{ rate: 1000, burst: 10 }],
    steps: [
      { do: "setRate", on: 0, rate: Infinity },
      { do: "setRate", on: 0, rate: 10 },
      { do: "setRate", on: 0, rate: Infinity },
      { do: "setRate", on: 0, rate: 10 },
      { do: "allow", on: 0, cost: 10 },
      { do: "reserve", on: 0, cost: 5, maxWait: "default" },
      { do: "setRate", on: 0, rate: Infinity },
      { do: "setRate", on: 0, rate: 10 },
      { do: "allow", on: 0, cost: 10 },
      { do: "cancel", which: 0 },
      { do: "peek", on: 0, cost: 1 },
    ],
  },
  "a cancel after three changes of scale gives back nothing that was reserved again": {
    startNs: 0,
    limiters: [{ rate: 1, burst: 5 }],
    steps: [
      { do: "allow", on: 0, cost: 5 },
      { do: "reserve", on: 0, cost: 5, maxWait: "default" },
      { do: "reserve", on: 0, cost: 5, maxWait: "default" },
      { do: "pass", ns: 1 },
      { do: "setRate", on: 0, rate: 1000 },
      { do: "setRate", on: 0, rate: 1 },
      { do: "setRate", on: 0, rate: 1000 },
      { do: "cancel", which: 0 },
      { do: "peek", on: 0, cost: 0 },
    ],
  },
  "a reservation made before the clock begins can be cancelled until it may act": {
    startNs: 10_000_000_000,
    limiters: [{ rate: 1, burst: 1 }],
    steps: [
      { do: "goBack", ns: 5_000_000_000 },
      { do: "allow", on: 0, cost: 1 },
      { do: "reserve", on: 0, cost: 1, maxWait: "default" },
      { do: "pass", ns: 2_000_000_000 },
      { do: "cancel", which: 0 },
    ],
  },
  "a key used 28 years from now is empty now": {
    startNs: 0,
    limiters: [{ rate: 3e9, burst: 1 }],
    steps: [
      { do: "pass", ns: 900 * 10 ** 15 },
      { do: "allow", on: 0, cost: 1 },
      { do: "goBack", ns: 900 * 10 ** 15 },
      { do: "consume", on: 0, cost: 1 },
    ],
  },
  "a rate that is doubled in the same scale is twice the rate": {
    startNs: 0,
    limiters: [{ rate: 1000, burst: 10_000 }],
    steps: [
      { do: "allow", on: 0, cost: 10_000 },
      { do: "setRate", on: 0, rate: 2000 },
      { do: "pass", ns: 1e9 },
      { do: "allow", on: 0, cost: 2000 },
      { do: "peek", on: 0, cost: 1 },
    ],
  },
  "a key left full by an infinite rate is full under a larger burst, two scales later": {
    startNs: 0,
    limiters: [{ rate: 0, burst: 1 }],
    steps: [
      { do: "allow", on: 0, cost: 1 },
      { do: "setRate", on: 0, rate: Infinity },
      { do: "setRate", on: 0, rate: 1 },
      { do: "setRate", on: 0, rate: 0 },
      { do: "setBurst", on: 0, burst: 131_073 },
      { do: "peek", on: 0, cost: 131_073 },
    ],
  },
  "time beyond 52 days has its nanoseconds": {
    startNs: 0,
    limiters: [{ rate: 1, burst: 1 }],
    steps: [
      { do: "pass", ns: 4_510_000_000_000_000 },
      { do: "charge", on: 0, cost: 1 },
      { do: "pass", ns: 999_999_999 },
      { do: "peek", on: 0, cost: 1 },
      { do: "pass", ns: 1 },
      { do: "peek", on: 0, cost: 1 },
    ],
  },
};

describe("limiters that share a table", () => {
  it.each(Object.entries(failed))("pass what failed once: %s", (_, scenario) => play(scenario));

  it("decide as the exact model does, within the rounding of their clocks", () => {
    fc.assert(fc.property(scenarios, (scenario) => play(scenario)), parameters);
    closeHome();
  });
});
