// Waits in turn, for limiters in a table and in Redis. Each waiter has a
// reservation, so that its turn is fixed when it begins to wait: first come, first
// served for each key. A limiter has one timer.
//
// When a waiter leaves early, those behind it on the same key move up: each takes
// the turn of the one before it, and the last turn is given back. So an abort gives
// its tokens back even from the middle of the queue. They move up as far as costs
// are equal; past that, as with every cancelled reservation, only what nothing is
// reserved behind goes back.

import type { KeyWords } from "../bucket/bucket.js";
import type { Clock } from "../clock.js";
import { Queue } from "./queue.js";
import { sleepMs } from "./sleep.js";

/** When a waiter may act, and what its reservation needs to be given back. */
export interface Turn<Reserved> {
  /** On the clock of the turns, ms. */
  readonly dueAtMs: number;
  /** Virtual time to act, in two halves; 0 if unknown, or of no use. */
  readonly dueAtLow: number;
  readonly dueAtHigh: number;
  /** What else a reservation is: few in a table have any. */
  readonly reserved: Reserved | undefined;
}

export abstract class Turns<Reserved> {
  protected readonly queue = new Queue();
  readonly #clock: Pick<Clock, "kind" | "now" | "manual">;
  /** What few rows have. */
  readonly #reserved = new Map<number, Reserved>();
  readonly #stopListening = new Map<number, () => void>();
  #timer: NodeJS.Timeout | undefined;
  #timerMs = Infinity;
  #stopWatching: (() => void) | undefined;

  constructor(clock: Pick<Clock, "kind" | "now" | "manual">) {
    this.#clock = clock;
  }

  /** Brings all turns up to date before anything else happens. */
  protected abstract refresh(): void;
  /** ms until a row's turn comes; 0 if it has come. */
  protected abstract leftMs(row: number, nowMs: number): number;
  /** Gives a turn of `key` back. */
  protected abstract giveBack(key: KeyWords, cost: number, turn: Turn<Reserved>): void;
  /** Why a wait fails whose deadline passes before its turn comes. */
  protected abstract overdue(row: number, nowMs: number): unknown;

  /** Resolves when the turn comes. Rejects with the signal's reason, or as `overdue` says at the deadline. */
  protected enqueue(
    key: KeyWords,
    cost: number,
    turn: Turn<Reserved>,
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    return new Promise<void>((resolve) => {
      const row = this.queue.add(key, cost, turn.dueAtMs, deadlineMs, resolve);
      this.#assign(row, turn);
      if (signal) this.#listen(row, signal);
      this.#arm();
    });
  }

  /** Gives all turns back, the last one first, and rejects the waits. */
  protected rejectAll(reason: unknown): void {
    for (const row of this.queue.latestFirst()) this.#leave(row, reason);
  }

  #listen(row: number, signal: AbortSignal): void {
    const onAbort = (): void => this.#leave(row, signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    this.#stopListening.set(row, () => signal.removeEventListener("abort", onAbort));
  }

  /** Looks at all waits again: after the rate changed. */
  reconsider(): void {
    if (this.queue.count > 0) this.#look();
  }

  /** Ends the waits that are due or past their deadline. */
  readonly #look = (): void => {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerMs = Infinity;
    this.refresh();
    const { queue } = this;
    let nowMs = this.#clock.now();
    for (let row = queue.first; row >= 0; row = queue.first) {
      if (queue.wakeMs(row) > nowMs && queue.wakeMs(row) > (nowMs = this.#clock.now())) break;
      const leftMs = this.leftMs(row, nowMs);
      if (leftMs === 0) {
        this.#remove(row)();
      } else if (nowMs >= queue.deadlineMs[row]) {
        this.#leave(row, this.overdue(row, nowMs));
      } else {
        // Later than now, even where a ns is less than the clock's double can tell.
        queue.dueAtMs[row] = nowMs + Math.max(leftMs, nowMs * 2 ** -51);
        queue.replace(row);
      }
    }
    this.#arm();
  };

  #arm(): void {
    const { first } = this.queue;
    const clock = this.#clock;
    if (first < 0) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#timerMs = Infinity;
      this.#stopWatching?.();
      this.#stopWatching = undefined;
      return;
    }
    if (clock.manual) {
      this.#stopWatching ??= clock.manual.onMove(this.#look);
      return;
    }
    const wakeMs = this.queue.wakeMs(first);
    if (this.#timer && wakeMs >= this.#timerMs) return;
    clearTimeout(this.#timer);
    this.#timerMs = wakeMs;
    this.#timer = setTimeout(this.#look, sleepMs(clock, wakeMs - clock.now()));
  }

  /** Takes a waiter out before its turn, gives that back and rejects the wait. */
  #leave(row: number, reason: unknown): void {
    const { queue } = this;
    const { low, high, setA } = queue;
    const cost = queue.cost[row];
    let freed = this.#turnOf(row);
    for (let next = queue.behind(row); next >= 0 && queue.cost[next] === cost; next = queue.behind(next)) {
      const own = this.#turnOf(next);
      this.#assign(next, freed);
      queue.replace(next);
      freed = own;
    }
    const key = { low: low[row], high: high[row], setA: setA[row] };
    const resolve = this.#remove(row);
    this.giveBack(key, cost, freed);
    // A function that rejects would be one more for each waiter to store.
    resolve(Promise.reject(reason));
    this.#arm();
  }

  #turnOf(row: number): Turn<Reserved> {
    const { dueAtMs, dueAtLow, dueAtHigh } = this.queue;
    return {
      dueAtMs: dueAtMs[row],
      dueAtLow: dueAtLow[row],
      dueAtHigh: dueAtHigh[row],
      reserved: this.#reserved.get(row),
    };
  }

  #assign(row: number, { dueAtMs, dueAtLow, dueAtHigh, reserved }: Turn<Reserved>): void {
    const { queue } = this;
    queue.dueAtMs[row] = dueAtMs;
    queue.dueAtLow[row] = dueAtLow;
    queue.dueAtHigh[row] = dueAtHigh;
    if (reserved !== undefined) this.#reserved.set(row, reserved);
  }

  /** Takes a waiter out; what to call to resolve its promise. */
  #remove(row: number): (outcome: void | Promise<void>) => void {
    const resolve = this.queue.resolve[row]!;
    this.queue.remove(row);
    if (this.#reserved.size > 0) this.#reserved.delete(row);
    if (this.#stopListening.size > 0) {
      this.#stopListening.get(row)?.();
      this.#stopListening.delete(row);
    }
    return resolve;
  }
}
