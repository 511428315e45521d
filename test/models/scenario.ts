// What may happen to limiters that share a table: random limits, and steps of every kind.

import fc from "fast-check";
import { every, type Key, perDay, perHour, perMinute, perSecond } from "sluice";

export const MAX_COST = 2 ** 31 - 1;
export const YEAR_NS = 31_557_600n * 1_000_000_000n;
/** A run ends before its clock does, which lasts thirty years. */
export const LATEST_NS = 29n * YEAR_NS;
/** Up to here, sums of milliseconds in doubles are exact to the nanosecond. */
export const EXACT_NS = 2n ** 50n;
/** Half a unit for rounding, and an eighth for the error of the multiplier over thirty years. */
export const READING = 0.5 + 1 / 8;
/** Tokens that a word may run ahead of its clock under every scale. */
export const MAX_AHEAD = 2 ** 16;

export const KEYS: readonly (Key | undefined)[] = ["alice", 7, 10n ** 20n, Uint8Array.of(1, 2), "š", undefined];

/** Tokens; in an array, how many more than there are now. */
export type Cost = number | [more: number];
/** Nanoseconds; in an array, how many more than the wait takes. */
export type Wait = number | [more: number] | "default";
/** A bucket: its number among all keys of all limiters. */
export type On = number;

export type Step =
  | { do: "allow" | "consume" | "peek" | "charge" | "refund"; on: On; cost: Cost; by?: "handle" }
  | { do: "allowMany"; on: On; keys: number[]; cost: Cost }
  | { do: "reserve"; on: On; cost: Cost; maxWait: Wait }
  | { do: "cancel"; which: number }
  | { do: "reset"; on: On }
  | { do: "setRate"; on: On; rate: number }
  | { do: "setBurst"; on: On; burst: number }
  | { do: "pass"; ns: number }
  | { do: "passUntil"; on: On; cost: Cost; more: number }
  | { do: "goBack"; ns: number };

export interface Scenario {
  startNs: number;
  limiters: { rate: number; burst: number }[];
  steps: Step[];
}

export const rates = fc.oneof(
  fc.constantFrom(
    0,
    Infinity,
    0.1,
    1,
    3,
    10,
    1000,
    1e6,
    1e9,
    3e9,
    2e9,
    1e-9,
    perDay(1),
    perHour(7),
    perMinute(1),
    every(3),
  ),
  fc.integer({ min: 1, max: 1000 }).chain((n) =>
    fc.constantFrom(perSecond(n), perMinute(n), perHour(n), perDay(n), every(n))
  ),
  fc.double({ min: -9, max: 9.5, noNaN: true }).map((power) => Math.min(3e9, Math.max(1e-9, 10 ** power))),
  fc.integer({ min: 1, max: 3_000_000_000 }),
);

export const bursts = fc.oneof(fc.constantFrom(0, 1, 2, 10, 1000, MAX_COST), fc.nat(100), fc.nat(MAX_COST));

export const costs: fc.Arbitrary<Cost> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(0, 1, 1, 1, 2, MAX_COST) },
  { weight: 1, arbitrary: fc.nat(100) },
  { weight: 3, arbitrary: fc.tuple(fc.integer({ min: -2, max: 1 })) },
);

export const spans = fc.tuple(fc.integer({ min: 1, max: 999 }), fc.nat(15)).map(([n, power]) => n * 10 ** power);
export const ons = fc.nat(17);
export const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom("allow", "consume", "peek"),
      on: ons,
      cost: costs,
      by: fc.constantFrom(undefined, "handle"),
    }, { requiredKeys: ["do", "on", "cost"] }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("charge", "refund"), on: ons, cost: costs }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("allowMany"),
      on: ons,
      keys: fc.array(fc.nat(4), { maxLength: 40 }),
      cost: costs,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("reserve"),
      on: ons,
      cost: costs,
      maxWait: fc.oneof(fc.constant("default"), fc.constant(0), spans, fc.tuple(fc.integer({ min: -2, max: 2 }))),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("cancel"), which: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("reset"), on: ons }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("setRate"), on: ons, rate: rates }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("setBurst"), on: ons, burst: bursts }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pass"), ns: spans }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("passUntil"), on: ons, cost: costs, more: fc.integer({ min: -2, max: 1 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("goBack"), ns: spans }) },
) as fc.Arbitrary<Step>;

export const scenarios: fc.Arbitrary<Scenario> = fc.record({
  startNs: fc.oneof(fc.constant(0), spans.map((ns) => ns % 2 ** 50)),
  limiters: fc.array(fc.record({ rate: rates, burst: bursts }), { minLength: 1, maxLength: 3 }),
  steps: fc.array(steps, { maxLength: 80, size: "max" }),
});

/** FUZZ_RUNS sets the number of runs, FUZZ_SEED repeats one that failed. */
export const parameters = {
  numRuns: Number(process.env.FUZZ_RUNS ?? 500),
  ...(process.env.FUZZ_SEED === undefined ? {} : { seed: Number(process.env.FUZZ_SEED) }),
};
