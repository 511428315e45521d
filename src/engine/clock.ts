// Clocks: the only file that reads one. A time is a number of milliseconds
// since the table's epoch, with nanoseconds as its fraction, on a monotonic
// source that all threads of the process share. Changes of the wall clock have
// no effect on it.

import { performance } from "node:perf_hooks";
import type { ClockCell } from "./clock-cell.js";
import type { ManualClock } from "./manual-clock.js";

export type ClockKind = "precise" | "coarse" | "manual";
export const clockKinds: readonly ClockKind[] = ["precise", "coarse", "manual"];

/** ms on a monotonic clock of this thread, for times that no table keeps. */
export function ownMs(): number {
  return performance.now();
}

/** ms since 1970 on the wall clock: to align windows once, or to compare with a date in a header; never to decide. */
export function wallMs(): number {
  return Date.now();
}

/** The wall clock's time `ms` from now: to show to users; never to decide. */
export function wallTimeIn(ms: number): Date {
  return new Date(Math.ceil(wallMs() + ms));
}

/** ms since 1970 of an HTTP-date, in any of its three formats (RFC 9110, section 5.6.7); NaN for anything else. */
export function wallMsOf(date: string): number {
  if (!/^[A-Z][a-z]{2,8},? .+ ?\d\d:\d\d:\d\d (GMT|\d{4})$/.test(date)) return NaN;
  // The oldest format leaves out the zone, which is always this one.
  return Date.parse(date.endsWith("GMT") ? date : `${date} GMT`);
}

/** The monotonic source, ns. The same in every thread of a process. */
export function monotonicNs(): bigint {
  return process.hrtime.bigint();
}

/**
 * What to add to performance.now() to get ms since `epochNs`. Each thread's
 * performance.now() began at another moment. Reading it 100 times between two
 * readings of the common source narrows the offset to some tens of ns.
 */
function offsetMs(epochNs: bigint): number {
  let min = -Infinity;
  let max = Infinity;
  for (let i = 0; i < 100; i++) {
    const before = Number(monotonicNs() - epochNs);
    const own = performance.now() * 1e6;
    const after = Number(monotonicNs() - epochNs);
    min = Math.max(min, before - own);
    max = Math.min(max, after - own);
  }
  return (min + max) / 2 / 1e6;
}

/** A table's clock as one thread reads it. */
export class Clock {
  readonly kind: ClockKind;
  /** Set in the thread that made a manual clock. Other threads know only its cell. */
  readonly manual: ManualClock | undefined;
  readonly #isPrecise: boolean;
  readonly #offsetMs: number;
  readonly #cell: Float64Array;

  constructor(kind: ClockKind, epochNs: bigint, cell: ClockCell, manual?: ManualClock) {
    this.kind = kind;
    this.manual = manual;
    this.#isPrecise = kind === "precise";
    this.#offsetMs = this.#isPrecise ? offsetMs(epochNs) : 0;
    this.#cell = cell.ms;
  }

  /**
   * The time as the kernel's hot calls take it: ms since the epoch, or -1 for the clock cell, which they
   * read themselves.
   */
  mark(): number {
    return this.#isPrecise ? performance.now() + this.#offsetMs : -1;
  }

  /** Milliseconds since the table's epoch. */
  now(): number {
    return this.#isPrecise ? performance.now() + this.#offsetMs : this.#cell[0];
  }
}
