// Windows, and what has no clock of its own.

import { LIFE_NS, type Limits, type Segment, type SegmentKind } from "./segment.js";

interface Inverse {
  inverse: bigint;
  inverseShift: number;
}

export interface WindowSegment extends Segment, Inverse {
  windowNs: bigint;
  /** Bits of a count in the word. */
  countBits: number;
}

export interface RingSegment extends Segment, Inverse {
  slotNs: bigint;
  ringLength: number;
}

/** floor(2^(64 + shift) / length), with as many bits as fit: how the kernel divides by a length. */
function inverseOf(length: bigint): Inverse {
  const inverseShift = length.toString(2).length - 1;
  const inverse = (1n << BigInt(64 + inverseShift)) / length;
  // Of a power of two it is 2^64 itself.
  return { inverse: inverse >> 64n ? inverse - 1n : inverse, inverseShift };
}

function plain(limits: Limits, nowNs: bigint, flags: number): Segment {
  return { limits, t0: nowNs, life: LIFE_NS, limitTokens: Math.floor(limits.burst), flags };
}

/** The kind of segment of a policy whose keys have no clock: its limits are others', or leases. */
export const plainSegments: SegmentKind = {
  fields: {},
  first: (wanted, { nowNs, flags }) => plain(wanted, nowNs, flags),
  next: (current, wanted) => plain(wanted, current.t0, current.flags),
};

/** Bits of each of `counts` counts in a word, as its window numbers for 30 years leave them. */
export function countBits(windowNs: number, counts: number): number {
  const windows = LIFE_NS / BigInt(windowNs) + 4n;
  return Math.min(31, Math.floor((62 - windows.toString(2).length) / counts));
}

/** A window whose word has `counts` counts. Its words do not depend on its limit. */
function windows(counts: number): SegmentKind<WindowSegment> {
  return {
    fields: {
      windowNs: ["WINDOW_NS", "longs"],
      inverse: ["WINDOW_INVERSE", "longs"],
      inverseShift: ["WINDOW_INVERSE_SHIFT", "words"],
      countBits: ["WINDOW_COUNT_BITS", "words"],
    },
    first: (wanted, { nowNs, flags }) => ({
      ...plain(wanted, nowNs, flags),
      windowNs: BigInt(wanted.extra),
      ...inverseOf(BigInt(wanted.extra)),
      countBits: countBits(wanted.extra, counts),
    }),
    next: (current, limits) => ({ ...current, limits, limitTokens: limits.burst }),
  };
}

export const fixedWindowSegments = windows(1);
export const slidingWindowSegments = windows(2);

export const ringSegments: SegmentKind<RingSegment> = {
  fields: {
    slotNs: ["RING_SLOT_NS", "longs"],
    inverse: ["RING_INVERSE", "longs"],
    inverseShift: ["RING_INVERSE_SHIFT", "words"],
    ringLength: ["RING_LENGTH", "words"],
  },
  first: (wanted, { nowNs, flags, ring }) => ({
    ...plain(wanted, nowNs, flags),
    slotNs: BigInt(wanted.extra),
    ...inverseOf(BigInt(wanted.extra)),
    ringLength: ring,
  }),
  next: (current, limits) => ({ ...current, limits, limitTokens: limits.burst }),
};
