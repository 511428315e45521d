// The waiters of a policy in a table: see turns.ts.
//
// All dueAts are in one scale, the last that was seen. When the policy has another,
// every dueAt is rescaled before anything else happens.

import { type Bucket, cancelReserved, type KeyWords, untilDue } from "../bucket/bucket.js";
import { closed } from "../errors.js";
import type { Policy } from "../policy/policy.js";
import { passed } from "./refusal.js";
import type { Claim } from "./sleep.js";
import { type Turn, Turns } from "./turns.js";

/** What a reservation took of each limit, where the kind has that. */
type Taken = Float64Array;

export class Waiters extends Turns<Taken> {
  readonly #policy: Policy;
  #version: number;
  #scale: number;

  constructor(policy: Policy) {
    super(policy.table.clock);
    this.#policy = policy;
    this.#version = policy.version;
    this.#scale = policy.scale;
    const self = new WeakRef(this);
    policy.table.onClose(() => self.deref()?.rejectAll(closed()));
  }

  /** How many wait for this bucket in this thread. */
  count(bucket: Bucket): number {
    return this.queue.lengthOf(bucket);
  }

  /**
   * Waits until a reservation may act. Rejects with the signal's reason, or with ERR_SLUICE_TIMEOUT at
   * the deadline.
   */
  add(
    bucket: Bucket,
    cost: number,
    { dueAt: claimed, delayMs }: Claim,
    nowMs: number,
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    this.refresh();
    // Of a claim in an older scale only the time may be known.
    const dueAt = claimed.scale === this.#scale ? claimed : bucket.untilDue(claimed, nowMs)?.dueAt;
    const { dueAtLow = 0, dueAtHigh = 0, taken } = dueAt ?? {};
    return this.enqueue(
      bucket,
      cost,
      { dueAtMs: nowMs + delayMs, dueAtLow, dueAtHigh, reserved: taken },
      deadlineMs,
      signal,
    );
  }

  /** Brings every dueAt and time to the policy's present version. */
  protected override refresh(): void {
    const policy = this.#policy;
    if (policy.version === this.#version) return;
    const scale = this.#scale;
    this.#version = policy.version;
    this.#scale = policy.scale;
    const { queue } = this;
    for (const row of [...queue]) {
      const nowMs = policy.table.clock.now();
      const dueAt = { dueAtLow: queue.dueAtLow[row], dueAtHigh: queue.dueAtHigh[row], scale, taken: undefined };
      const known = this.#isKnown(row) ? untilDue(policy, dueAt, nowMs) : undefined;
      // If its scale is too old, the last known time stands.
      if (known) queue.dueAtMs[row] = nowMs + known.ns / 1e6;
      queue.dueAtLow[row] = known?.dueAt.dueAtLow ?? 0;
      queue.dueAtHigh[row] = known?.dueAt.dueAtHigh ?? 0;
      queue.replace(row);
    }
  }

  protected override leftMs(row: number, nowMs: number): number {
    const { dueAtMs, dueAtLow, dueAtHigh } = this.queue;
    if (!this.#isKnown(row)) return Math.max(0, dueAtMs[row] - nowMs);
    const { kernel } = this.#policy.table;
    return kernel.untilDueAt(this.#policy.record, dueAtLow[row], dueAtHigh[row], nowMs) / 1e6;
  }

  protected override giveBack(key: KeyWords, cost: number, { dueAtLow, dueAtHigh, reserved }: Turn<Taken>): void {
    if ((dueAtLow | dueAtHigh) === 0) return;
    const dueAt = { dueAtLow, dueAtHigh, scale: this.#scale, taken: reserved };
    cancelReserved(this.#policy, key, cost, dueAt, this.#policy.table.clock.now());
  }

  protected override overdue(row: number, nowMs: number): unknown {
    const { cost, dueAtMs } = this.queue;
    return passed(this.#policy.name, cost[row], dueAtMs[row] - nowMs);
  }

  #isKnown(row: number): boolean {
    return (this.queue.dueAtLow[row] | this.queue.dueAtHigh[row]) !== 0;
  }
}
