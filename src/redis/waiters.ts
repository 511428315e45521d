// The waiters of a limiter in this thread, by key in Redis: those whose turn Redis
// has granted wait for it here (see turns.ts), on this thread's own clock.

import type { KeyWords } from "../engine/bucket/bucket.js";
import { ownMs } from "../engine/clock.js";
import { closed } from "../engine/errors.js";
import { type Turn, Turns } from "../engine/waiting/turns.js";
import type { RedisReservation } from "./reservation.js";

/** The line of a key: its number in the queue, and how many wait, those included whose turn is not granted yet. */
interface Line extends KeyWords {
  count: number;
}

export class RedisWaiters extends Turns<RedisReservation> {
  readonly #lines = new Map<string, Line>();
  #numbers = 0;
  /** Every wait under way: it may have a turn to give back. */
  readonly #waits = new Set<Promise<unknown>>();
  /** Ends the waits in the limiter that stands in. */
  readonly #closing = new AbortController();

  constructor() {
    super({ kind: "precise", now: ownMs, manual: undefined });
  }

  /** Aborted when the limiter is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Counts a wait for a key in, and returns how many there were already. */
  enter(key: string): number {
    const line = this.#lines.get(key);
    if (line) return line.count++;
    this.#lines.set(key, { low: this.#numbers++ | 0, high: 1, setA: 0, count: 1 });
    return 0;
  }

  /** Counts it out. */
  leave(key: string): void {
    if (--this.#lines.get(key)!.count === 0) this.#lines.delete(key);
  }

  /** Makes `end` await `wait` as well. */
  async track(wait: Promise<void>): Promise<void> {
    this.#waits.add(wait);
    try {
      await wait;
    } finally {
      this.#waits.delete(wait);
    }
  }

  /**
   * Resolves when the turn of a wait that was counted in comes, `delayMs` from now. Rejects with the
   * signal's reason.
   */
  add(key: string, cost: number, granted: RedisReservation, signal: AbortSignal | undefined): Promise<void> {
    const turn = { dueAtMs: ownMs() + granted.delayMs, dueAtLow: 0, dueAtHigh: 0, reserved: granted };
    return this.enqueue(this.#lines.get(key)!, cost, turn, Infinity, signal);
  }

  /**
   * Gives all turns back, the last one first, and rejects the waits with ERR_SLUICE_CLOSED. Resolves
   * when Redis has them.
   */
  async end(): Promise<void> {
    const error = closed();
    this.#closing.abort(error);
    this.rejectAll(error);
    await Promise.allSettled(this.#waits);
  }

  protected override refresh(): void {}

  protected override leftMs(row: number, nowMs: number): number {
    return Math.max(0, this.queue.dueAtMs[row] - nowMs);
  }

  protected override giveBack(_key: KeyWords, _cost: number, { reserved }: Turn<RedisReservation>): void {
    // Nothing waits for it, and it may reject if the table of `local` has been closed.
    const done = reserved!.cancel().catch(() => {});
    this.#waits.add(done);
    void done.then(() => this.#waits.delete(done));
  }

  protected override overdue(): unknown {
    return closed();
  }
}
