// The clock for tests: it moves only by a call.

import type { ClockCell } from "./clock-cell.js";
import { checkDuration, unexpected } from "./errors.js";

/**
 * A clock that stands still until it is moved, for tests and simulations:
 * `Sluice.create({ clock: new ManualClock() })`. Every thread attached to the
 * table sees the same time. Waits that fall due resolve as it moves.
 */
export class ManualClock {
  #nowMs: number;
  readonly #cells = new Set<ClockCell>();
  readonly #listeners = new Set<() => void>();

  /**
   * Starts at `startMs`, ms, 0 by default.
   * @throws TypeError or RangeError unless it is a finite number >= 0.
   */
  constructor(startMs = 0) {
    checkTime("startMs", startMs);
    this.#nowMs = startMs;
  }

  /** The time, ms. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /**
   * Sets the time, ms; fractions are nanoseconds. It may go back, which adds nothing to any bucket.
   * @throws TypeError or RangeError unless `ms` is a finite number >= 0.
   */
  set(ms: number): void {
    checkTime("ms", ms);
    this.#nowMs = ms;
    for (const cell of this.#cells) cell.set(ms);
    for (const listener of [...this.#listeners]) listener();
  }

  /**
   * Moves the time on by `ms`.
   * @throws TypeError or RangeError unless `ms` is a number >= 0 and the new time is finite.
   */
  advance(ms: number): void {
    checkDuration("ms", ms);
    this.set(this.#nowMs + ms);
  }

  /**
   * Keeps a table's clock cell at this clock's time.
   * @internal
   */
  drive(cell: ClockCell): void {
    this.#cells.add(cell);
    cell.set(this.#nowMs);
  }

  /**
   * Undoes `drive`.
   * @internal
   */
  release(cell: ClockCell): void {
    this.#cells.delete(cell);
  }

  /**
   * Calls `listener` after every move, until the returned function is called.
   * @internal
   */
  onMove(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

function checkTime(name: string, ms: unknown): void {
  if (typeof ms !== "number" || !(ms >= 0 && ms < Infinity)) {
    throw unexpected(name, "a finite number of milliseconds >= 0", ms);
  }
}
