// The fixed window: a count in one word, and what all windows share.
//
//   63                    countBits+2 countBits+1    2 1  0
//   +--------------------------------+--------------+----+
//   | window number, from 1          | used         | 0  |
//   +--------------------------------+--------------+----+
//
// It is charged by the rule of a bucket: counted from (present window, 0 used) on,
// a word may reach (present window, limit used). A cost never straddles two
// windows; what is reserved for a later window moves the word on to that one, and
// until then the windows before it are closed. A debt fills the windows to come.
// The limit is not part of the word: what was used stays used when it changes.

import { ALGORITHM_SHIFT, FIXED_WINDOW, Segment, WindowSegment } from "../layout/policy";
import { SCRATCH_TAKEN } from "../layout/thread";
import { ANSWER, CONSUME, DEBT, grant, leave } from "../question";
import { scratchAt } from "../thread";
import { highProduct, isWithinLife, sinceStart } from "./clock";

/** Windows are numbered from 1, so that a zero word is older than all. */
export const FIRST_WINDOW: u64 = 1;
/** Lowest bit of a count. */
export const COUNT_SHIFT: u64 = 2;
/** Longest time to report, ns: about 285 years. */
const MAX_NS: u64 = 9_000_000_000_000_000_000;

/**
 * Whole stretches of `length` ns in `dt` ns. A 64-bit division takes longer than
 * all the rest of a decision; the inverse, 2^(64 + shift) / length rounded down,
 * gives a quotient that is exact or 1 too small.
 */
@inline
export function stretchesIn(dt: u64, length: u64, inverse: u64, shift: i32): u64 {
  const stretches = highProduct(dt, inverse) >> shift;
  return dt - stretches * length >= length ? stretches + 1 : stretches;
}

/** Number of the window in which `dt` ns since the first one's beginning fall. */
@inline
export function windowAfter(segment: WindowSegment, dt: u64): u64 {
  return stretchesIn(dt, segment.windowNs, segment.inverse, segment.inverseShift) + FIRST_WINDOW;
}

/** Nanoseconds from `now` until stretch `number` begins, each `length` ns long; 0 if it has, Infinity if beyond that. */
export function untilStretch(segment: Segment, number: u64, length: u64, now: i64): f64 {
  if (number - FIRST_WINDOW > MAX_NS / length) return Infinity;
  const left = segment.t0 - now + i64((number - FIRST_WINDOW) * length);
  return left > 0 ? f64(left) : 0;
}

@inline
function numberIn(segment: WindowSegment, word: u64): u64 {
  return word >> (u64(segment.countBits) + COUNT_SHIFT);
}

@inline
function usedIn(segment: WindowSegment, word: u64): u64 {
  return (word >> COUNT_SHIFT) & ((1 << u64(segment.countBits)) - 1);
}

@inline
function wordOf(segment: WindowSegment, number: u64, used: u64): u64 {
  return (number << (u64(segment.countBits) + COUNT_SHIFT)) | (used << COUNT_SHIFT);
}

/** True if a hot call may use `windowLower`. */
@inline
export function isQuickWindow(segment: Segment, now: i64): bool {
  return segment.flags == FIXED_WINDOW << ALGORITHM_SHIFT && isWithinLife(segment, now);
}

/** The word of the present window with nothing used, when `isQuickWindow`. */
@inline
export function windowLower(segment: WindowSegment, now: i64): u64 {
  return wordOf(segment, windowAfter(segment, u64(now - segment.t0)), 0);
}

/** The same with all of it used. */
@inline
export function windowUpper(lower: u64, segment: WindowSegment): u64 {
  return lower + (u64(segment.limitTokens) << COUNT_SHIFT);
}

/** Decides about a state word, which is 0 for a key without one. */
export function decideWindow(segment: WindowSegment, mode: i32, seen: u64, cost: u32, now: i64, maxWait: i64): void {
  const limit = u64(segment.limitTokens);
  const present = windowAfter(segment, u64(sinceStart(segment, now)));
  const isOver = numberIn(segment, seen) < present;
  const number = isOver ? present : numberIn(segment, seen);
  const used = isOver ? 0 : usedIn(segment, seen);
  let dueIn = number;
  let sum = used + cost;
  if (sum > limit && !(mode & DEBT)) {
    // What is left of this window lapses.
    dueIn++;
    sum = cost;
  } else if (sum > limit && limit && cost) {
    // A debt fills what is left of this window, and then those to come.
    const beyond = used < limit ? sum - limit : u64(cost);
    const windows = (beyond - 1) / limit + 1;
    dueIn += windows;
    sum = beyond - (windows - 1) * limit;
  }
  const isNever = u64(cost) > limit;
  const delay = dueIn > present ? untilStretch(segment, dueIn, segment.windowNs, now) : 0;
  const isOk = (mode & DEBT) != 0 || (!isNever && delay <= f64(maxWait));
  // A word holds no more than its bits.
  dueIn = min(dueIn, u64.MAX_VALUE >> (u64(segment.countBits) + COUNT_SHIFT));
  sum = min(sum, (1 << u64(segment.countBits)) - 1);
  grant(isOk, wordOf(segment, dueIn, sum));
  if (!(mode & ANSWER)) return;
  store<f64>(scratchAt, f64(cost), SCRATCH_TAKEN);
  const isCharged = isOk && (mode & CONSUME) != 0 && cost != 0;
  const last = isCharged ? dueIn : number;
  const lastUsed = isCharged ? sum : used;
  leave(
    f64(limit) - f64(last - present) * f64(limit) - f64(lastUsed),
    isNever ? Infinity : delay,
    lastUsed || last > present ? untilStretch(segment, lastUsed ? last + 1 : last, segment.windowNs, now) : 0,
    isNever ? Infinity : delay,
    wordOf(segment, dueIn, sum) | 1,
  );
}

/**
 * A word with `cost` given back. A refund empties the windows that are filled, the
 * last one first; a cancel gives back to the window that it was reserved in, unless
 * a later one is reserved too.
 */
export function windowAfterRefund(segment: WindowSegment, seen: u64, cost: f64, dueAt: u64, now: i64): u64 {
  const number = numberIn(segment, seen);
  const used = usedIn(segment, seen);
  const back = cost < 4e18 ? u64(cost) : u64(4e18);
  if (dueAt) return numberIn(segment, dueAt) == number ? wordOf(segment, number, used - min(back, used)) : seen;
  const present = windowAfter(segment, u64(sinceStart(segment, now)));
  const limit = u64(segment.limitTokens);
  if (number < present) return seen;
  if (back < used || number == present || !limit) return wordOf(segment, number, used - min(back, used));
  const rest = back - used;
  const windows = min(number - present, rest / limit + 1);
  return wordOf(segment, number - windows, limit - min(limit, rest - (windows - 1) * limit));
}

/** The share of its limit that a word has used: 0 is fresh. */
export function windowDeficit(segment: WindowSegment, word: u64, now: i64): f64 {
  const present = windowAfter(segment, u64(sinceStart(segment, now)));
  const number = numberIn(segment, word);
  if (number < present) return 0;
  return f64(number - present) + f64(usedIn(segment, word)) / f64(max(1, segment.limitTokens));
}

/** Nanoseconds until the window in which a reservation acts. */
export function untilWindowDue(segment: WindowSegment, dueAt: u64, now: i64): f64 {
  return untilStretch(segment, numberIn(segment, dueAt), segment.windowNs, now);
}
