// The sliding window counter: two windows' counts in one word.
//
//   63              2 countBits+2      countBits+2               2 1  0
//   +----------------------------+----------------+---------------+----+
//   | window number, from 1      | former count   | present count | 0  |
//   +----------------------------+----------------+---------------+----+
//
// What the last window's length has seen is estimated as the present count and
// the share of the former one that still overlaps:
//
//   estimate = former x (W - elapsed) / W + present
//
// compared in whole numbers, 128 bits wide, so that boundaries are exact. (As
// Cloudflare describes, "How we built rate limiting capable of scaling to
// millions of domains", 2017.) It assumes that the former window's calls came
// evenly; docs/algorithms.md has the worst case.
//
// A reservation moves the word on to the window in which it acts; until then
// the word is ahead of the clock, and no other call acts before.

import { WindowSegment } from "../layout/policy";
import { SIDE_BITS } from "../layout/slots";
import { SCRATCH_TAKEN } from "../layout/thread";
import { ANSWER, CONSUME, DEBT, grant, leave } from "../question";
import { scratchAt } from "../thread";
import { highProduct, sinceStart } from "./clock";
import { COUNT_SHIFT, FIRST_WINDOW, windowAfter } from "./window";

@inline
function bitsOf(segment: WindowSegment): u64 {
  return u64(segment.countBits);
}

@inline
function maskOf(segment: WindowSegment): u64 {
  return (1 << bitsOf(segment)) - 1;
}

@inline
function numberIn(segment: WindowSegment, word: u64): u64 {
  return word >> (2 * bitsOf(segment) + COUNT_SHIFT);
}

@inline
function formerIn(segment: WindowSegment, word: u64): u64 {
  return (word >> (bitsOf(segment) + COUNT_SHIFT)) & maskOf(segment);
}

@inline
function countIn(segment: WindowSegment, word: u64): u64 {
  return (word >> COUNT_SHIFT) & maskOf(segment);
}

@inline
function wordOf(segment: WindowSegment, number: u64, former: u64, counted: u64): u64 {
  const bits = bitsOf(segment);
  return (number << (2 * bits + COUNT_SHIFT)) | (former << (bits + COUNT_SHIFT)) | (counted << COUNT_SHIFT);
}

/** a x b <= c x d, 128 bits wide. */
function isProductAtMost(a: u64, b: u64, c: u64, d: u64): bool {
  const left = highProduct(a, b);
  const right = highProduct(c, d);
  return left < right || (left == right && a * b <= c * d);
}

/** Least elapsed ns at which `former` weighs no more than `room`; `window` if only the next window's start. */
function lightAt(former: u64, room: u64, window: u64): u64 {
  if (former <= room) return 0;
  // former x (W - e) <= room x W: the estimate by doubles is mended by one either way.
  let spent = u64(f64(room) * f64(window) / f64(former));
  if (spent > window) spent = window;
  while (spent && !isProductAtMost(former, spent, room, window)) spent--;
  while (spent < window && isProductAtMost(former, spent + 1, room, window)) spent++;
  return window - spent;
}

/** Answers of `quickSliding` that are not words. */
export const SLIDING_REFUSED: u64 = 0;
export const SLIDING_RARE: u64 = 1;

/**
 * What a word becomes when `cost` is charged at `now`, for a call that will not
 * wait: SLIDING_REFUSED if it has no room, SLIDING_RARE if it is ahead of the
 * clock or not a plain word.
 */
export function quickSliding(segment: WindowSegment, word: u64, cost: u32, now: i64): u64 {
  const dt = u64(now - segment.t0);
  const window = segment.windowNs;
  const present = windowAfter(segment, dt);
  const number = numberIn(segment, word);
  if (number > present || word & SIDE_BITS) return SLIDING_RARE;
  let former = formerIn(segment, word);
  let counted = countIn(segment, word);
  if (number != present) {
    former = number + 1 == present ? counted : 0;
    counted = 0;
  }
  const sum = counted + cost;
  const limit = u64(segment.limitTokens);
  if (sum > limit) return SLIDING_REFUSED;
  const left = window - (dt - (present - FIRST_WINDOW) * window);
  if (former && !isProductAtMost(former, left, limit - sum, window)) return SLIDING_REFUSED;
  return wordOf(segment, present, former, sum);
}

// Where a cost has room: a window's number, and the elapsed ns and the counts there.
let dueIn: u64 = 0;
let dueElapsed: u64 = 0;
let dueFormer: u64 = 0;
let dueCounted: u64 = 0;

/**
 * Finds the first moment with room for `cost`: in window `number` from `elapsed` on, in the next, or
 * in the one after.
 */
function findRoom(number: u64, elapsed: u64, former: u64, counted: u64, cost: u64, limit: u64, window: u64): void {
  dueIn = number;
  dueElapsed = elapsed;
  dueFormer = former;
  dueCounted = counted;
  let light = counted + cost <= limit ? lightAt(former, limit - counted - cost, window) : window;
  if (light == window) {
    dueIn++;
    dueFormer = counted;
    dueCounted = 0;
    dueElapsed = 0;
    light = lightAt(counted, limit - cost, window);
    if (light == window) {
      dueIn++;
      dueFormer = 0;
      light = 0;
    }
  }
  if (light > dueElapsed) dueElapsed = light;
}

/** Decides about a state word, which is 0 for a key without one. */
export function decideSliding(segment: WindowSegment, mode: i32, seen: u64, cost: u32, now: i64, maxWait: i64): void {
  const window = segment.windowNs;
  const limit = u64(segment.limitTokens);
  const dt = u64(sinceStart(segment, now));
  const present = windowAfter(segment, dt);
  const elapsed = dt - (present - FIRST_WINDOW) * window;
  // The word as it stands now, or at the start of the window that it is ahead in.
  let number = numberIn(segment, seen);
  let former = formerIn(segment, seen);
  let counted = countIn(segment, seen);
  const isAhead = number > present;
  if (number < present) {
    former = number + 1 == present ? counted : 0;
    counted = 0;
    number = present;
  }
  const isNever = u64(cost) > limit;
  // Where it stands, if it does not look for room.
  const looks = !isNever && !(mode & DEBT);
  findRoom(number, isAhead ? 0 : elapsed, former, counted, cost, looks ? limit : u64.MAX_VALUE, window);
  const delay = i64((dueIn - present) * window + dueElapsed) - i64(elapsed);
  const isOk = (mode & DEBT) != 0 || (!isNever && delay <= maxWait);
  const sum = min(dueCounted + cost, maskOf(segment));
  grant(isOk, wordOf(segment, dueIn, dueFormer, sum));
  if (!(mode & ANSWER)) return;
  store<f64>(scratchAt, f64(cost), SCRATCH_TAKEN);
  const dueAt = (((dueIn - FIRST_WINDOW) * window + dueElapsed) << 2) | 1;
  if (isOk && mode & CONSUME && cost) {
    number = dueIn;
    former = dueFormer;
    counted = sum;
  }
  const weight = f64(number > present ? window : window - elapsed) / f64(window);
  const end = f64((number - present) * window) + f64(window - elapsed);
  leave(
    f64(i64(limit) - i64(counted)) - f64(former) * weight,
    isNever ? Infinity : f64(delay),
    counted ? end + f64(window) : former ? end : 0,
    f64(delay),
    dueAt,
  );
}

/**
 * A word with `cost` taken out of the window in which it was counted: the one
 * of `dueAt` if it is a cancel, else the present one and then the one before.
 */
export function slidingAfterRefund(segment: WindowSegment, seen: u64, cost: f64, dueAt: u64): u64 {
  const mask = maskOf(segment);
  const number = numberIn(segment, seen);
  let former = formerIn(segment, seen);
  let counted = countIn(segment, seen);
  let back = cost < f64(mask) * 2 ? u64(cost) : mask * 2;
  const from = dueAt ? (dueAt >> 2) / segment.windowNs + FIRST_WINDOW : number;
  if (from == number) {
    const some = min(back, counted);
    counted -= some;
    back = dueAt ? 0 : back - some;
  }
  if (!dueAt || from + 1 == number) former -= min(back, former);
  return wordOf(segment, number, former, counted);
}

/** The share of its limit that a word has used: 0 is fresh. */
export function slidingDeficit(segment: WindowSegment, word: u64, now: i64): f64 {
  const window = segment.windowNs;
  const dt = u64(sinceStart(segment, now));
  const present = windowAfter(segment, dt);
  const left = f64(present * window - dt) / f64(window);
  const number = numberIn(segment, word);
  const counted = f64(countIn(segment, word));
  const limit = f64(max(1, segment.limitTokens));
  if (number + 1 < present) return 0;
  if (number + 1 == present) return counted * left / limit;
  return (f64(formerIn(segment, word)) * (number == present ? left : 1) + counted) / limit;
}

/** Nanoseconds until a reservation may act. */
export function untilSlidingDue(segment: WindowSegment, dueAt: u64, now: i64): f64 {
  const left = segment.t0 + i64(dueAt >> 2) - now;
  return left > 0 ? f64(left) : 0;
}
