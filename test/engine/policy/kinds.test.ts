// The table of kinds: what a definition, a policy's record and an error take from it.

import { describe, expect, it } from "vitest";
import { Sluice } from "../../../src/engine/limiter/sluice.js";
import { ManualClock } from "../../../src/engine/manual-clock.js";
import { kindOf, kinds, type PolicyKind } from "../../../src/engine/policy/kinds.js";
import { kernelConstants } from "../../../src/engine/table/kernel.js";

describe("the kinds", () => {
  it("are found by their numbers, which have no gap", () => {
    Object.values(kinds).forEach((kind, i) => {
      expect(kind.number, kind.name).toBe(i);
      expect(kindOf(i)).toBe(kind);
      expect(kinds[kind.name]).toBe(kind);
    });
    expect(kindOf(Object.keys(kinds).length)).toBeUndefined();
  });

  it("differ in algorithm or flags, unless their arithmetic is the same", () => {
    const { at } = kernelConstants();
    const groups = new Map<string, string[]>();
    for (const { name, algorithm, flags } of Object.values(kinds)) {
      const known = `${at[algorithm]} ${flags.reduce((or, flag) => or | at[flag], 0)}`;
      groups.set(known, [...(groups.get(known) ?? []), name]);
    }
    const shared = [...groups.values()].filter(({ length }) => length > 1);
    expect(shared).toEqual([["tokenBucket", "leakyBucket", "limit"]]);
  });

  it("that a limiter can have are defined by options that say which kind they mean", () => {
    const examples: Partial<Record<PolicyKind, () => string>> = {
      tokenBucket: () => kinds.tokenBucket.read({ rate: 1, burst: 1 }).kind,
      limits: () => kinds.limits.read({ limits: [{ rate: 1, burst: 1 }] }).kind,
      leakyBucket: () => kinds.leakyBucket.read({ rate: 1, burst: 1 }).kind,
      leakyQueue: () => kinds.leakyQueue.read({ rate: 1, queue: 1 }).kind,
      fixedWindow: () => kinds.fixedWindow.read({ limit: 1, windowMs: 1 }).kind,
      slidingWindow: () => kinds.slidingWindow.read({ limit: 1, windowMs: 1 }).kind,
      slottedWindow: () => kinds.slottedWindow.read({ limit: 1, windowMs: 1, slots: 2 }).kind,
      warmUp: () => kinds.warmUp.read({ rate: 1, warmupMs: 1 }).kind,
    };
    const public_ = Object.values(kinds).filter(({ hasLimiter }) => hasLimiter).map(({ name }) => name);
    expect(Object.keys(examples).sort()).toEqual(public_.sort());
    for (const [kind, read] of Object.entries(examples)) expect(read!()).toBe(kind);
  });
});

describe("options of a definition", () => {
  it.each([
    [
      () => kinds.tokenBucket.read({ rate: 1, brust: 1 } as never),
      "\"options\" has no option \"brust\"; did you mean \"burst\"?",
    ],
    [
      () => kinds.tokenBucket.read({ limits: [{ rate: 1, burst: 1, queue: 1 } as never] }),
      "\"limits[0]\" has no option \"queue\"",
    ],
    [() => kinds.leakyBucket.read({ rate: 1, que: 1 } as never), "did you mean \"queue\"?"],
    [() => kinds.fixedWindow.read({ limit: 1, windowMS: 1 } as never), "did you mean \"windowMs\"?"],
    [() => kinds.fixedWindow.read({ limit: 1, windowMs: 1, slots: 2 } as never), "has no option \"slots\""],
    [() => kinds.slidingWindow.read({ limit: 1, windowMs: 1, slot: 2 } as never), "did you mean \"slots\"?"],
    [() => kinds.warmUp.read({ rate: 1, warmUpMs: 1 } as never), "did you mean \"warmupMs\"?"],
    [
      () => kinds.tokenBucket.read({ rate: 1, burst: 1, tiers: { gold: { Rate: 2 } as never } }),
      "\"tiers.gold\" has no option \"Rate\"; did you mean \"rate\"?",
    ],
    [
      () => kinds.fixedWindow.read({ limit: 1, windowMs: 1, tiers: { gold: { align: "wall" } as never } }),
      "\"tiers.gold\" has no option \"align\"",
    ],
    [
      () => kinds.tokenBucket.read({ rate: 1, burst: 1, tiers: null as never }),
      "\"tiers\" expected an object, got null",
    ],
  ])("name the unknown one and the nearest known one: %#", (read, message) => {
    expect(read).toThrow(TypeError);
    expect(read).toThrow(message);
  });
});

describe("a policy that exists with other options", () => {
  it("is described in the options of its kind", () => {
    const sluice = Sluice.create({ capacity: 10, clock: new ManualClock() });
    const message = (define: () => unknown): string => {
      try {
        define();
      } catch (error) {
        return (error as Error).message;
      }
      throw new Error("nothing was thrown");
    };
    const defines: Record<string, () => unknown> = {
      "tokenBucket { rate: 2, burst: 3 }": () => sluice.tokenBucket("p", { rate: 2, burst: 3 }),
      "tokenBucket { rate: 2, burst: 3, shadow: true }": () =>
        sluice.tokenBucket("p", { rate: 2, burst: 3, shadow: true }),
      "leakyQueue { rate: 2, burst: 1, queue: 9 }": () => sluice.leakyBucket("p", { rate: 2, queue: 9 }),
      "fixedWindow { limit: 5, windowMs: 1000 }": () => sluice.fixedWindow("p", { limit: 5, windowMs: 1000 }),
      "slidingWindow { limit: 5, windowMs: 1000 }": () => sluice.slidingWindow("p", { limit: 5, windowMs: 1000 }),
      "slottedWindow { limit: 5, slots of 250 ms }": () =>
        sluice.slidingWindow("p", { limit: 5, windowMs: 1000, slots: 4 }),
      "warmUp { rate: 2, coldFactor: 3, warmupMs: 1000 }": () => sluice.warmUp("p", { rate: 2, warmupMs: 1000 }),
    };
    sluice.tokenBucket("p", { rate: 1, burst: 1 });
    for (const [text, define] of Object.entries(defines)) {
      expect(message(define)).toContain(
        `policy "p" exists as tokenBucket { rate: 1, burst: 1 }, got ${text}; use another name`,
      );
    }
    sluice.close();
  });
});
