// Those who wait. Each holds a reservation, so that its turn is settled when it
// begins to wait: first come, first served for each key. One timer a limiter.
//
// When one leaves early, those behind it on the same key move up, each taking
// the reservation of the one before it, and the last reservation is cancelled:
// so an abort gives its tokens back even from the middle of the queue. They
// move up as far as costs are equal; past that, as anywhere else, a cancel
// gives back what nobody has reserved behind it.
//
// All dueAts are of one scale, the last that was looked at: when the policy
// has another, everybody's dueAt is translated before anything else happens.

import { type Bucket, cancelReserved, untilDue } from "../bucket/bucket.js";
import { closed } from "../errors.js";
import type { Policy } from "../policy/policy.js";
import { Rows } from "./queue.js";
import { passed } from "./refusal.js";
import { type Claim, sleepMs } from "./sleep.js";

export class Waiters {
  readonly #policy: Policy;
  readonly #rows = new Rows();
  /** What few have: what a reservation took of each limit, and how to stop listening to a signal. */
  readonly #taken = new Map<number, Float64Array>();
  readonly #signals = new Map<number, () => void>();
  #timer: NodeJS.Timeout | undefined;
  #timerMs = Infinity;
  #version: number;
  #scale: number;
  #stopListening: (() => void) | undefined;

  constructor(policy: Policy) {
    this.#policy = policy;
    this.#version = policy.version;
    this.#scale = policy.scale;
    const self = new WeakRef(this);
    policy.table.onClose(() => {
      const waiters = self.deref();
      if (waiters) waiters.#end();
    });
  }

  /** Gives everybody's tokens back, the last one's first, and rejects them with ERR_SLUICE_CLOSED. */
  #end(): void {
    for (const row of this.#rows.latestFirst()) this.#leave(row, closed());
  }

  /** How many wait for this bucket in this thread. */
  count(bucket: Bucket): number {
    return this.#rows.lengthOf(bucket);
  }

  /** Waits until a reservation may act. Rejects with the signal's reason, or with ERR_SLUICE_TIMEOUT at the deadline. */
  add(
    bucket: Bucket,
    cost: number,
    claim: Claim,
    nowMs: number,
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#keepUp();
      const row = this.#rows.add(bucket, cost, nowMs + claim.delayMs, deadlineMs, resolve);
      // Of a claim from another scale only the time is known.
      const dueAt = claim.dueAt.scale === this.#scale
        ? claim.dueAt
        : bucket.untilDue(claim.dueAt, nowMs)?.dueAt;
      this.#rows.dueAtLow[row] = dueAt?.dueAtLow ?? 0;
      this.#rows.dueAtHigh[row] = dueAt?.dueAtHigh ?? 0;
      if (dueAt?.taken) this.#taken.set(row, dueAt.taken);
      if (signal) this.#listen(row, signal);
      this.#arm();
    });
  }

  #listen(row: number, signal: AbortSignal): void {
    const onAbort = (): void => this.#leave(row, signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    this.#signals.set(row, () => signal.removeEventListener("abort", onAbort));
  }

  /** Looks at everybody again: after the rate changed. */
  reconsider(): void {
    if (this.#rows.count === 0) return;
    this.#keepUp();
    this.#settleDue();
  }

  /** Brings everybody's dueAt and time to the policy's present version. */
  #keepUp(): void {
    const policy = this.#policy;
    if (policy.version === this.#version) return;
    const from = this.#scale;
    this.#version = policy.version;
    this.#scale = policy.scale;
    const { dueAtMs, dueAtLow, dueAtHigh } = this.#rows;
    for (const row of [...this.#rows]) {
      const nowMs = policy.table.clock.now();
      const known = this.#isKnown(row)
        ? untilDue(
          policy,
          { dueAtLow: dueAtLow[row], dueAtHigh: dueAtHigh[row], scale: from, taken: undefined },
          nowMs,
        )
        : undefined;
      // If its scale is too long ago to tell, the time stands that was last known.
      if (known) dueAtMs[row] = nowMs + known.ns / 1e6;
      dueAtLow[row] = known?.dueAt.dueAtLow ?? 0;
      dueAtHigh[row] = known?.dueAt.dueAtHigh ?? 0;
      this.#rows.replace(row);
    }
  }

  #isKnown(row: number): boolean {
    return (this.#rows.dueAtLow[row] | this.#rows.dueAtHigh[row]) !== 0;
  }

  #settleDue = (): void => {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerMs = Infinity;
    this.#keepUp();
    const { kernel, clock } = this.#policy.table;
    const rows = this.#rows;
    let nowMs = clock.now();
    for (let row = rows.first; row >= 0; row = rows.first) {
      if (rows.wakeMs(row) > nowMs && rows.wakeMs(row) > (nowMs = clock.now())) break;
      const ns = this.#isKnown(row)
        ? kernel.untilDueAt(this.#policy.record, rows.dueAtLow[row], rows.dueAtHigh[row], nowMs)
        : Math.max(0, (rows.dueAtMs[row] - nowMs) * 1e6);
      if (ns === 0) {
        this.#forget(row)();
      } else if (nowMs >= rows.deadlineMs[row]) {
        this.#leave(row, passed(this.#policy.name, rows.cost[row], rows.dueAtMs[row] - nowMs));
      } else {
        // Later than now, even where a ns is less than the clock's double can tell.
        rows.dueAtMs[row] = nowMs + Math.max(ns / 1e6, nowMs * 2 ** -51);
        rows.replace(row);
      }
    }
    this.#arm();
  };

  #arm(): void {
    const first = this.#rows.first;
    const { clock } = this.#policy.table;
    if (first < 0) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#timerMs = Infinity;
      this.#stopListening?.();
      this.#stopListening = undefined;
      return;
    }
    if (clock.manual) {
      this.#stopListening ??= clock.manual.onMove(this.#settleDue);
      return;
    }
    const wakeMs = this.#rows.wakeMs(first);
    if (this.#timer && wakeMs >= this.#timerMs) return;
    clearTimeout(this.#timer);
    this.#timerMs = wakeMs;
    this.#timer = setTimeout(this.#settleDue, sleepMs(clock, wakeMs - clock.now()));
  }

  /** Takes a waiter out before its time, gives its tokens back and rejects it. */
  #leave(row: number, reason: unknown): void {
    const rows = this.#rows;
    let freed = this.#claimOf(row);
    for (let next = rows.behind(row); next >= 0 && rows.cost[next] === rows.cost[row]; next = rows.behind(next)) {
      const own = this.#claimOf(next);
      rows.dueAtMs[next] = freed.dueAtMs;
      rows.dueAtLow[next] = freed.dueAtLow;
      rows.dueAtHigh[next] = freed.dueAtHigh;
      if (freed.taken) this.#taken.set(next, freed.taken);
      rows.replace(next);
      freed = own;
    }
    const key = { low: rows.low[row], high: rows.high[row], setA: rows.setA[row] };
    const cost = rows.cost[row];
    const settle = this.#forget(row);
    if (freed.dueAtLow | freed.dueAtHigh) {
      cancelReserved(
        this.#policy,
        key,
        cost,
        { ...freed, scale: this.#scale },
        this.#policy.table.clock.now(),
      );
    }
    // A function that rejects would be one more for each of them to keep.
    settle(Promise.reject(reason));
    this.#arm();
  }

  #claimOf(row: number): { dueAtMs: number; dueAtLow: number; dueAtHigh: number; taken: Float64Array | undefined } {
    return {
      dueAtMs: this.#rows.dueAtMs[row],
      dueAtLow: this.#rows.dueAtLow[row],
      dueAtHigh: this.#rows.dueAtHigh[row],
      taken: this.#taken.get(row),
    };
  }

  /** Takes a waiter out; what to call to settle it. */
  #forget(row: number): (outcome: void | Promise<void>) => void {
    const settle = this.#rows.settle[row]!;
    this.#rows.remove(row);
    if (this.#taken.size > 0) this.#taken.delete(row);
    if (this.#signals.size > 0) {
      this.#signals.get(row)?.();
      this.#signals.delete(row);
    }
    return settle;
  }
}
