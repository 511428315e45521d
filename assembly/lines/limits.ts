// Several limits on one key, all or nothing: a token bucket each.
//
//   0 +------+---+-------------------------------+
//     | lock | - | words of up to 7 buckets, u64 |
//  64 +------+---+-------------------------------+
//
// Each limit is a policy of its own, with its clock; the words are as in
// words/bucket.ts, but a word of 0 is of every scale. A cost is charged to all as
// of one moment: now, or the first at which all have room.
//
// A decision reads the version of each limit once, decides by the segments of
// those versions, and is thrown away if one of them has changed at the end.

import { BucketSegment, FLAG_UNLIMITED, limitOf, MAX_LIMITS, Policy, segmentOf, versionOf } from "../layout/policy";
import { SIDE_BITS } from "../layout/slots";
import { SCRATCH_LINE, SCRATCH_TAKEN, SCRATCH_VERSIONS } from "../layout/thread";
import { ANSWER, AS_OF, CONSUME, DEBT, grant, leave } from "../question";
import { scratch, scratchAt } from "../thread";
import { charged, needOf, tokensIn, unitsOf } from "../words/bucket";
import { MAX_AHEAD, nanoseconds, reading, rescale, wholeNanosecondsUntil, wordIn } from "../words/clock";

const WORDS: usize = SCRATCH_LINE + 8;

/** The word of limit `i`, in the scratch's line. */
@inline
function wordAt(i: i32): usize {
  return scratchAt + WORDS + usize(i) * 8;
}

@inline
function versionAt(i: i32): usize {
  return scratchAt + SCRATCH_VERSIONS + usize(i) * 4;
}

/** The segment of limit `i` as of now: `segmentAt` answers the same from here on. */
@inline
function readSegment(policy: Policy, i: i32): BucketSegment {
  const limit = limitOf(policy, i);
  const version = versionOf(limit);
  store<u32>(versionAt(i), version);
  return changetype<BucketSegment>(segmentOf(limit, version));
}

/** True if no limit has changed since. */
export function areLimitsCurrent(policy: Policy): bool {
  const limitCount = i32(policy.limitCount);
  for (let i = 0; i < limitCount; i++) {
    if (load<u32>(versionAt(i)) != versionOf(limitOf(policy, i))) return false;
  }
  return true;
}

@inline
function segmentAt(policy: Policy, i: i32): BucketSegment {
  return changetype<BucketSegment>(segmentOf(limitOf(policy, i), load<u32>(versionAt(i))));
}

/** Where bucket `i` stands when its clock reads v. */
@inline
function zAt(segment: BucketSegment, i: i32, v: u64): u64 {
  return max(wordIn(segment, load<u64>(wordAt(i))), v - segment.burstUnits);
}

/** The largest deficit of all limits of the line in the scratch: 0 or less is fresh. */
export function limitsDeficit(policy: Policy, now: i64): f64 {
  let most = 0.0;
  for (let i = 0; i < i32(policy.limitCount); i++) {
    const segment = readSegment(policy, i);
    if (segment.flags & FLAG_UNLIMITED) continue;
    const v = reading(segment, now);
    most = max(most, f64(i64(zAt(segment, i, v) - (v - segment.burstUnits))) / f64(max(1, segment.burstUnits)));
  }
  return most;
}

/**
 * For a call that wants no more than yes or no: one reading for each limit.
 * It charges as it goes; of a refusal, the scratch's line is thrown away.
 */
function decideNow(policy: Policy, cost: u32, now: i64): bool {
  const limitCount = i32(policy.limitCount);
  for (let i = 0; i < limitCount; i++) {
    const segment = readSegment(policy, i);
    if (segment.flags & FLAG_UNLIMITED) continue;
    const v = reading(segment, now);
    const next = charged(wordIn(segment, load<u64>(wordAt(i))), v - segment.burstUnits, needOf(segment, cost));
    if (next > v || cost > segment.limitTokens) return false;
    store<u64>(wordAt(i), next);
  }
  return true;
}

/** Of several limits, the one that a refusal waits for longest; -1 if all have room. */
let slowest: i32 = -1;

/** Nanoseconds until the first moment at which all limits have room; Infinity never. */
function delayOf(policy: Policy, cost: u32, now: i64): f64 {
  let delay = 0.0;
  slowest = -1;
  for (let i = 0; i < i32(policy.limitCount); i++) {
    const segment = readSegment(policy, i);
    if (segment.flags & FLAG_UNLIMITED) continue;
    const v = reading(segment, now);
    const isTooMuch = cost > segment.limitTokens;
    const next = charged(wordIn(segment, load<u64>(wordAt(i))), v - segment.burstUnits, needOf(segment, cost));
    if (next <= v && !isTooMuch) continue;
    const own = isTooMuch ? Infinity : wholeNanosecondsUntil(segment, now, next);
    if (own <= delay) continue;
    delay = own;
    slowest = i;
  }
  return delay;
}

/** Charges limit `i` as of `due`; leaves what that took. */
function chargeLimit(segment: BucketSegment, i: i32, cost: u32, v: u64, before: u64): u64 {
  let next = charged(wordIn(segment, load<u64>(wordAt(i))), v - segment.burstUnits, needOf(segment, cost));
  if (next > v && next - v > MAX_AHEAD) next = v + MAX_AHEAD;
  store<u64>(wordAt(i), next);
  store<f64>(scratchAt + usize(i) * 8, tokensIn(segment, i64(next - before)), SCRATCH_TAKEN);
  return next;
}

/**
 * Decides about the words in the scratch, and charges them there if they all have room. Leaves the
 * limit that decided.
 */
export function decideLimits(policy: Policy, mode: i32, cost: u32, now: i64, maxWait: i64): void {
  if (!(mode & (ANSWER | DEBT)) && maxWait <= 0) {
    grant(decideNow(policy, cost, now), 0);
    return;
  }
  const delay = delayOf(policy, cost, now);
  const isOk = (mode & DEBT) != 0 || delay == 0 || delay <= f64(maxWait);
  const isCharged = isOk && (mode & CONSUME) != 0;
  grant(isOk, 0);
  const due = mode & DEBT || delay > 9e18 ? now : now + i64(delay);
  let fewest = Infinity;
  let tightest = 0;
  let reset = 0.0;
  for (let i = 0; i < i32(policy.limitCount); i++) {
    const segment = segmentAt(policy, i);
    if (segment.flags & FLAG_UNLIMITED) continue;
    const v = reading(segment, now);
    let after = zAt(segment, i, v);
    if (isCharged) {
      const before = mode & AS_OF ? zAt(segment, i, reading(segment, nanoseconds(scratch().presentMs))) : after;
      after = chargeLimit(segment, i, cost, due == now ? v : reading(segment, due), before);
    }
    const tokens = tokensIn(segment, i64(v - after));
    if (tokens < fewest) {
      fewest = tokens;
      tightest = i;
    }
    reset = max(reset, wholeNanosecondsUntil(segment, now, after + segment.burstUnits));
  }
  scratch().limitIndex = isOk || slowest < 0 ? tightest : slowest;
  leave(fewest, delay, reset, delay, (u64(due) << 2) | 1);
}

/**
 * Gives every word in the scratch `cost` back; or, for a cancel, what the scratch
 * says that the reservation took, as far as it was not reserved behind `dueAt`.
 * True if any went back.
 */
export function refundLimits(policy: Policy, cost: f64, dueAt: u64, now: i64): bool {
  let isAny = false;
  for (let i = 0; i < i32(policy.limitCount); i++) {
    const segment = readSegment(policy, i);
    if (segment.flags & FLAG_UNLIMITED) continue;
    const v = reading(segment, now);
    const z = zAt(segment, i, v);
    let back = unitsOf(segment, dueAt ? load<f64>(scratchAt + usize(i) * 8, SCRATCH_TAKEN) : cost);
    if (dueAt) {
      const due = reading(segment, i64(dueAt >> 2));
      if (z > due) back = z - due < back ? back - (z - due) : 0;
    }
    back = min(back, z - (v - segment.burstUnits));
    store<u64>(wordAt(i), z - back);
    if (back) isAny = true;
  }
  return isAny;
}

/** Writes the words in the scratch in the scale that each limit is in now. */
export function rescaleLimits(policy: Policy): void {
  for (let i = 0; i < i32(policy.limitCount); i++) {
    const word = load<u64>(wordAt(i));
    const segment = readSegment(policy, i);
    if (word && (word & SIDE_BITS) != u64(segment.scale & 1)) store<u64>(wordAt(i), rescale(segment, word));
  }
}

if (WORDS + usize(MAX_LIMITS) * 8 > SCRATCH_LINE + 64) ERROR("words run beyond the line");
