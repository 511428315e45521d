// Warm-up: Guava's SmoothWarmingUp, whose derivation stands in the comments of
// https://github.com/google/guava/blob/v31.1/guava/src/com/google/common/util/concurrent/SmoothRateLimiter.java
//
// Unused time is stored as permits, and stored permits cost more than fresh
// ones the more of them there are: a limiter that was idle starts at
// 1 / coldFactor of its rate and reaches it after the warm-up.
//
//   0 +------+---+------+----------+----------+
//     | lock | - | used | nextFree | fraction |
//  32 +------+---+------+----------+----------+
//
// Shares and times do not depend on the rate, so a new rate needs no new state.

import { WarmUpSegment } from "../layout/policy";
import { SCRATCH_LINE, SCRATCH_TAKEN } from "../layout/thread";
import { ANSWER, CONSUME, DEBT, grant, leave } from "../question";
import { scratchAt } from "../thread";

@unmanaged
class WarmUpLine {
  lock: i32;
  unused: i32;
  /** The share of the stored permits that is used up, 0 cold to 1 warm. */
  used: f64;
  /** Nanoseconds since the epoch at which the next call is free to go, and the fraction of one. */
  nextFree: i64;
  fraction: f64;
}

/** What the last grant took: ns, and a share of the stored permits. */
@unmanaged
class WarmUpTaken {
  ns: f64;
  share: f64;
}

/** Highest price of a call, ns: about 28 years. */
const MAX_PRICE: f64 = 9e17;

@inline
function line(): WarmUpLine {
  return changetype<WarmUpLine>(scratchAt + SCRATCH_LINE);
}

@inline
function taken(): WarmUpTaken {
  return changetype<WarmUpTaken>(scratchAt + SCRATCH_TAKEN);
}

/** Stores the time since the next free time as permits. */
function accrue(segment: WarmUpSegment, now: i64): void {
  const state = line();
  if (now < state.nextFree) return;
  const idle = f64(now - state.nextFree) - state.fraction;
  const used = state.used - (segment.warmUpNs ? idle / f64(segment.warmUpNs) : 1);
  state.used = used > 0 ? used : 0;
  state.nextFree = now;
  state.fraction = 0;
}

/** The share of its permits that the line in the scratch lacks: 0 is fresh. */
export function warmUpDeficit(segment: WarmUpSegment, now: i64): f64 {
  const state = line();
  const nextFree = state.nextFree;
  if (!nextFree && !state.used) return 0;
  accrue(segment, now);
  return state.used + (nextFree > now ? 1 : 0);
}

/** Nanoseconds that it costs to take `permits` out of `stored`. */
function timeFor(segment: WarmUpSegment, stored: f64, permits: f64): f64 {
  const above = stored - segment.threshold;
  if (above <= 0) return segment.stableNs * permits;
  const dear = min(above, permits);
  // The area under the line from `above` down to `above - dear`.
  const ns = dear * (2 * segment.stableNs + (2 * above - dear) * segment.slope) / 2;
  return permits > dear ? ns + segment.stableNs * (permits - dear) : ns;
}

/** Charges the line in the scratch. */
function charge(segment: WarmUpSegment, cost: u32): void {
  const state = line();
  const most = segment.maxPermits;
  const stored = (1 - state.used) * most;
  const spent = min(f64(cost), stored);
  const price = min(MAX_PRICE, timeFor(segment, stored, spent) + (f64(cost) - spent) * segment.stableNs);
  const owed = price + state.fraction;
  // What a cancel gives back: the time, and the share of the stored permits.
  taken().ns = price;
  taken().share = most ? spent / most : 0;
  state.nextFree = min(i64.MAX_VALUE / 4, state.nextFree + i64(floor(owed)));
  state.fraction = owed - floor(owed);
  state.used = most ? 1 - (stored - spent) / most : 1;
}

/** Decides about the line in the scratch, and charges it there if it is granted. The next caller pays. */
export function decideWarmUp(segment: WarmUpSegment, mode: i32, cost: u32, now: i64, maxWait: i64): void {
  accrue(segment, now);
  const state = line();
  const free = state.nextFree;
  const delay = max(0, f64(free - now) + state.fraction);
  // At rate 0 nothing could ever be paid off: it takes nothing, so as to owe nothing when the rate comes back.
  const isNever = segment.stableNs == Infinity;
  const isOk = !isNever && ((mode & DEBT) != 0 || ceil(delay) <= f64(maxWait));
  if (isOk && mode & CONSUME && cost) charge(segment, cost);
  grant(isOk, 0);
  if (!(mode & ANSWER)) return;
  const nextFree = state.nextFree;
  leave(
    nextFree > now ? 0 : (1 - state.used) * segment.maxPermits,
    isNever ? Infinity : ceil(delay),
    f64(max(0, nextFree - now)) + ceil(state.used * f64(segment.warmUpNs)),
    isNever ? Infinity : delay,
    (u64(free) << 2) | 1,
  );
}

/**
 * A cancel gives back what the scratch says that the reservation took, time and
 * share, unless a later one stands behind it. A refund gives back time: what `cost`
 * permits take when warm, and no more than is owed. True if any went back.
 */
export function refundWarmUp(segment: WarmUpSegment, cost: f64, dueAt: u64, now: i64): bool {
  const state = line();
  if (dueAt) {
    if (state.nextFree - i64(dueAt >> 2) > i64(taken().ns) + 1) return false;
    state.nextFree -= i64(taken().ns);
    state.used = max(0, state.used - taken().share);
    return true;
  }
  if (state.nextFree <= now) return false;
  const back = min(f64(state.nextFree - now), cost * segment.stableNs);
  state.nextFree -= i64(back);
  return back >= 1;
}
