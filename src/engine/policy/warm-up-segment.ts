// Warm-up: Guava's SmoothWarmingUp as assembly/lines/warm-up.ts takes it.

import { LIFE_NS, type Limits, type ScaleLimits, type Segment, type SegmentKind } from "./segment.js";

export interface WarmUpSegment extends Segment {
  warmUpNs: bigint;
  threshold: number;
  maxPermits: number;
  slope: number;
  stableNs: number;
}

/** `burst` is the cold factor, `extra` the warm-up in ns; a warm-up of 0 stores nothing. */
function segment(limits: Limits, t0: bigint, flags: number, { unlimitedFlag }: ScaleLimits): WarmUpSegment {
  const { rate, burst: coldFactor, extra } = limits;
  const stableNs = 1e9 / rate;
  const isFinite = rate > 0 && rate < Infinity;
  const threshold = isFinite ? (0.5 * extra) / stableNs : 0;
  const maxPermits = isFinite ? threshold + (2 * extra) / (stableNs + stableNs * coldFactor) : 0;
  return {
    limits,
    t0,
    life: LIFE_NS,
    limitTokens: Math.floor(Math.min(maxPermits, 2 ** 31 - 1)),
    flags: rate === Infinity ? flags | unlimitedFlag : flags & ~unlimitedFlag,
    warmUpNs: BigInt(extra),
    threshold,
    maxPermits,
    slope: maxPermits > threshold ? (stableNs * coldFactor - stableNs) / (maxPermits - threshold) : 0,
    stableNs,
  };
}

export const warmUpSegments: SegmentKind<WarmUpSegment> = {
  fields: {
    warmUpNs: ["WARM_UP_NS", "longs"],
    threshold: ["WARM_UP_THRESHOLD", "doubles"],
    maxPermits: ["WARM_UP_MAX_PERMITS", "doubles"],
    slope: ["WARM_UP_SLOPE", "doubles"],
    stableNs: ["WARM_UP_STABLE_NS", "doubles"],
  },
  first: (wanted, { nowNs, flags, kernel }) => segment(wanted, nowNs, flags, kernel),
  next: (current, wanted, { kernel }) => segment(wanted, current.t0, current.flags, kernel),
};
