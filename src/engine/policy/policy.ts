// Policies: named, appended to the table once, seen by every thread. A record
// never moves, so the kernel knows a policy by the address of its record.

import { wholeNanoseconds } from "../clock-cell.js";
import { SluiceError } from "../errors.js";
import type { Table } from "../table/table.js";
import { type BucketSegment, isRunDown, unitsOf } from "./bucket-segment.js";
import { checkLimit, type Kind, kindOf } from "./kinds.js";
import { type Declared, PolicyRecord } from "./policy-record.js";
import { type Limits, readSegment, scaleLimits, type Segment, stageSegment } from "./segment.js";

/**
 * How long before it begins a change of rate is published, ms: a thread that is
 * stopped for less while it publishes does not matter.
 */
const LEAD_MS = 5;

export class Policy {
  readonly table: Table;
  /** Address of the record. */
  readonly record: number;
  readonly number: number;
  readonly name: string;
  readonly kind: Kind;
  /** The limits that it joins, each a policy, in their order; none for most kinds. */
  readonly limits: readonly Policy[];
  readonly #record: PolicyRecord;
  #segment: Segment;
  #version: number;

  constructor(table: Table, number: number) {
    this.table = table;
    this.number = number;
    this.#record = new PolicyRecord(table, number);
    this.record = this.#record.address;
    this.name = this.#record.name;
    this.kind = kindOf(this.#record.kind);
    this.limits = this.#record.limits.map((limit) => new Policy(table, limit));
    [this.#segment, this.#version] = this.#read();
  }

  /** What it was defined with. */
  get declared(): Declared {
    return this.#record.declared;
  }

  /** Largest cost that is ever granted, tokens. */
  get maxCost(): number {
    if (!this.kind.hasBurst) return Infinity;
    if (this.limits.length === 0) return this.burst;
    return Math.min(...this.limits.map(({ rate, burst }) => (rate === Infinity ? Infinity : burst)));
  }

  /** Changes with every new rate or burst, in all threads at once. */
  get version(): number {
    return this.#record.version;
  }

  /** How often the scale of its clock changed: a due time can be rescaled across two changes. */
  get scale(): number {
    return (this.#current() as Partial<BucketSegment>).scale ?? 0;
  }

  /** Address of the segment in force. */
  get segmentAt(): number {
    return this.#record.segmentAt(this.version);
  }

  /** Units of virtual time in a token, as a power of two. */
  get tokenShift(): number {
    return (this.#current() as BucketSegment).tokenShift;
  }

  /** Address of what this thread counts and stores of it. */
  get statsAt(): number {
    return this.table.scratch.statsAt(this.number);
  }

  /** Its keys are decided by one word between two bounds, which change with the clock only. */
  get isQuick(): boolean {
    const { at } = this.table;
    const { flags } = this.declared;
    return (flags & ~at.FLAG_QUEUE) === 0 || flags === at.FIXED_WINDOW << at.ALGORITHM_SHIFT;
  }

  /** Tokens per second; of several limits, the first one's. */
  get rate(): number {
    return this.limits[0]?.rate ?? this.#current().limits.rate;
  }

  /** Tokens; of several limits, the first one's; of a warm-up, the most permits stored. */
  get burst(): number {
    if (!this.kind.hasBurst) return this.#current().limitTokens;
    return this.limits[0]?.burst ?? this.#current().limits.burst;
  }

  /**
   * Changes rate or burst for all keys at once. Tokens earned until now stay, and no
   * call that decides meanwhile leaves a key in debt: the new rate begins some ms
   * later, while the old one flows on, and if this thread was stopped for longer
   * before that was published, the clock is put forward by what had flowed.
   * @throws RangeError for a limit that is too large for its window, SluiceError
   * ERR_SLUICE_LOCKED if a thread was stopped while it changed the policy.
   */
  set(wanted: Partial<Limits>): void {
    const { clock } = this.table;
    const leadMs = clock.kind === "manual" || this.rate === Infinity ? 0 : LEAD_MS;
    const { t0, lost } = this.setAt(wanted, clock.now(), leadMs);
    const late = wholeNanoseconds(clock.now()) - t0;
    if (late > 0n && lost > 0) this.#putForward((lost * Number(late)) / 1e9);
  }

  /**
   * The same from `nowMs` + `leadMs` on, whatever the time is: when that was, and how
   * many tokens a second flow less from then on.
   */
  setAt(wanted: Partial<Limits>, nowMs: number, leadMs = 0): { t0: bigint; lost: number } {
    for (let attempt = 0;;) {
      const [segment, version] = this.#read();
      const { scale } = segment as BucketSegment;
      if (scale !== undefined && this.#record.walked !== scale && this.#walk() === 0) throw locked();
      const now = wholeNanoseconds(nowMs);
      const beginMs = nowMs + leadMs;
      const begin = wholeNanoseconds(beginMs);
      // A change that has not begun yet is replaced.
      const t0 = segment.t0 > now || begin < segment.t0 ? segment.t0 : begin;
      const v = this.#readingAt(segment, t0, beginMs);
      const { isGlobalOnly, segments } = this.kind;
      const change = { t0, v, isAhead: t0 > now, isGlobalOnly, kernel: scaleLimits(this.table) };
      const next: Segment = segments.next(segment, this.#changed(segment, wanted), change);
      if (!this.#publish(next, version, attempt++)) continue;
      if ((next as BucketSegment).scale !== scale) this.#walk();
      const { rate } = segment.limits;
      // Only a bucket has a clock that flows.
      const flows = scale !== undefined && rate !== Infinity;
      return { t0, lost: flows ? Math.max(0, rate - next.limits.rate) : 0 };
    }
  }

  /** What a bucket's clock reads at t0, which is `ms`; of another kind, 0. */
  #readingAt(segment: Segment, t0: bigint, ms: number): bigint {
    if (this.kind.algorithm !== "BUCKET") return 0n;
    if (t0 === segment.t0) return (segment as BucketSegment).v0;
    return BigInt.asUintN(64, this.table.kernel.readingOf(this.record, ms));
  }

  /** Puts a bucket's clock forward by `tokens`. */
  #putForward(tokens: number): void {
    for (let attempt = 0;; attempt++) {
      const [segment, version] = this.#read();
      const { v0, tokenShift } = segment as BucketSegment;
      const next = { ...segment, v0: v0 + unitsOf(tokens, tokenShift) };
      if (this.#publish(next, version, attempt)) return;
    }
  }

  /** Puts a segment in force unless another thread has changed the policy since. */
  #publish(segment: Segment, version: number, attempt: number): boolean {
    stageSegment(this.table, this.kind.segments, segment);
    const published = this.table.kernel.publish(this.record, version);
    if (published === this.table.at.POLICY_LOCKED) waitForOwner(attempt);
    return published === 1;
  }

  /** Leaves no word of an older scale: 0 if a lock in the way stayed locked. */
  #walk(): number {
    return this.table.kernel.walk(this.record, this.kind.isGlobalOnly ? 0 : 1);
  }

  /** The limits with a change. A window's rate is its limit over its length. */
  #changed(segment: Segment, wanted: Partial<Limits>): Limits {
    const limits = { ...segment.limits, ...wanted };
    const { window } = this.kind;
    if (!window) return limits;
    const windowNs = window.lengthNs(segment);
    if (wanted.rate !== undefined) limits.burst = Math.round((wanted.rate * windowNs) / 1e9);
    limits.rate = (limits.burst / windowNs) * 1e9;
    checkLimit(this.kind, limits);
    return limits;
  }

  /** Winds a global bucket's clock back if it has run high. Call before deciding on a policy of that kind. */
  keepWithinLife(nowMs: number): void {
    if (this.kind.isGlobalOnly && isRunDown(this.#current(), wholeNanoseconds(nowMs))) this.setAt({}, nowMs);
  }

  /** The segment in force. */
  #current(): Segment {
    if (this.version !== this.#version) [this.#segment, this.#version] = this.#read();
    return this.#segment;
  }

  #read(): [Segment, number] {
    for (;;) {
      const { version } = this;
      const segment = readSegment(this.table, this.kind.segments, this.#record.segmentAt(version), this.declared.extra);
      if (this.version === version) return [segment, version];
    }
  }
}

const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Waits for the thread that changes policies just now, about 1 ms a call.
 * @throws SluiceError ERR_SLUICE_LOCKED after a second: that thread may have died, which
 * this thread learns only when its event loop turns.
 */
export function waitForOwner(attempt: number): void {
  if (attempt >= 1000) throw locked();
  if (attempt > 10) Atomics.wait(pause, 0, 0, 1);
}

function locked(): SluiceError {
  return new SluiceError("ERR_SLUICE_LOCKED", "a thread was stopped while it changed the table; try again");
}
