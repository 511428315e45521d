// What a wait that fails says, and which of several reasons comes first.

import { describe, expect, it } from "vitest";
import { crowded, passed, type Refusal, refused } from "../../../src/engine/waiting/refusal.js";

const base: Refusal = { limiter: "user", cost: 3, maxCost: 10, delayMs: 250, timeoutMs: 100, isQueue: false };

describe("the error of a refused wait", () => {
  it.each<[string, Partial<Refusal>, string, string, number]>([
    [
      "beyond the timeout",
      {},
      "ERR_SLUICE_TIMEOUT",
      "timed out: 3 tokens of \"user\" are 250 ms away, timeoutMs is 100",
      250,
    ],
    [
      "for one token",
      { cost: 1, delayMs: 99.99999999 },
      "ERR_SLUICE_TIMEOUT",
      "timed out: 1 token of \"user\" is 100 ms away, timeoutMs is 100",
      99.99999999,
    ],
    [
      "above the burst, whatever else applies",
      { cost: 11, delayMs: Infinity, isQueue: true, isTableFull: true },
      "ERR_SLUICE_COST_ABOVE_BURST",
      "never: 11 tokens of \"user\" are more than its burst of 10",
      Infinity,
    ],
    [
      "at rate 0",
      { delayMs: Infinity, timeoutMs: Infinity, isQueue: true },
      "ERR_SLUICE_NEVER",
      "never: \"user\" has rate 0 and fewer than 3 tokens",
      Infinity,
    ],
    [
      "within the timeout of a queue",
      { timeoutMs: 250, isQueue: true },
      "ERR_SLUICE_QUEUE_FULL",
      "queue full: \"user\" has no place for 3 more",
      250,
    ],
    [
      "beyond the timeout of a queue",
      { isQueue: true },
      "ERR_SLUICE_TIMEOUT",
      "timed out: 3 tokens of \"user\" are 250 ms away, timeoutMs is 100",
      250,
    ],
    [
      "of a key without a slot",
      { isTableFull: true },
      "ERR_SLUICE_TABLE_FULL",
      "table full: no slot for a new key of \"user\", and the table evicts none",
      250,
    ],
    [
      "without a timeout",
      { timeoutMs: Infinity, delayMs: 2e15 },
      "ERR_SLUICE_NEVER",
      "never: 3 tokens of \"user\" are 2000000000000000 ms away, further than a bucket can promise",
      2e15,
    ],
  ])("%s", (_, own, code, message, retryAfterMs) => {
    const refusal = { ...base, ...own };
    expect(refused(refusal)).toMatchObject({ code, message, limiter: "user", cost: refusal.cost, retryAfterMs });
  });

  it("that finds too many waiters, or whose deadline passes while it waits, says so", () => {
    expect(crowded("user", 3, 5, 5)).toMatchObject({
      code: "ERR_SLUICE_TOO_MANY_WAITERS",
      message: "too many waiters: 5 wait for this key of \"user\", maxWaiters is 5",
      limiter: "user",
      cost: 3,
    });
    expect(passed("user", 3, 40)).toMatchObject({
      code: "ERR_SLUICE_TIMEOUT",
      message: "timed out: the rate of \"user\" was lowered during the wait; the tokens went back",
      limiter: "user",
      cost: 3,
      retryAfterMs: 40,
    });
  });
});
