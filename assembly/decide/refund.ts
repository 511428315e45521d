// Giving back, setting by hand, and asking when a reservation may act.

import { algorithmIn, BUCKET, BucketSegment, FIXED_WINDOW, FLAG_UNLIMITED, isCurrent } from "../layout/policy";
import { isLineKind, LEASE, LIMITS, Policy, RING, RingSegment, Segment, segmentOf } from "../layout/policy";
import { SLIDING_COUNTER, versionOf, WARM_UP, WarmUpSegment, WindowSegment } from "../layout/policy";
import { BUSY, SIDE_BITS } from "../layout/slots";
import { areLimitsCurrent, refundLimits } from "../lines/limits";
import { refundRing, untilRingDue } from "../lines/ring";
import { refundWarmUp } from "../lines/warm-up";
import { clearLine, fetchLine, swapState } from "../table/lines";
import { keyIn, see, target } from "../table/slots";
import { PATIENCE, scratch } from "../thread";
import { bucketAfterRefund, bucketHolding } from "../words/bucket";
import { dueAtIn, dueAtOut, nanoseconds, wholeNanosecondsUntil } from "../words/clock";
import { slidingAfterRefund, untilSlidingDue } from "../words/sliding";
import { untilWindowDue, windowAfterRefund } from "../words/window";

/**
 * Gives tokens back: 1 if some were. With `dueAt` 0 it is a plain refund, which
 * fills the bucket at most. With the moment at which a reservation was to act it is
 * a cancel, which gives back what was not reserved behind it.
 */
export function refund(policy: Policy, mode: i32, cost: f64, dueAt: u64, ms: f64): i32 {
  const now = nanoseconds(ms);
  for (let tries = 0; tries <= PATIENCE; tries++) {
    const version = versionOf(policy);
    const segment = segmentOf(policy, version);
    const slot = target(policy, mode);
    if (!slot || segment.flags & FLAG_UNLIMITED) return 0;
    if (isLineKind(segment.flags)) {
      if (!fetchLine(policy, slot, mode, tries)) continue;
      if (!refundLine(policy, segment, cost, dueAt, now)) return 0;
      if (algorithmIn(segment.flags) == LIMITS && !areLimitsCurrent(policy)) continue;
      if (swapState(policy, slot, mode, 0, 0)) return 1;
      continue;
    }
    const seen = see(policy, slot, keyIn(mode), tries);
    if ((seen & SIDE_BITS) == BUSY) continue;
    const next = wordAfterRefund(segment, seen, cost, dueAt, now);
    if (!isCurrent(policy, version)) continue;
    if (next == seen) return 0;
    if (swapState(policy, slot, mode, seen, next)) return 1;
  }
  return 0;
}

/** A word with tokens given back; the same if there are none to give. */
function wordAfterRefund(segment: Segment, seen: u64, cost: f64, dueAt: u64, now: i64): u64 {
  switch (algorithmIn(segment.flags)) {
    case BUCKET:
      return bucketAfterRefund(changetype<BucketSegment>(segment), seen, cost, dueAt, now);
    case FIXED_WINDOW:
      return windowAfterRefund(changetype<WindowSegment>(segment), seen, cost, dueAt, now);
    case SLIDING_COUNTER:
      return slidingAfterRefund(changetype<WindowSegment>(segment), seen, cost, dueAt);
    default:
      unreachable();
  }
  return seen;
}

/** Gives tokens back in the scratch's line: true if some were. */
function refundLine(policy: Policy, segment: Segment, cost: f64, dueAt: u64, now: i64): bool {
  switch (algorithmIn(segment.flags)) {
    case RING:
      return refundRing(changetype<RingSegment>(segment), cost, dueAt);
    case LIMITS:
      return refundLimits(policy, cost, dueAt, now);
    case WARM_UP:
      return refundWarmUp(changetype<WarmUpSegment>(segment), cost, dueAt, now);
    default:
      unreachable();
  }
  return false;
}

/**
 * Makes a bucket hold `tokens` (fractions and debts too), at most its burst; of
 * every other kind, makes the key one never seen, whatever the tokens.
 */
export function setTokens(policy: Policy, mode: i32, tokens: f64, ms: f64): void {
  const now = nanoseconds(ms);
  for (let tries = 0; tries <= PATIENCE; tries++) {
    const version = versionOf(policy);
    const segment = segmentOf(policy, version);
    const slot = target(policy, mode);
    if (!slot) return;
    let seen: u64 = 0;
    if (isLineKind(segment.flags)) {
      if (!fetchLine(policy, slot, mode, tries)) continue;
      clearLine();
    } else {
      seen = see(policy, slot, keyIn(mode), tries);
      if ((seen & SIDE_BITS) == BUSY) continue;
    }
    const next = wordHolding(segment, tokens, now);
    if (isCurrent(policy, version) && swapState(policy, slot, mode, seen, next)) return;
  }
}

/** The word of a bucket with `tokens`; of another kind, that of a key never seen. */
function wordHolding(segment: Segment, tokens: f64, now: i64): u64 {
  switch (algorithmIn(segment.flags)) {
    case BUCKET:
      return bucketHolding(changetype<BucketSegment>(segment), tokens, now);
    case FIXED_WINDOW:
    case SLIDING_COUNTER:
    case LEASE:
    case RING:
    case LIMITS:
    case WARM_UP:
      return 0;
    default:
      unreachable();
  }
  return 0;
}

/** Whole ns until a reservation may act, as its policy stands now: 0 now, Infinity never. */
export function untilDueAt(policy: Policy, low: u32, high: u32, ms: f64): f64 {
  const dueAt = (u64(high) << 32) | u64(low);
  const now = nanoseconds(ms);
  while (true) {
    const version = versionOf(policy);
    const ns = untilDue(segmentOf(policy, version), dueAt, now);
    if (isCurrent(policy, version)) return ns;
  }
}

function untilDue(segment: Segment, dueAt: u64, now: i64): f64 {
  switch (algorithmIn(segment.flags)) {
    case BUCKET: {
      if (segment.flags & FLAG_UNLIMITED) return 0;
      const bucket = changetype<BucketSegment>(segment);
      return wholeNanosecondsUntil(bucket, now, dueAtIn(bucket, dueAt));
    }
    case FIXED_WINDOW:
      return untilWindowDue(changetype<WindowSegment>(segment), dueAt, now);
    case SLIDING_COUNTER:
      return untilSlidingDue(changetype<WindowSegment>(segment), dueAt, now);
    case RING:
      return untilRingDue(changetype<RingSegment>(segment), dueAt, now);
    case LIMITS:
    case WARM_UP:
      // They act at a time, whatever the rate does.
      return f64(max(0, i64(dueAt >> 2) - now));
    default:
      unreachable();
  }
  return 0;
}

/**
 * The due time of a bucket's reservation in the present scale, left in the scratch; that of another
 * kind stays as it is.
 */
export function rescaleDueAt(policy: Policy, low: u32, high: u32): void {
  const segment = segmentOf(policy, versionOf(policy));
  const dueAt = (u64(high) << 32) | u64(low);
  if (algorithmIn(segment.flags) != BUCKET) {
    scratch().dueAt = dueAt;
    return;
  }
  const bucket = changetype<BucketSegment>(segment);
  scratch().dueAt = dueAtOut(bucket, dueAtIn(bucket, dueAt));
}
