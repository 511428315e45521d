// The general decision: every algorithm, every question.
//
//   version and segment: load            an algorithm never sees a torn segment:
//   slot: look up                        the version is compared at the end
//   state: see, or copy the line
//   decide on it (words/, lines/): plain arithmetic
//   version: still the same? else again
//   state: swap, or claim a slot; another thread came first? again

import { algorithmIn, BUCKET, BucketSegment, FIXED_WINDOW, FLAG_SHADOW, FLAG_UNLIMITED } from "../layout/policy";
import { isCurrent, isLineKind, LIMITS, Policy, RING, RingSegment, Segment, segmentOf } from "../layout/policy";
import { SLIDING_COUNTER, versionOf, WARM_UP, WarmUpSegment, WindowSegment } from "../layout/policy";
import { BUSY, SIDE_BITS } from "../layout/slots";
import { Counters } from "../layout/thread";
import { areLimitsCurrent, decideLimits } from "../lines/limits";
import { decideRing } from "../lines/ring";
import { decideWarmUp } from "../lines/warm-up";
import { admitted, ANSWER, CONSUME, full, giveUp, isGranted, leave, LOOK_UP, nextWord } from "../question";
import { refused, unlimited } from "../question";
import { claim, CLAIM_AGAIN, CLAIM_FULL, CLAIM_TAKEN } from "../table/claim";
import { fetchLine, swapState } from "../table/lines";
import { keyIn, LOST, otherLineSet, see, target } from "../table/slots";
import { count, PATIENCE, scratch } from "../thread";
import { decideBucket } from "../words/bucket";
import { nanoseconds } from "../words/clock";
import { decideSliding } from "../words/sliding";
import { decideWindow } from "../words/window";

/**
 * Decides for the key in the scratch, or the global bucket: 1 granted, 0 not.
 * Allows a wait of up to `maxWaitMs`. If it is to ANSWER, it leaves the answer in
 * the scratch (see `leave`), and what it took: its cost, and for a bucket the tokens
 * that would have overflowed until then.
 */
export function decide(policy: Policy, mode: i32, cost: u32, ms: f64, maxWaitMs: f64): i32 {
  return decideAt(policy, mode, cost, nanoseconds(ms), nanoseconds(maxWaitMs));
}

/** The same in ns; a wait of FOREVER has no end. */
export function decideAt(policy: Policy, mode: i32, cost: u32, now: i64, maxWait: i64): i32 {
  for (let tries = 0; tries <= PATIENCE; tries++) {
    const version = versionOf(policy);
    const segment = segmentOf(policy, version);
    const flags = segment.flags;
    if (flags & FLAG_UNLIMITED) return unlimited(policy, segment, mode);
    const slot = target(policy, mode);
    if (slot == LOST) return LOOK_UP;
    let seen: u64 = 0;
    if (isLineKind(flags)) {
      if (!fetchLine(policy, slot, mode, tries)) continue;
    } else {
      seen = see(policy, slot, keyIn(mode), tries);
      if ((seen & SIDE_BITS) == BUSY) continue;
    }
    // A shadow never makes a caller wait.
    ask(policy, segment, mode, seen, cost, now, flags & FLAG_SHADOW ? 0 : maxWait);
    if (!isCurrent(policy, version)) continue;
    if (algorithmIn(flags) == LIMITS && !areLimitsCurrent(policy)) continue;
    if (isGranted && mode & CONSUME && cost) {
      const taken = take(policy, version, slot, mode, seen, now, tries);
      if (taken == CLAIM_AGAIN) continue;
      if (taken == CLAIM_FULL) return noRoom(policy, segment, mode);
    }
    return answered(policy, flags, mode);
  }
  return giveUp(policy);
}

/** Asks the policy's algorithm. */
function ask(policy: Policy, segment: Segment, mode: i32, seen: u64, cost: u32, now: i64, maxWait: i64): void {
  switch (algorithmIn(segment.flags)) {
    case BUCKET:
      return decideBucket(changetype<BucketSegment>(segment), mode, seen, cost, now, maxWait);
    case FIXED_WINDOW:
      return decideWindow(changetype<WindowSegment>(segment), mode, seen, cost, now, maxWait);
    case SLIDING_COUNTER:
      return decideSliding(changetype<WindowSegment>(segment), mode, seen, cost, now, maxWait);
    case RING:
      return decideRing(changetype<RingSegment>(segment), mode, cost, now, maxWait);
    case LIMITS:
      return decideLimits(policy, mode, cost, now, maxWait);
    case WARM_UP:
      return decideWarmUp(changetype<WarmUpSegment>(segment), mode, cost, now, maxWait);
    default:
      // A lease is taken by decide/lease.ts only.
      unreachable();
  }
}

/** Writes what was granted: as `claim` answers. */
function take(policy: Policy, version: u32, slot: usize, mode: i32, seen: u64, now: i64, tries: i32): i32 {
  if (!slot) {
    const own = scratch();
    const a = usize(own.setA);
    const b = isLineKind(policy.flags) ? otherLineSet(a, own.key) : usize(own.setB);
    return claim(policy, version, own.key, a, b, nextWord, now, tries);
  }
  return swapState(policy, slot, mode, seen, nextWord) ? CLAIM_TAKEN : CLAIM_AGAIN;
}

/** The answer for a new key that found no room. */
function noRoom(policy: Policy, segment: Segment, mode: i32): i32 {
  const isAllowed = full(policy);
  if (mode & ANSWER) leave(f64(segment.limitTokens), isAllowed ? 0 : 1e6, 0, 0, 0);
  return isAllowed;
}

/** Counts what was found, and leaves it in the scratch. */
function answered(policy: Policy, flags: i32, mode: i32): i32 {
  const isShadowed = !isGranted && (flags & FLAG_SHADOW) != 0;
  if (isShadowed) {
    const answer = scratch();
    leave(answer.tokens, 0, answer.resetNs, 0, 0);
  }
  if (!(mode & CONSUME)) return i32(isGranted || isShadowed);
  if (isShadowed) count(policy, offsetof<Counters>("shadowed"));
  return isGranted || isShadowed ? admitted(policy) : refused(policy);
}
