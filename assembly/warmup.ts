// Warm-up: Guava's SmoothWarmingUp, whose derivation stands in the comments of
// https://github.com/google/guava/blob/v31.1/guava/src/com/google/common/util/concurrent/SmoothRateLimiter.java
//
// Unused time is stored as permits, and stored permits cost more than fresh
// ones the more of them there are: a limiter that was idle starts at
// 1 / coldFactor of its rate and reaches it after the warm-up.
//
//   line   8 used f64: the share of the stored permits that is used up, 0 cold to 1 warm
//         16 next free time i64, ns since the epoch    24 its fraction of a ns f64
//
// Shares and times do not depend on the rate, so a new rate needs no new state.
//
// The piece: extra is the warm-up in ns, ns a unit the stable interval, and in
// the places of v0, multiplier and burst stand three doubles: the permits above
// which storing costs more, the most permits stored, and the slope between, ns
// a permit.

import { ANSWER, CONSUME, DEBT } from "./decide";
import { LANE_LINE, LANE_TAKEN, PIECE_BURST, PIECE_EXTRA, PIECE_MULTIPLIER, PIECE_NS_A_UNIT, PIECE_V0 } from "./layout";
import { setOutcome } from "./outcome";
import { lane } from "./thread";

const USED: usize = LANE_LINE + 8;
const NEXT_FREE: usize = LANE_LINE + 16;
const FRACTION: usize = LANE_LINE + 24;

/** Stores the time since the next free time as permits. */
function accrue(piece: usize, now: i64): void {
  const free = load<i64>(lane, NEXT_FREE);
  if (now < free) return;
  const idle = f64(now - free) - load<f64>(lane, FRACTION);
  const warmUp = f64(load<i64>(piece, PIECE_EXTRA));
  const used = load<f64>(lane, USED) - (warmUp ? idle / warmUp : 1);
  store<f64>(lane, used > 0 ? used : 0, USED);
  store<i64>(lane, now, NEXT_FREE);
  store<f64>(lane, 0, FRACTION);
}

export function warmUpLack(piece: usize, now: i64): f64 {
  const free = load<i64>(lane, NEXT_FREE);
  if (!free && !load<f64>(lane, USED)) return 0;
  accrue(piece, now);
  return load<f64>(lane, USED) + (free > now ? 1 : 0);
}

/** Ns that it costs to take `permits` out of `stored`. */
function timeFor(piece: usize, stored: f64, permits: f64): f64 {
  const stable = load<f64>(piece, PIECE_NS_A_UNIT);
  const slope = load<f64>(piece, PIECE_BURST);
  const above = stored - load<f64>(piece, PIECE_V0);
  let ns = 0.0;
  if (above > 0) {
    const taken = min(above, permits);
    // The area under the line from `above` down to `above - taken`.
    ns = taken * (2 * stable + (2 * above - taken) * slope) / 2;
    permits -= taken;
  }
  return permits > 0 ? ns + stable * permits : ns;
}

/** Decides on the line in the lane and charges it there: true if granted. The next caller pays. */
export function decideWarmUp(piece: usize, mode: i32, cost: u32, now: i64, wait: i64): bool {
  accrue(piece, now);
  const free = load<i64>(lane, NEXT_FREE);
  const delay = max(0, f64(free - now) + load<f64>(lane, FRACTION));
  const stable = load<f64>(piece, PIECE_NS_A_UNIT);
  // At rate 0 nothing could ever be paid off: it takes nothing, so as to owe nothing when the rate comes back.
  const isNever = stable == Infinity;
  const isGranted = !isNever && ((mode & DEBT) != 0 || ceil(delay) <= f64(wait));
  const most = load<f64>(piece, PIECE_MULTIPLIER);
  if (isGranted && mode & CONSUME && cost) {
    const stored = (1 - load<f64>(lane, USED)) * most;
    const spent = min(f64(cost), stored);
    const price = min(9e17, timeFor(piece, stored, spent) + (f64(cost) - spent) * stable);
    const owed = price + load<f64>(lane, FRACTION);
    const whole = floor(owed);
    // What a cancel gives back: the time, and the share of the stored permits.
    store<f64>(lane, price, LANE_TAKEN);
    store<f64>(lane, most ? spent / most : 0, LANE_TAKEN + 8);
    const ahead = min(i64.MAX_VALUE / 4, free + i64(whole));
    store<i64>(lane, ahead, NEXT_FREE);
    store<f64>(lane, owed - whole, FRACTION);
    store<f64>(lane, most ? 1 - (stored - spent) / most : 1, USED);
  }
  if (!(mode & ANSWER)) return isGranted;
  const nextFree = load<i64>(lane, NEXT_FREE);
  setOutcome(
    nextFree > now ? 0 : (1 - load<f64>(lane, USED)) * most,
    isNever ? Infinity : ceil(delay),
    f64(max(0, nextFree - now)) + ceil(load<f64>(lane, USED) * f64(load<i64>(piece, PIECE_EXTRA))),
    isNever ? Infinity : delay,
    (u64(free) << 2) | 1,
  );
  return isGranted;
}

/**
 * A cancel gives back what the lane says that the reservation took, time and
 * share. A refund gives back time: what `cost` permits take when warm, and no
 * more than is owed.
 */
export function restoreWarmUp(piece: usize, cost: f64, act: u64, now: i64): bool {
  const free = load<i64>(lane, NEXT_FREE);
  if (act) {
    store<i64>(lane, free - i64(load<f64>(lane, LANE_TAKEN)), NEXT_FREE);
    store<f64>(lane, max(0, load<f64>(lane, USED) - load<f64>(lane, LANE_TAKEN + 8)), USED);
    return true;
  }
  if (free <= now) return false;
  const back = min(f64(free - now), cost * load<f64>(piece, PIECE_NS_A_UNIT));
  store<i64>(lane, free - i64(back), NEXT_FREE);
  return back >= 1;
}
