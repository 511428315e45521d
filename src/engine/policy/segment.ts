// Segments: the numbers by which a policy decides, from a moment on. Each
// algorithm of the kernel has its own; assembly/layout/policy.ts draws them.

import type { KernelNumbers } from "../table/kernel.js";
import type { Table } from "../table/table.js";

export interface Limits {
  /** Tokens per second. */
  rate: number;
  /** Tokens; whole ones, except Guava's. */
  burst: number;
  /** A window's or slot's length in ns, a warm-up in ns, or the tokens that a queue may hold; 0 for other kinds. */
  extra: number;
}

/** What all segments have. */
export interface Segment {
  limits: Limits;
  /** When it begins, ns since the table's epoch. */
  t0: bigint;
  /** For how long its numbers are good, ns. */
  life: bigint;
  /** Largest cost that fits at once, whole tokens. */
  limitTokens: number;
  flags: number;
}

/** The numbers of the kernel that segments depend on. */
export interface ScaleLimits {
  vStart: bigint;
  maxBurstUnits: bigint;
  quickPreShift: number;
  unlimitedFlag: number;
  forgets: number;
}

/** What a policy's first segment depends on besides its limits. */
export interface Beginning {
  nowNs: bigint;
  flags: number;
  isGlobalOnly: boolean;
  /** Counters of a window with slots. */
  ring: number;
  kernel: ScaleLimits;
}

/** What the next one depends on. */
export interface Change {
  /** When it begins, and what a bucket's clock reads then. */
  t0: bigint;
  v: bigint;
  /** Whether that is still to come: until then the clock runs as before. */
  isAhead: boolean;
  isGlobalOnly: boolean;
  kernel: ScaleLimits;
}

type View = "longs" | "doubles" | "words";
type Fields = Readonly<Record<string, readonly [offset: keyof KernelNumbers, view: View]>>;

/** How an algorithm makes its segments, and where their numbers stand besides those that all have. */
export interface SegmentKind<Own extends Segment = Segment> {
  readonly fields: Readonly<Record<Exclude<keyof Own, keyof Segment>, Fields[string]>>;
  first(wanted: Limits, beginning: Beginning): Own;
  next(current: Own, wanted: Limits, change: Change): Own;
}

/** 30 years: for how long every segment is good. */
export const LIFE_NS = 946_728_000n * 1_000_000_000n;

/** What scales need to know of the kernel. */
export function scaleLimits({ kernel: { wide }, at }: Table): ScaleLimits {
  return {
    vStart: wide.V_START,
    maxBurstUnits: wide.MAX_BURST_UNITS,
    quickPreShift: Number(wide.QUICK_PRE_SHIFT),
    unlimitedFlag: at.FLAG_UNLIMITED,
    forgets: at.FORGETS,
  };
}

const shared: Fields = {
  t0: ["SEGMENT_T0", "longs"],
  life: ["SEGMENT_LIFE", "longs"],
  limitTokens: ["SEGMENT_LIMIT_TOKENS", "words"],
  flags: ["SEGMENT_FLAGS", "words"],
};

/** A number of a segment: its name, where it stands, and by which view. */
type Entry = readonly [name: string, offset: keyof KernelNumbers, view: View];

/** The numbers of each kind of segment, worked out once: a rate may change often. */
const entries = new WeakMap<SegmentKind, readonly Entry[]>();

function entriesOf(kind: SegmentKind): readonly Entry[] {
  let all = entries.get(kind);
  if (!all) {
    all = Object.entries<Fields[string]>({ ...shared, ...kind.fields }).map(([name, at]) => [name, ...at] as const);
    entries.set(kind, all);
  }
  return all;
}

/** Writes a segment where the kernel takes it from when it appends a policy or publishes a change. */
export function stageSegment(table: Table, kind: SegmentKind, segment: Segment): void {
  const { at, doubles, scratch } = table;
  const numbers = segment as unknown as Record<string, number | bigint>;
  for (const [name, offset, view] of entriesOf(kind)) {
    const from = scratch.segmentAt + at[offset];
    if (view === "longs") table.longs[from / 8] = BigInt.asUintN(64, numbers[name] as bigint);
    else table[view][from / (view === "words" ? 4 : 8)] = numbers[name] as number;
  }
  doubles[(scratch.segmentAt + at.SEGMENT_RATE) / 8] = segment.limits.rate;
  doubles[(scratch.segmentAt + at.SEGMENT_BURST) / 8] = segment.limits.burst;
}

/** The segment at address `from`, of a policy that was defined with `extra`. */
export function readSegment(table: Table, kind: SegmentKind, from: number, extra: number): Segment {
  const { at, doubles } = table;
  const numbers: Record<string, number | bigint> = {};
  for (const [name, offset, view] of entriesOf(kind)) {
    numbers[name] = table[view][(from + at[offset]) / (view === "words" ? 4 : 8)];
  }
  const limits = { rate: doubles[(from + at.SEGMENT_RATE) / 8], burst: doubles[(from + at.SEGMENT_BURST) / 8], extra };
  const segment = { ...numbers, limits } as unknown as Segment;
  segment.t0 = BigInt.asIntN(64, segment.t0);
  return segment;
}
