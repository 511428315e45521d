// Counters: each thread has its own for every policy, and any thread may read and
// sum them. Also the findings of an audit.

import type { KernelNumbers } from "./kernel.js";
import type { Table } from "./table.js";

export interface LimiterStats {
  /** Calls that were admitted. */
  allowed: number;
  /** Calls that were refused. */
  denied: number;
  /** Keys that lost their slot before they were fresh. */
  evicted: number;
  /** Decisions that had to be made again because another thread came first. */
  contended: number;
  /** New keys that were refused because the table was full. */
  fullDenied: number;
  /** New keys that were admitted uncharged because the table was full. */
  fullAllowed: number;
  /** Slots given to keys. */
  claimed: number;
  /** Calls that a limiter in shadow mode admitted and would have refused. */
  shadowed: number;
}

const counters: Readonly<Record<keyof LimiterStats, keyof KernelNumbers>> = {
  allowed: "COUNTERS_ALLOWED",
  denied: "COUNTERS_DENIED",
  evicted: "COUNTERS_EVICTED",
  contended: "COUNTERS_CONTENDED",
  fullDenied: "COUNTERS_FULL_DENIED",
  fullAllowed: "COUNTERS_FULL_ALLOWED",
  claimed: "COUNTERS_CLAIMED",
  shadowed: "COUNTERS_SHADOWED",
};
const names = Object.keys(counters) as (keyof LimiterStats)[];

/** @internal */
export function zeros(): LimiterStats {
  return { allowed: 0, denied: 0, evicted: 0, contended: 0, fullDenied: 0, fullAllowed: 0, claimed: 0, shadowed: 0 };
}

/** @internal */
export function add(sum: LimiterStats, more: LimiterStats): void {
  for (const name of names) sum[name] += more[name];
}

/** @internal Counts of policy `number` over all threads, living and ended. */
export function countsOf({ at, longs, threads }: Table, number: number): LimiterStats {
  const sum = zeros();
  for (let thread = 0; thread < threads.count; thread++) {
    const from = at.THREADS + thread * at.THREAD_BYTES + at.SCRATCH_COUNTERS + number * at.COUNTERS_BYTES;
    for (const name of names) sum[name] += Number(longs[(from + at[counters[name]]) / 8]);
  }
  return sum;
}

/** @internal One of this thread's counters of a policy. */
export class Counter {
  readonly #table: Table;
  readonly #index: number;

  constructor(table: Table, number: number, name: keyof LimiterStats) {
    this.#table = table;
    this.#index = (table.scratch.statsAt(number) + table.at[counters[name]]) / 8;
  }

  get value(): number {
    return Number(this.#table.longs[this.#index]);
  }

  add(more: number): void {
    this.#table.longs[this.#index] += BigInt(more);
  }
}

export interface AuditCounts {
  /** Slots that hold a key. */
  used: number;
  /** Used slots whose key is fresh. */
  fresh: number;
  slots: number;
  /** Slots in the middle of a claim; 0 in a table at rest. */
  busy: number;
  /** Words that cannot be. */
  torn: number;
  /** Keys with two slots. */
  doubles: number;
  /** Keys of policies that do not exist. */
  strangers: number;
  /** Locks that a thread holds. */
  locksHeld: number;
}

/** @internal Walks the table, about 10 ns a slot. */
export function audit({ kernel, scratch, clock, header, at }: Table): AuditCounts {
  kernel.audit(clock.now());
  return {
    used: scratch.auditCount(at.AUDIT_USED),
    fresh: scratch.auditCount(at.AUDIT_FRESH),
    slots: header.slotCount,
    busy: scratch.auditCount(at.AUDIT_BUSY),
    torn: scratch.auditCount(at.AUDIT_TORN),
    doubles: scratch.auditCount(at.AUDIT_DOUBLES),
    strangers: scratch.auditCount(at.AUDIT_STRANGERS),
    locksHeld: scratch.auditCount(at.AUDIT_LOCKS),
  };
}

/** @internal Keys of policy `number` that are not fresh, as the last audit of this thread found. */
export function liveKeysOf({ at, unsigned, scratch }: Table, number: number): number {
  return unsigned[(scratch.statsAt(number) + at.COUNTERS_LIVE) / 4];
}
