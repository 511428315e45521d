// The token bucket in one word.
//
// A key's word z is the virtual time at which its bucket is (or was) empty:
//
//   tokens = min(burst, v(now) - z)
//   admit  : next = max(z, v(now) - burst) + cost ;  ok if next <= v(horizon)
//
// That is GCRA (ITU-T I.371) with time counted in tokens, so that one clock a
// policy serves all its keys and a new rate is a new segment of that clock. An
// integer cost is added exactly; only reading the clock rounds, and that does
// not accumulate. A refusal writes nothing.

import { BucketSegment, FLAG_CUT_WAIT, FLAG_PAY_LATER, FLAG_QUEUE, FLAG_SHADOW } from "../layout/policy";
import { SIDE_BITS } from "../layout/slots";
import { SCRATCH_TAKEN } from "../layout/thread";
import { ANSWER, AS_OF, CONSUME, DEBT, EVEN_NEVER, FOREVER, grant, leave } from "../question";
import { scratch, scratchAt } from "../thread";
import { dueAtIn, dueAtOut, fullWord, MAX_AHEAD, MAX_BURST_UNITS, nanoseconds, nanosecondsUntil } from "./clock";
import { reading, wholeNanosecondsUntil, wordIn } from "./clock";

/**
 * The rule of every bucket and window: a word charged with `need`, counted from `lower` on. It may not
 * pass the upper bound.
 */
@inline
export function charged(word: u64, lower: u64, need: u64): u64 {
  return (word > lower ? word : lower) + need;
}

/** Units as tokens. */
@inline
export function tokensIn(segment: BucketSegment, units: i64): f64 {
  return f64(units) / f64(u64(1) << segment.tokenShift);
}

/** Tokens as units, at most as many as a word may run ahead. */
@inline
export function unitsOf(segment: BucketSegment, tokens: f64): u64 {
  return u64(min(tokens * f64(u64(1) << segment.tokenShift), f64(MAX_AHEAD))) & ~SIDE_BITS;
}

/** A cost in units; one beyond what a word may run ahead saturates. */
@inline
export function needOf(segment: BucketSegment, cost: u32): u64 {
  return u64(cost) > MAX_AHEAD >> segment.tokenShift ? MAX_AHEAD : u64(cost) << segment.tokenShift;
}

/** How far a call that waits up to `maxWait` may run ahead: the last reading that conforms. */
function horizonOf(segment: BucketSegment, v: u64, now: i64, maxWait: i64): u64 {
  const wait = segment.flags & FLAG_SHADOW ? 0 : maxWait;
  const end = now > 0 && wait > FOREVER - 1 - now ? FOREVER - 1 : now + wait;
  let horizon = wait > 0 ? reading(segment, end) : v;
  if (segment.flags & FLAG_CUT_WAIT) horizon = max(horizon, reading(segment, end + 1) - (SIDE_BITS + 1));
  return segment.flags & FLAG_QUEUE ? min(horizon, v + segment.queueUnits) : horizon;
}

/** Decides about a state word, which is 0 for a key without one. */
export function decideBucket(segment: BucketSegment, mode: i32, seen: u64, cost: u32, now: i64, maxWait: i64): void {
  const v = reading(segment, now);
  const burst = segment.burstUnits;
  const isLater = (segment.flags & FLAG_PAY_LATER) != 0;
  const word = wordIn(segment, seen);
  const z = max(word, v - burst);
  let next = charged(word, v - burst, needOf(segment, cost));
  // Paying later, a cost waits for what others took, not for its own.
  const due = isLater ? z : next;
  const isNever = !isLater && cost > segment.limitTokens;
  const isBeyond = next > v && next - v > MAX_AHEAD;
  let isOk = due <= horizonOf(segment, v, now, maxWait) || (maxWait == FOREVER && (mode & EVEN_NEVER) != 0);
  if (isNever || isBeyond) isOk = false;
  if (mode & DEBT) {
    isOk = true;
    // A debt has a bound; a word that is beyond it already stays where it is.
    if (isBeyond) next = max(z, v + MAX_AHEAD);
  }
  grant(isOk, next);
  if (!(mode & ANSWER)) return;
  // Where the bucket stood in truth, if this is decided as of a later moment.
  const present = mode & AS_OF ? reading(segment, nanoseconds(scratch().presentMs)) : v;
  store<f64>(scratchAt, tokensIn(segment, i64(next - max(word, present - burst))), SCRATCH_TAKEN);
  const after = isOk && mode & CONSUME ? next : z;
  const isPast = isOk && due <= v;
  leave(
    tokensIn(segment, i64(v - after)),
    isPast ? 0 : isNever ? Infinity : wholeNanosecondsUntil(segment, now, due),
    wholeNanosecondsUntil(segment, now, after + burst),
    isPast ? 0 : nanosecondsUntil(segment, now, v, due),
    dueAtOut(segment, max(due, v)),
  );
}

/**
 * A word with `cost` tokens given back, at most up to the burst. With a due time
 * it is a cancel, which gives back what was not reserved behind it.
 */
export function bucketAfterRefund(segment: BucketSegment, seen: u64, cost: f64, dueAt: u64, now: i64): u64 {
  const lower = reading(segment, now) - segment.burstUnits;
  const z = max(wordIn(segment, seen), lower);
  let back = unitsOf(segment, cost);
  if (dueAt) {
    const due = dueAtIn(segment, dueAt);
    // Too long ago: how much was reserved behind it is unknown.
    if (!due) return seen;
    // Paying later, its own cost lies behind its due time.
    const end = due + (segment.flags & FLAG_PAY_LATER ? back : 0);
    if (z > end) back = z - end < back ? back - (z - end) : 0;
  }
  back = min(back, z - lower);
  return back ? z - back : seen;
}

/**
 * A word that holds `tokens` (fractions and debts too), at most the burst; of Infinity, a word full
 * under any later burst.
 */
export function bucketHolding(segment: BucketSegment, tokens: f64, now: i64): u64 {
  if (tokens == Infinity) return fullWord(segment);
  let units: i64 = i64(nearest(tokens * f64(u64(1) << (segment.tokenShift - 2)))) << 2;
  if (tokens * f64(u64(1) << segment.tokenShift) >= f64(segment.burstUnits)) units = i64(segment.burstUnits);
  return reading(segment, now) - max(units, -i64(MAX_AHEAD));
}

/** The share of its burst that a word lacks: 0 or less is fresh, 1 is empty, more is in debt. */
export function bucketDeficit(segment: BucketSegment, word: u64, now: i64): f64 {
  const burst = segment.burstUnits;
  const missing = i64(wordIn(segment, word) - (reading(segment, now) - burst));
  // A burst of 0 is never less than empty; debt still counts.
  return f64(missing) / (burst ? f64(burst) : f64(MAX_BURST_UNITS));
}
