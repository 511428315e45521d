// Buckets: how a rate and a burst become the numbers of a virtual clock.
//
// A word has 62 bits of virtual time (assembly/words/clock.ts). A policy whose
// keys fill a table gets as fine a scale as leaves its clock 30 years; one
// that has only its global bucket may be finer, since its clock can be wound
// back whenever it runs high. All of it is exact: BigInt, and a rate's double
// taken as the fraction it is. This runs when a policy is made or changed,
// never in a decision.

import {
  type Beginning,
  type Change,
  LIFE_NS,
  type Limits,
  type ScaleLimits,
  type Segment,
  type SegmentKind,
} from "./segment.js";

const MAX_V = (1n << 64n) - (1n << 60n);
/** Finest scale: 2^-40 tokens. */
const FINEST = 40;
/** Scale of a policy that has only its global bucket: about 1e-9 tokens. */
const GLOBAL_SCALE = 30;
/** Most binary places of a multiplier. */
const MAX_K = 62;
/** Scales whose first readings differ: see `startOf` in assembly/words/clock.ts. */
const SCALES = 2 ** 20;
/** Largest pre-shift of a flow that is read for at most 16 ms. */
const MAX_BEFORE_PRE_SHIFT = 34;

/** One straight stretch of a bucket's clock, as its record holds it. */
export interface BucketSegment extends Segment {
  /** What the clock reads at t0. */
  v0: bigint;
  multiplier: bigint;
  burstUnits: bigint;
  nsPerUnit: number;
  queueUnits: bigint;
  preShift: number;
  /** Units in a token are 2^tokenShift. */
  tokenShift: number;
  /** How often the scale changed. */
  scale: number;
  /** How fast the clock runs until t0. */
  beforeMultiplier: bigint;
  beforePreShift: number;
  /** The last two changes of scale, as words across them are rescaled. */
  lastStart: bigint;
  lastShift: number;
  secondLastStart: bigint;
  secondLastShift: number;
}

/** A finite double > 0 as mantissa x 2^exponent. */
function fraction(value: number): { mantissa: bigint; exponent: number } {
  const bits = new BigUint64Array(Float64Array.of(value).buffer)[0];
  const biased = Number((bits >> 52n) & 0x7ffn);
  const low = bits & ((1n << 52n) - 1n);
  return biased ? { mantissa: low | (1n << 52n), exponent: biased - 1075 } : { mantissa: low, exponent: -1074 };
}

/** round(mantissa x 2^power / divisor) */
function scaled(mantissa: bigint, power: number, divisor: bigint): bigint {
  const up = power > 0 ? mantissa << BigInt(power) : mantissa;
  const by = power < 0 ? divisor << BigInt(-power) : divisor;
  return (2n * up + by) / (2n * by);
}

/** value x 2^by, rounded down. */
function shifted(value: bigint, by: number): bigint {
  return by >= 0 ? value << BigInt(by) : value >> BigInt(-by);
}

/** Tokens in units, to the nearest multiple of 4: words count in those. */
export function unitsOf(tokens: number, tokenShift: number): bigint {
  if (tokens === 0) return 0n;
  const { mantissa, exponent } = fraction(tokens);
  return scaled(mantissa, exponent + tokenShift - 2, 1n) << 2n;
}

/** Fraction bits of a token under the finest scale that fits. */
function idealScale({ rate, burst, extra }: Limits, isGlobalOnly: boolean): number {
  const byBurst = 56 - Math.ceil(Math.log2(Math.max(1, burst, extra)));
  if (isGlobalOnly) return Math.min(GLOBAL_SCALE, byBurst);
  // Below 4 units a nanosecond, so that the clock lasts 30 years and its shifts are constant.
  const byRate = rate === 0 || rate === Infinity ? FINEST : Math.ceil(Math.log2(4e9 / rate)) - 1;
  return Math.min(FINEST, byBurst, byRate);
}

/** The rate's part of a segment, at `scale` fraction bits and from a clock that reads v0. */
function flow(
  rate: number,
  scale: number,
  v0: bigint,
  { quickPreShift }: ScaleLimits,
): Pick<BucketSegment, "multiplier" | "life" | "nsPerUnit" | "preShift"> {
  if (rate === 0 || rate === Infinity) {
    return { multiplier: 0n, life: LIFE_NS, nsPerUnit: rate === 0 ? Infinity : 0, preShift: quickPreShift };
  }
  const { mantissa, exponent } = fraction(rate);
  // multiplier x 2^-k multiples of 4 units flow in a nanosecond.
  const flowing = (k: number): bigint => scaled(mantissa, exponent + scale + k, 1_000_000_000n);
  let k = MAX_K;
  while (flowing(k) >> 64n) k--;
  const multiplier = flowing(k);
  const preShift = quickPreShift + MAX_K - k;
  const longest = shifted(MAX_V - v0, k - 2) / multiplier;
  const life = [longest, LIFE_NS, (1n << BigInt(64 - preShift)) - 1n].reduce((a, b) => (a < b ? a : b));
  return { multiplier, life, nsPerUnit: 1e9 / rate / 2 ** (scale + 2), preShift };
}

function burstOf(
  burst: number,
  scale: number,
  { maxBurstUnits }: ScaleLimits,
): Pick<BucketSegment, "burstUnits" | "limitTokens"> {
  const units = unitsOf(burst, scale + 2);
  return { burstUnits: units < maxBurstUnits ? units : maxBurstUnits, limitTokens: Math.floor(burst) };
}

function flagged(flags: number, rate: number, { unlimitedFlag }: ScaleLimits): number {
  return rate === Infinity ? flags | unlimitedFlag : flags & ~unlimitedFlag;
}

/** The first reading of a scale, with its side. */
function startOf(scale: number, { vStart }: ScaleLimits): bigint {
  return vStart + BigInt((scale % SCALES) * 4 + (scale & 1));
}

function first(wanted: Limits, { nowNs, flags, isGlobalOnly, kernel }: Beginning): BucketSegment {
  const scale = idealScale(wanted, isGlobalOnly);
  const v0 = startOf(0, kernel);
  return {
    limits: wanted,
    v0,
    t0: nowNs,
    ...flow(wanted.rate, scale, v0, kernel),
    ...burstOf(wanted.burst, scale, kernel),
    queueUnits: unitsOf(wanted.extra, scale + 2),
    tokenShift: scale + 2,
    flags: flagged(flags, wanted.rate, kernel),
    scale: 0,
    beforeMultiplier: 0n,
    beforePreShift: 0,
    lastStart: 0n,
    lastShift: kernel.forgets,
    secondLastStart: 0n,
    secondLastShift: kernel.forgets,
  };
}

/** The flow of a clock in units that are 2^by finer. */
function rescaledFlow(
  multiplier: bigint,
  preShift: number,
  by: number,
): Pick<BucketSegment, "beforeMultiplier" | "beforePreShift"> {
  const beforePreShift = Math.min(MAX_BEFORE_PRE_SHIFT, Math.max(0, preShift + by));
  return { beforeMultiplier: shifted(multiplier, preShift + by - beforePreShift) & (1n << 64n) - 1n, beforePreShift };
}

/**
 * The segment that follows `current`. It goes on in the same units where these
 * serve the new rate and burst. Else it has the next scale: the clock begins anew
 * in other units, and words of the older scale are rescaled.
 */
function next(current: BucketSegment, wanted: Limits, { t0, v, isAhead, isGlobalOnly, kernel }: Change): BucketSegment {
  const fractionBits = current.tokenShift - 2;
  const ideal = idealScale(wanted, isGlobalOnly);
  const leavesInfinity = (current.flags & kernel.unlimitedFlag) !== 0 && wanted.rate !== Infinity;
  const going = flow(wanted.rate, fractionBits, v, kernel);
  const isHigh = isGlobalOnly ? v > 1n << 62n : going.life < LIFE_NS;
  const isCoarse = fractionBits < ideal - 8;
  const isTooFine = wanted.burst > 0 && unitsOf(wanted.burst, fractionBits + 2) > kernel.maxBurstUnits;
  const flags = flagged(current.flags, wanted.rate, kernel);
  // A change that has not begun yet is replaced.
  const isPending = isAhead && t0 === current.t0;
  const multiplier = !isAhead ? 0n : isPending ? current.beforeMultiplier : current.multiplier;
  const preShift = isPending ? current.beforePreShift : current.preShift;
  if (!leavesInfinity && !isHigh && !isCoarse && !isTooFine) {
    const before = rescaledFlow(multiplier, preShift, 0);
    return {
      ...current,
      limits: wanted,
      v0: v,
      t0,
      ...going,
      ...burstOf(wanted.burst, fractionBits, kernel),
      flags,
      ...before,
    };
  }
  const by = ideal - fractionBits;
  const scale = current.scale + 1;
  const v0 = startOf(scale, kernel);
  return {
    limits: wanted,
    v0,
    t0,
    ...flow(wanted.rate, ideal, v0, kernel),
    ...burstOf(wanted.burst, ideal, kernel),
    queueUnits: unitsOf(wanted.extra, ideal + 2),
    tokenShift: ideal + 2,
    flags,
    scale,
    ...rescaledFlow(multiplier, preShift, by),
    lastStart: v & ~3n,
    lastShift: leavesInfinity ? kernel.forgets : by,
    secondLastStart: current.lastStart,
    secondLastShift: current.lastShift,
  };
}

export const bucketSegments: SegmentKind<BucketSegment> = {
  fields: {
    v0: ["BUCKET_V0", "longs"],
    multiplier: ["BUCKET_MULTIPLIER", "longs"],
    burstUnits: ["BUCKET_BURST_UNITS", "longs"],
    nsPerUnit: ["BUCKET_NS_PER_UNIT", "doubles"],
    queueUnits: ["BUCKET_QUEUE_UNITS", "longs"],
    preShift: ["BUCKET_PRE_SHIFT", "words"],
    tokenShift: ["BUCKET_TOKEN_SHIFT", "words"],
    scale: ["BUCKET_SCALE", "words"],
    beforeMultiplier: ["BUCKET_BEFORE_MULTIPLIER", "longs"],
    beforePreShift: ["BUCKET_BEFORE_PRE_SHIFT", "words"],
    lastStart: ["BUCKET_LAST_START", "longs"],
    lastShift: ["BUCKET_LAST_SHIFT", "words"],
    secondLastStart: ["BUCKET_SECOND_LAST_START", "longs"],
    secondLastShift: ["BUCKET_SECOND_LAST_SHIFT", "words"],
  },
  first,
  next,
};

/** True if a global bucket's clock has run so high that it should begin anew. */
export function isRunDown({ t0, life }: Segment, nowNs: bigint): boolean {
  return nowNs - t0 > life / 2n && life < LIFE_NS;
}
