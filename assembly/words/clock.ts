// The virtual clock of a bucket's policy: how many tokens have flowed until now.
//
//   v(now) = v0 + round((now - t0) x rate)
//
// It counts in units of 2^-tokenShift tokens, four at a time: the low two bits
// of a reading are the side of its scale, so that readings, words and differences
// need no masking. A burst or a cost is a multiple of 4 units.
//
// A segment is read with plain loads between two atomic loads of the version. An
// atomic one costs bounds and alignment checks in V8, and would not help: the
// segment in force is written again only after the version has moved on and a
// whole further segment has been computed, ages after any load in flight is done.
//
// The product has up to 128 bits: (dt << preShift) x multiplier, whose high half,
// rounded to the nearest multiple of 4, is what has flowed. The multiplier is
// exact to an eighth of a multiple over 30 years, so that exact boundaries (0.1 s
// at 10/s = 1 token) come out exact. The pre-shift is the same for every bucket
// that fills a table: a constant is quick.

import { BucketSegment, FLAG_QUEUE, Segment } from "../layout/policy";
import { SIDE_BITS } from "../layout/slots";
import { header } from "../layout/table";

/** Pre-shift of every bucket that `isQuick` is true for. */
export const QUICK_PRE_SHIFT: u64 = 4;
/** A first clock's first reading, so that a zero word is fresh whatever the burst. */
export const V_START: u64 = 1 << 59;
/** Largest burst, in units. */
export const MAX_BURST_UNITS: u64 = 1 << 58;
/** Farthest that a word may run ahead of its clock (debt and reservations), in units. */
export const MAX_AHEAD: u64 = 1 << 59;
/** Farthest before t0 that the flow of the segment before is known, ns: 16 ms. */
const MAX_BEFORE: i64 = 1 << 24;
/** A shift by which all words became fresh. */
export const FORGETS: i32 = 127;
/** Scales whose first readings and full words differ: see `startOf`. */
const SCALE_BITS: u64 = (1 << 20) - 1;
/** Words below are full, whatever the burst. */
const FULL_END: u64 = (SCALE_BITS + 2) << 2;

// --- time -------------------------------------------------------------------

/**
 * Whole nanoseconds of a time in milliseconds since the table's epoch, which is
 * not before it; saturates. Adding a half is 8 cycles shorter than `nearest`;
 * from 2^52 ns (52 days) on a double has no halves and the sum would round up.
 */
@inline
export function nanoseconds(ms: f64): i64 {
  return i64(ms * 1e6 + (ms < 4503599627.0 ? 0.5 : 0.0));
}

/** A hot call's time: that of the table's clock cell if it is negative. */
@inline
export function moment(ms: f64): i64 {
  return ms < 0 ? header().clockNs : nanoseconds(ms);
}

/** Nanoseconds since t0: none before it, no more than the segment's life. */
@inline
export function sinceStart(segment: Segment, now: i64): i64 {
  const dt = now - segment.t0;
  return dt < 0 ? 0 : dt > segment.life ? segment.life : dt;
}

/** True from t0 on, for as long as the segment lasts: one comparison sees both ends. */
@inline
export function isWithinLife(segment: Segment, now: i64): bool {
  return u64(now - segment.t0) <= u64(segment.life);
}

/** The high half of a x b. */
@inline
export function highProduct(a: u64, b: u64): u64 {
  const a0 = a & 0xffffffff;
  const a1 = a >> 32;
  const b0 = b & 0xffffffff;
  const b1 = b >> 32;
  const middle = a1 * b0 + ((a0 * b0) >> 32);
  return a1 * b1 + (middle >> 32) + ((a0 * b1 + (middle & 0xffffffff)) >> 32);
}

// --- readings ---------------------------------------------------------------

/** True if a hot call may use `quickReading`: no flag that matters to it, and a time within the clock's life. */
@inline
export function isQuick(segment: Segment, now: i64): bool {
  return isWithinLife(segment, now) && !(segment.flags & ~FLAG_QUEUE);
}

/** As `reading`, when `isQuick`. */
@inline
export function quickReading(segment: BucketSegment, now: i64): u64 {
  const high = highProduct(u64(now - segment.t0) << QUICK_PRE_SHIFT, segment.multiplier);
  return segment.v0 + ((high + 2) & ~SIDE_BITS);
}

/** The reading v(now). Before t0 it is that of the flow before, rounded down, as far back as that is known. */
export function reading(segment: BucketSegment, now: i64): u64 {
  if (now < segment.t0) {
    const left = u64(min(segment.t0 - now, MAX_BEFORE)) << segment.beforePreShift;
    return segment.v0 - ((highProduct(left, segment.beforeMultiplier) + 3) & ~SIDE_BITS);
  }
  const high = highProduct(u64(sinceStart(segment, now)) << segment.preShift, segment.multiplier);
  return segment.v0 + ((high + 2) & ~SIDE_BITS);
}

/** Nanoseconds until the clock, which reads v, reads `target`: 0 at once, Infinity never. */
export function nanosecondsUntil(segment: BucketSegment, now: i64, v: u64, target: u64): f64 {
  if (target <= v) return 0;
  if (now >= segment.t0) return f64(target - v) * segment.nsPerUnit;
  const wait = f64(segment.t0 - now);
  if (target > segment.v0) return f64(target - segment.v0) * segment.nsPerUnit + wait;
  return segment.v0 > v ? f64(target - v) / f64(segment.v0 - v) * min(wait, f64(MAX_BEFORE)) : wait;
}

/**
 * Whole nanoseconds until the clock reads `target` or more. The estimate is
 * good to a part in 2^52; the clock itself decides about the last nanosecond,
 * so that a caller who waits exactly that long does conform.
 */
export function wholeNanosecondsUntil(segment: BucketSegment, now: i64, target: u64): f64 {
  const v = reading(segment, now);
  if (v >= target) return 0;
  let wait = ceil(nanosecondsUntil(segment, now, v, target));
  if (wait > 9e18) return Infinity;
  const back = wait - 1;
  if (back >= 0 && reading(segment, now + i64(back)) >= target) wait = back;
  for (let i = 0; i < 4 && reading(segment, now + i64(wait)) < target; i++) wait += 1 + floor(wait * 2.3e-16);
  return wait;
}

// --- scales -----------------------------------------------------------------
//
// A rate too far from the old one gets a new scale: the clock begins anew in
// other units. A word says by its side, the lowest bit, whether it is of the
// scale in force or of the one before; which of the two it was is rescaled when it
// is met, until a walk has rewritten all (policy.ts). Readings at the start, and
// full words, differ from scale to scale, so that a word never comes back.

/** The first reading of a scale, with its side. */
@inline
export function startOf(scale: u32): u64 {
  return (V_START + ((u64(scale) & SCALE_BITS) << 2)) | u64(scale & 1);
}

/** A word of a full bucket in this scale, whatever the burst. */
@inline
export function fullWord(segment: BucketSegment): u64 {
  return (((u64(segment.scale) & SCALE_BITS) + 1) << 2) | u64(segment.scale & 1);
}

/** The oldest word of a scale that is not full under every burst. */
@inline
function oldestWord(scale: u32): u64 {
  return FULL_END + ((u64(scale) & SCALE_BITS) << 2) | u64(scale & 1);
}

/** A word in the units of this segment, full if it is 0. */
@inline
export function wordIn(segment: BucketSegment, word: u64): u64 {
  return (word & SIDE_BITS) == u64(segment.scale & 1) ? word : rescale(segment, word);
}

/** A word of the scale before, or 0, in the units of this segment. */
export function rescale(segment: BucketSegment, word: u64): u64 {
  return word ? across(segment, word, segment.lastStart, segment.lastShift, segment.scale) : fullWord(segment);
}

/**
 * A due time of up to two scales ago, whose lowest two bits are its scale's, in the
 * units of this segment; 0 if it is longer ago than they can say.
 */
export function dueAtIn(segment: BucketSegment, dueAt: u64): u64 {
  const scales = (segment.scale - u32(dueAt)) & 3;
  if (!scales) return (dueAt & ~SIDE_BITS) | u64(segment.scale & 1);
  if (scales > 1) dueAt = across(segment, dueAt, segment.secondLastStart, segment.secondLastShift, segment.scale - 1);
  if (dueAt >= 2 * FULL_END) dueAt = across(segment, dueAt, segment.lastStart, segment.lastShift, segment.scale);
  return dueAt >= 2 * FULL_END ? dueAt : 0;
}

/** A due time as it leaves the kernel: with two bits of its scale. */
@inline
export function dueAtOut(segment: BucketSegment, v: u64): u64 {
  return (v & ~SIDE_BITS) | u64(segment.scale & 3);
}

/**
 * A word across one change to `scale`, at which the older clock read `start`.
 * Rounded so that a key never gains.
 */
function across(segment: BucketSegment, word: u64, start: u64, shift: i32, scale: u32): u64 {
  const z = word & ~SIDE_BITS;
  if (shift == FORGETS || z < FULL_END) return fullWord(segment);
  const isAhead = z > start;
  let distance = isAhead ? z - start : start - z;
  if (shift >= 0) distance = distance > MAX_AHEAD >> shift ? MAX_AHEAD : distance << shift;
  else distance = (distance + (isAhead ? (1 << u64(-shift)) - 1 : 0)) >> u64(-shift);
  if (isAhead) return startOf(scale) + ((distance + SIDE_BITS) & ~SIDE_BITS);
  const oldest = oldestWord(scale);
  return distance >= startOf(scale) - oldest ? oldest : startOf(scale) - (distance & ~SIDE_BITS);
}
