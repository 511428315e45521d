// Leased tokens by the kernel's own calls, in a table whose clock is moved by hand.

import { define, Sluice } from "../../../src/engine/limiter/sluice.js";
import { ManualClock } from "../../../src/engine/manual-clock.js";
import type { Policy } from "../../../src/engine/policy/policy.js";
import { type Key, putKey } from "../../../src/engine/table/key.js";

/** How long an ask may stay without an answer. */
export const HOLD_MS = 250;

/** Leases of a policy in a table whose clock is moved by hand. */
export class Leases {
  readonly clock: ManualClock;
  readonly sluice: Sluice;
  readonly policy: Policy;

  constructor({ capacity = 1000, startMs = 0, whenFull = "evict" as "evict" | "deny" | "allow" } = {}) {
    this.clock = new ManualClock(startMs);
    this.sluice = Sluice.create({ capacity, clock: this.clock, whenFull });
    this.policy = define(this.sluice, "leases", "lease", { rate: 1, burst: 1, extra: HOLD_MS * 1e6 });
  }

  #select(key: Key | undefined): number {
    const { table, record } = this.policy;
    if (key === undefined) return table.at.GLOBAL;
    putKey(table, record, key);
    return 0;
  }

  take(key: Key | undefined, cost = 1): number {
    const { table, record } = this.policy;
    if (typeof key === "number") return table.kernel.takeNumber(record, key, cost, 1, -1);
    return table.kernel.take(record, this.#select(key), cost, 1, -1);
  }

  deposit(key: Key | undefined, tokens: number, endMs: number, as = 0): number {
    const { table, record } = this.policy;
    return table.kernel.deposit(record, this.#select(key), tokens, endMs, as, this.clock.nowMs);
  }

  takeBack(key: Key | undefined): number {
    const { table, record } = this.policy;
    return table.kernel.takeBack(record, this.#select(key), this.clock.nowMs);
  }

  look(key: Key | undefined): { state: number; left: number; untilEndMs: number } {
    const { table, record } = this.policy;
    const state = table.kernel.leased(record, this.#select(key), this.clock.nowMs);
    return { state, left: table.scratch.remaining, untilEndMs: table.scratch.resetNs / 1e6 };
  }
}
