// What a Sluice reports about its table: counts, and what an audit finds.

import { add, audit, type AuditCounts, countsOf, type LimiterStats, liveKeysOf, zeros } from "../table/counters.js";
import type { Policies } from "./policies.js";

/** Counts of all limiters together, over all threads, since the table was made. */
export interface SluiceStats extends LimiterStats {
  /** The same counts for each limiter, by its name. */
  limiters: Record<string, LimiterStats>;
  /** Keys that the table has room for. */
  capacity: number;
  /** Threads that are attached now. */
  threads: number;
}

/** What a walk through the table finds. */
export interface AuditReport extends AuditCounts {
  /** True if `busy`, `torn`, `doubles`, `strangers` and `locksHeld` are all 0. */
  clean: boolean;
  /** Keys in use, those that are not fresh, for each limiter by its name. */
  live: Record<string, number>;
}

/** @internal */
export function statsOf(policies: Policies): SluiceStats {
  const { table } = policies;
  const limiters: Record<string, LimiterStats> = Object.create(null);
  const sum = zeros();
  for (const { name, number, kind } of policies.all()) {
    const own = countsOf(table, number);
    add(sum, own);
    if (!kind.isLimitOfSeveral) limiters[name] = own;
  }
  return { ...sum, limiters, capacity: table.header.capacity, threads: table.threads.attached };
}

/** @internal */
export function auditOf(policies: Policies): AuditReport {
  const { table } = policies;
  const counts = audit(table);
  const live: Record<string, number> = Object.create(null);
  for (const { name, number, kind } of policies.all()) {
    if (!kind.isLimitOfSeveral) live[name] = liveKeysOf(table, number);
  }
  const { busy, torn, doubles, strangers, locksHeld } = counts;
  return { clean: busy + torn + doubles + strangers + locksHeld === 0, ...counts, live };
}
