// Clocks: the only file that reads one. A time is a number of milliseconds
// since the table's epoch, with nanoseconds as its fraction, on a monotonic
// source that all threads of the process share. What the wall clock does is
// nobody's business here.

import { performance } from "node:perf_hooks";
import { checkDuration, unexpected } from "./errors.js";

export type ClockKind = "precise" | "coarse" | "manual";
export const clockKinds: readonly ClockKind[] = ["precise", "coarse", "manual"];

/** ms on a monotonic clock of this thread, for what no table times. */
export function ownMs(): number {
  return performance.now();
}

/** ms since 1970 on the wall clock: to align windows once, or to read what others tell, never to decide. */
export function wallMs(): number {
  return Date.now();
}

/** The wall clock's time `ms` from now: to tell users, never to decide. */
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
 * What to add to performance.now() to get ms since `epochNs`. Threads differ in
 * where their performance.now() began; bracketing it between two readings of
 * the common source many times narrows the offset to some tens of ns.
 */
function offsetMs(epochNs: bigint): number {
  let least = -Infinity;
  let most = Infinity;
  for (let i = 0; i < 100; i++) {
    const before = Number(monotonicNs() - epochNs);
    const own = performance.now() * 1e6;
    const after = Number(monotonicNs() - epochNs);
    least = Math.max(least, before - own);
    most = Math.min(most, after - own);
  }
  return (least + most) / 2 / 1e6;
}

const LATEST_NS = 2n ** 63n - 1n;

/** A time in ms as whole ns, as far as 64 bits reach. */
export function wholeNanoseconds(ms: number): bigint {
  const ns = Math.round(ms * 1e6);
  return ns < Number(LATEST_NS) ? BigInt(ns) : LATEST_NS;
}

/** A table's clock cell: ms for TypeScript, ns for the kernel. */
export class ClockCell {
  readonly ms: Float64Array;
  readonly #ns: BigInt64Array;

  constructor(buffer: SharedArrayBuffer, msAt: number, nsAt: number) {
    this.ms = new Float64Array(buffer, msAt, 1);
    this.#ns = new BigInt64Array(buffer, nsAt, 1);
  }

  set(ms: number): void {
    this.#ns[0] = wholeNanoseconds(ms);
    this.ms[0] = ms;
  }
}

/** A table's clock as one thread reads it. */
export class Clock {
  readonly kind: ClockKind;
  /** Set in the thread that made a manual clock; elsewhere only its cell is known. */
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

  /** What the kernel's hot calls take for now: the time, or -1 for its clock cell, which they read themselves. */
  mark(): number {
    return this.#isPrecise ? performance.now() + this.#offsetMs : -1;
  }

  /** Milliseconds since the table's epoch. */
  now(): number {
    return this.#isPrecise ? performance.now() + this.#offsetMs : this.#cell[0];
  }
}

/**
 * A clock that stands still until it is moved, for tests and simulations:
 * `Sluice.create({ clock: new ManualClock() })`. Every thread attached to the
 * table sees the same time. Waits that fall due are settled as it moves.
 */
export class ManualClock {
  #nowMs: number;
  readonly #cells = new Set<ClockCell>();
  readonly #listeners = new Set<() => void>();

  /** Starts at `startMs` (>= 0, default 0). */
  constructor(startMs = 0) {
    checkTime("startMs", startMs);
    this.#nowMs = startMs;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Sets the time, ms; fractions are nanoseconds. It may go back, which adds nothing to any bucket. */
  set(ms: number): void {
    checkTime("ms", ms);
    this.#nowMs = ms;
    for (const cell of this.#cells) cell.set(ms);
    for (const listener of [...this.#listeners]) listener();
  }

  /** Moves the time on by `ms` (>= 0). */
  advance(ms: number): void {
    checkDuration("ms", ms);
    this.set(this.#nowMs + ms);
  }

  /** Keeps a table's clock cell at this clock's time. */
  drive(cell: ClockCell): void {
    this.#cells.add(cell);
    cell.set(this.#nowMs);
  }

  release(cell: ClockCell): void {
    this.#cells.delete(cell);
  }

  /** Calls `listener` after every move, until the returned function is called. */
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
