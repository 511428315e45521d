// A segment of a policy's clock, to and from its bytes in the policy's record.
// assembly/layout.ts draws them.

import type { Table } from "../table/table.js";
import type { Older, Piece as Segment, ScaleLimits } from "./scale.js";

export type { Segment };

/** What scales need to know of the kernel. */
export function scaleLimits({ kernel: { wide }, at }: Table): ScaleLimits {
  return {
    vStart: wide.V_START,
    burstLimit: wide.BURST_LIMIT,
    unlimitedFlag: at.FLAG_UNLIMITED,
    stepFlag: at.FLAG_STEP,
    slidingFlag: at.FLAG_SLIDING,
    lineFlag: at.FLAG_LINE,
    warmUpFlag: at.FLAG_WARM_UP,
  };
}

/** Writes a segment where the kernel takes it from when it appends a policy or publishes a change. */
export function stageSegment(table: Table, segment: Segment): void {
  const { at, words, longs, doubles } = table;
  const to = table.scratch.segmentAt;
  longs[(to + at.PIECE_V0) / 8] = segment.v0;
  longs[(to + at.PIECE_T0) / 8] = BigInt.asUintN(64, segment.t0);
  longs[(to + at.PIECE_MULTIPLIER) / 8] = segment.multiplier;
  longs[(to + at.PIECE_BURST) / 8] = segment.burst;
  longs[(to + at.PIECE_DT_LIMIT) / 8] = segment.dtLimit;
  doubles[(to + at.PIECE_NS_A_UNIT) / 8] = segment.nsAUnit;
  words[(to + at.PIECE_PRE_SHIFT) / 4] = segment.preShift;
  words[(to + at.PIECE_WINDOW_SHIFT) / 4] = segment.windowShift;
  words[(to + at.PIECE_TOKEN_SHIFT) / 4] = segment.tokenShift;
  words[(to + at.PIECE_BURST_TOKENS) / 4] = segment.burstTokens;
  words[(to + at.PIECE_FLAGS) / 4] = segment.flags;
  words[(to + at.PIECE_GENERATION) / 4] = segment.generation;
  longs[(to + at.PIECE_EXTRA) / 8] = segment.extra;
  doubles[(to + at.PIECE_RATE) / 8] = segment.limits.rate;
  doubles[(to + at.PIECE_BURST_SAID) / 8] = segment.limits.burst;
  segment.older.forEach((older, i) => {
    const olderAt = to + at.PIECE_OLDER + i * at.OLDER_BYTES;
    longs[(olderAt + at.OLDER_FROM) / 8] = older.from;
    words[(olderAt + at.OLDER_SHIFT) / 4] = older.shift;
    words[(olderAt + at.OLDER_FRESH) / 4] = older.isFresh ? 1 : 0;
  });
}

/** The segment at address `from`, of a policy that was defined with `extra`. */
export function readSegment(table: Table, from: number, extra: number): Segment {
  const { at, words, longs, doubles } = table;
  const olderAt = (i: number): Older => {
    const older = from + at.PIECE_OLDER + i * at.OLDER_BYTES;
    return {
      from: longs[(older + at.OLDER_FROM) / 8],
      shift: words[(older + at.OLDER_SHIFT) / 4],
      isFresh: words[(older + at.OLDER_FRESH) / 4] === 1,
    };
  };
  return {
    limits: { rate: doubles[(from + at.PIECE_RATE) / 8], burst: doubles[(from + at.PIECE_BURST_SAID) / 8], extra },
    extra: longs[(from + at.PIECE_EXTRA) / 8],
    v0: longs[(from + at.PIECE_V0) / 8],
    t0: BigInt.asIntN(64, longs[(from + at.PIECE_T0) / 8]),
    multiplier: longs[(from + at.PIECE_MULTIPLIER) / 8],
    burst: longs[(from + at.PIECE_BURST) / 8],
    dtLimit: longs[(from + at.PIECE_DT_LIMIT) / 8],
    nsAUnit: doubles[(from + at.PIECE_NS_A_UNIT) / 8],
    preShift: words[(from + at.PIECE_PRE_SHIFT) / 4],
    windowShift: words[(from + at.PIECE_WINDOW_SHIFT) / 4],
    tokenShift: words[(from + at.PIECE_TOKEN_SHIFT) / 4],
    burstTokens: words[(from + at.PIECE_BURST_TOKENS) / 4],
    flags: words[(from + at.PIECE_FLAGS) / 4],
    generation: words[(from + at.PIECE_GENERATION) / 4],
    older: [olderAt(0), olderAt(1)],
  };
}
