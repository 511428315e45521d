// The typed view of the kernel's constants.

import { expect, it } from "vitest";
import { kernelConstants } from "../../../src/engine/table/kernel.js";

const { at, wide } = kernelConstants();

it("has a number for every 32-bit constant and an unsigned bigint for every 64-bit one", () => {
  for (const [name, value] of Object.entries(at)) expect(Number.isSafeInteger(value), name).toBe(true);
  for (const [name, value] of Object.entries(wide)) {
    expect(typeof value, name).toBe("bigint");
    expect(value, name).toBeGreaterThanOrEqual(0n);
  }
});

it("does not compile with a misspelt constant", () => {
  // @ts-expect-error: there is no such number
  expect(at.POLICY_VERSON).toBeUndefined();
  // @ts-expect-error: nor such a bigint
  expect(wide.V_STRAT).toBeUndefined();
  // @ts-expect-error: a bigint is not among the numbers
  expect(at.V_START).toBeUndefined();
});
