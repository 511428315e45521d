// The hot calls: a plain yes or no for one word, without a wait.
//
// A slot's word is written by one swap by the thread that decides; nothing is
// locked while deciding, so a thread that stops here stops no other.
//
// Bucket and fixed window are decided alike: a word counts from `lower` on, and may
// be charged up to `upper`. Of a bucket these are v - burst and v; of a window the
// present window with nothing used and with all of it used.

import { ALGORITHM_SHIFT, BucketSegment, isCurrent, Policy, POLICY_GLOBAL, policyAt, policyOf } from "../layout/policy";
import { Segment, segmentOf, SLIDING_COUNTER, versionOf, WindowSegment } from "../layout/policy";
import { BUSY, SIDE_BITS, SLOT_STATE } from "../layout/slots";
import { header } from "../layout/table";
import { Counters, COUNTERS_BYTES, SCRATCH_COUNTERS } from "../layout/thread";
import { admitted, CONSUME, full, GLOBAL, HINTED, LOOK_UP, refused } from "../question";
import { claim, CLAIM_AGAIN, CLAIM_FULL } from "../table/claim";
import { find, see } from "../table/slots";
import { countersOf, PATIENCE, scratch, scratchAt } from "../thread";
import { charged } from "../words/bucket";
import { isQuick, isWithinLife, quickReading, rescale } from "../words/clock";
import { quickSliding, SLIDING_RARE, SLIDING_REFUSED } from "../words/sliding";
import { COUNT_SHIFT, isQuickWindow, windowLower, windowUpper } from "../words/window";
import { decideAt } from "./decide";

/** Adds one to a counter of `counters`: the answer. */
@inline
function counted(counters: Counters, offset: usize, answer: i32): i32 {
  const at = changetype<usize>(counters) + offset;
  store<u64>(at, load<u64>(at) + 1);
  return answer;
}

/**
 * Charges a word that was `seen` in the state of `slot`, if it has room: 1 or 0, or
 * LOOK_UP if another thread came first. A cost of 0 writes nothing.
 */
@inline
function attempt(counters: Counters, slot: usize, seen: u64, next: u64, upper: u64, isTooMuch: bool, cost: u32): i32 {
  if (next > upper || isTooMuch) return counted(counters, offsetof<Counters>("denied"), 0);
  if (!cost || atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) {
    return counted(counters, offsetof<Counters>("allowed"), 1);
  }
  return counted(counters, offsetof<Counters>("contended"), LOOK_UP);
}

/**
 * The plain decision for a key, with all that is rare elsewhere: 1 admitted, 0
 * refused. What is not quick goes the general way. Leaves the slot in the scratch.
 */
export function allowKey(policy: Policy, key: u64, a: usize, b: usize, cost: u32, now: i64): i32 {
  for (let tries = 0; tries <= PATIENCE; tries++) {
    const version = versionOf(policy);
    const segment = segmentOf(policy, version);
    let upper: u64, lower: u64, need: u64;
    if (isQuick(segment, now)) {
      const bucket = changetype<BucketSegment>(segment);
      upper = quickReading(bucket, now);
      lower = upper - bucket.burstUnits;
      need = u64(cost) << bucket.tokenShift;
    } else if (isQuickWindow(segment, now)) {
      lower = windowLower(changetype<WindowSegment>(segment), now);
      upper = windowUpper(lower, changetype<WindowSegment>(segment));
      need = u64(cost) << COUNT_SHIFT;
    } else {
      const own = scratch();
      own.key = key;
      own.setA = u32(a);
      own.setB = u32(b);
      return decideAt(policy, CONSUME, cost, now, 0);
    }
    const isTooMuch = cost > segment.limitTokens;
    if (!isCurrent(policy, version)) continue;
    if (isTooMuch) break;
    const slot = find(key, a, b);
    scratch().slot = u32(slot);
    if (!slot) {
      if (!cost) return admitted(policy);
      const claimed = claim(policy, version, key, a, b, lower + need, now, tries);
      if (claimed == CLAIM_AGAIN) continue;
      return claimed == CLAIM_FULL ? full(policy) : admitted(policy);
    }
    const seen = see(policy, slot, key, tries);
    if ((seen & SIDE_BITS) == BUSY) continue;
    const isOfScale = (seen & SIDE_BITS) == (upper & SIDE_BITS);
    const z = isOfScale ? seen : rescale(changetype<BucketSegment>(segment), seen);
    // The version after the state: else a word of a later scale could pass for one of this.
    if (!isCurrent(policy, version)) continue;
    const answer = attempt(countersOf(policy), slot, seen, charged(z, lower, need), upper, false, cost);
    if (answer != LOOK_UP) return answer;
  }
  return refused(policy);
}

/** The last steps of `allowSlot`, by the bounds of the segment under `version`. */
@inline
function allowWithin(
  segment: Segment,
  version: u32,
  slot: usize,
  key: u64,
  isGlobal: bool,
  cost: u32,
  upper: u64,
  lower: u64,
  shift: i32,
): i32 {
  const policy = policyOf(segment);
  const isTooMuch = cost > segment.limitTokens;
  const need = u64(cost) << shift;
  const seen = atomic.load<u64>(slot, SLOT_STATE);
  if (
    !isGlobal && load<u64>(slot) != key || (seen & SIDE_BITS) != (upper & SIDE_BITS) || !isCurrent(policy, version)
  ) return LOOK_UP;
  return attempt(countersOf(policy), slot, seen, charged(seen, lower, need), upper, isTooMuch, cost);
}

/**
 * The decision for a key whose slot was `slot` the last time, or for the global
 * bucket, when `segment` was in force: `allowKey` without the look-up. Leaves to
 * it, by answering LOOK_UP, all that is rare. Given the segment, its numbers need
 * not wait for the version.
 *
 * Loads are atomic where order matters: the state, which the key word is loaded
 * after, and the version at the end. V8 checks alignment and bounds of each.
 */
@inline
export function allowSlotAt(segment: Segment, slot: usize, key: u64, isGlobal: bool, cost: u32, now: i64): i32 {
  const policy = policyOf(segment);
  const version = load<u32>(changetype<usize>(policy));
  if (segmentOf(policy, version) != segment) return LOOK_UP;
  if (isQuick(segment, now)) {
    const bucket = changetype<BucketSegment>(segment);
    const v = quickReading(bucket, now);
    return allowWithin(segment, version, slot, key, isGlobal, cost, v, v - bucket.burstUnits, bucket.tokenShift);
  }
  if (isQuickWindow(segment, now)) {
    const window = changetype<WindowSegment>(segment);
    const lower = windowLower(window, now);
    return allowWithin(
      segment,
      version,
      slot,
      key,
      isGlobal,
      cost,
      windowUpper(lower, window),
      lower,
      i32(COUNT_SHIFT),
    );
  }
  if (isGlobal) return LOOK_UP;
  if (segment.flags == SLIDING_COUNTER << ALGORITHM_SHIFT && isWithinLife(segment, now)) {
    return allowSliding(changetype<WindowSegment>(segment), version, slot, key, cost, now);
  }
  scratch().key = key;
  scratch().slot = u32(slot);
  return decideAt(policy, CONSUME | HINTED, cost, now, 0);
}

/** The same for a sliding window counter. */
@inline
function allowSliding(segment: WindowSegment, version: u32, slot: usize, key: u64, cost: u32, now: i64): i32 {
  const policy = policyOf(segment);
  const seen = atomic.load<u64>(slot, SLOT_STATE);
  if (load<u64>(slot) != key) return LOOK_UP;
  const next = quickSliding(segment, seen, cost, now);
  if (!isCurrent(policy, version) || next == SLIDING_RARE) return LOOK_UP;
  return attempt(countersOf(policy), slot, seen, next, u64.MAX_VALUE, next == SLIDING_REFUSED, cost);
}

/** The decision for the global bucket, under the segment of the last time. */
@inline
export function allowGlobalAt(segment: Segment, cost: u32, now: i64): i32 {
  const policy = policyOf(segment);
  const slot = changetype<usize>(policy) + POLICY_GLOBAL - SLOT_STATE;
  const answer = allowSlotAt(segment, slot, 0, true, cost, now);
  return answer == LOOK_UP ? decideAt(policy, CONSUME | GLOBAL, cost, now, 0) : answer;
}

/**
 * The same as `allowSlotAt` by the clock cell: from the bounds that this thread
 * keeps of the policy in `counters`. A hot key is decided thousands of times
 * between two ticks, and its clock is read once. What is kept may be out of date:
 * version and moment, compared here, are all that it hangs on.
 */
@inline
export function allowByCell(counters: Counters, slot: usize, key: u64, isGlobal: bool, cost: u32): i32 {
  if (counters.notCellNs != ~header().clockNs && !readCell(counters)) return LOOK_UP;
  if (isGlobal) slot = usize(counters.policy) + POLICY_GLOBAL - SLOT_STATE;
  const upper = counters.upper;
  const seen = atomic.load<u64>(slot, SLOT_STATE);
  if (
    !isGlobal && load<u64>(slot) != key || (seen & SIDE_BITS) != (upper & SIDE_BITS)
    || !isCurrent(changetype<Policy>(usize(counters.policy)), counters.version)
  ) return outOfDate(counters);
  const next = charged(seen, counters.lower, u64(cost) << counters.tokenShift);
  return attempt(counters, slot, seen, next, upper, cost > counters.limitTokens, cost);
}

/** The same for the policy's global bucket. */
@inline
export function allowGlobalByCell(counters: Counters, cost: u32): i32 {
  return allowByCell(counters, 0, 0, true, cost);
}

/** Keeps the bounds of the policy of `counters` by the clock cell; false if they are not quick to have. */
function readCell(counters: Counters): bool {
  const number = (changetype<usize>(counters) - scratchAt - SCRATCH_COUNTERS) / COUNTERS_BYTES;
  const policy = policyAt(u64(number));
  const now = header().clockNs;
  const version = versionOf(policy);
  const segment = segmentOf(policy, version);
  if (isQuick(segment, now)) {
    const bucket = changetype<BucketSegment>(segment);
    counters.upper = quickReading(bucket, now);
    counters.lower = counters.upper - bucket.burstUnits;
    counters.tokenShift = bucket.tokenShift;
  } else if (isQuickWindow(segment, now)) {
    counters.lower = windowLower(changetype<WindowSegment>(segment), now);
    counters.upper = windowUpper(counters.lower, changetype<WindowSegment>(segment));
    counters.tokenShift = i32(COUNT_SHIFT);
  } else return false;
  counters.limitTokens = segment.limitTokens;
  counters.policy = u32(changetype<usize>(policy));
  counters.version = version;
  counters.notCellNs = ~now;
  return true;
}

/** Another segment is in force, or another key has the slot. */
function outOfDate(counters: Counters): i32 {
  counters.notCellNs = 0;
  return LOOK_UP;
}
