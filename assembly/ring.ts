// The sliding window with time slots: a ring of counters, one a slot.
//
//   line   4 counters, 13 x u32: that of slot s at place s modulo the ring
//         56 number of the newest slot u64, from 1; 0 is never seen
//
// A window of n slots has n + 1 counters: the present slot, part of which has
// passed, and n whole ones before it. So no interval of the window's length
// ever sees more than the limit, and a call is remembered for a window and at
// most one slot.
//
// The piece: extra is a slot's length in ns, pre-shift the ring's length.

import { sinceStart, windowsIn } from "./clock";
import { ANSWER, CONSUME, DEBT } from "./decide";
import { LANE_LINE, PIECE_BURST_TOKENS, PIECE_EXTRA, PIECE_PRE_SHIFT, PIECE_T0 } from "./layout";
import { setOutcome } from "./outcome";
import { lane } from "./thread";

const COUNTERS: usize = 4;
const COUNTERS_END: usize = 13 * 4;
const NEWEST: usize = 56;

// @ts-ignore: decorator
@inline
function counterAt(slot: u64, ring: u64): usize {
  // A 32-bit division is quicker; 2^32 slots of a ms are 50 days, then it is the long one.
  return lane + LANE_LINE + COUNTERS + (slot >> 32 ? usize(slot % ring) : usize(u32(slot) % u32(ring))) * 4;
}

/** Moves the ring in the lane on to `slot`, if that is later. */
function advance(slot: u64, ring: u64): void {
  const newest = load<u64>(lane, LANE_LINE + NEWEST);
  if (slot <= newest) return;
  const from = slot - newest >= ring ? slot - ring + 1 : newest + 1;
  for (let each = from; each <= slot; each++) store<u32>(counterAt(each, ring), 0);
  store<u64>(lane, slot, LANE_LINE + NEWEST);
}

/** All counters: those beyond the ring are 0. */
function sum(): u64 {
  const from = lane + LANE_LINE + COUNTERS;
  let all: u64 = 0;
  for (let at: usize = 0; at < COUNTERS_END; at += 4) all += load<u32>(from + at);
  return all;
}

// @ts-ignore: decorator
@inline
function presentSlot(piece: usize, now: i64): u64 {
  return windowsIn(piece, u64(sinceStart(piece, now))) + 1;
}

/** ns from `now` until `slot` begins; 0 if it has. */
function untilSlot(piece: usize, slot: u64, now: i64): f64 {
  const left = load<i64>(piece, PIECE_T0) + i64((slot - 1) * load<u64>(piece, PIECE_EXTRA)) - now;
  return left > 0 ? f64(left) : 0;
}

export function ringLack(piece: usize, now: i64): f64 {
  const ring = u64(load<u32>(piece, PIECE_PRE_SHIFT));
  advance(presentSlot(piece, now), ring);
  return f64(sum()) / f64(max(1, load<u32>(piece, PIECE_BURST_TOKENS)));
}

/** Decides on the ring in the lane and charges it there: true if granted. */
export function decideRing(piece: usize, mode: i32, cost: u32, now: i64, wait: i64): bool {
  const ring = u64(load<u32>(piece, PIECE_PRE_SHIFT));
  const limit = u64(load<u32>(piece, PIECE_BURST_TOKENS));
  const present = presentSlot(piece, now);
  advance(present, ring);
  const at = load<u64>(lane, LANE_LINE + NEWEST);
  const used = sum();
  let left = used;
  let act = at;
  const isNever = u64(cost) > limit;
  if (!isNever && !(mode & DEBT)) {
    // Slot by slot the oldest drops out, until the cost fits.
    while (left + cost > limit) {
      act++;
      left -= load<u32>(counterAt(act, ring));
      if (act - at == ring) left = 0;
    }
  }
  const delay = act == present ? 0.0 : untilSlot(piece, act, now);
  const isGranted = (mode & DEBT) != 0 || (!isNever && delay <= f64(wait));
  let after = used;
  if (isGranted && mode & CONSUME) {
    advance(act, ring);
    const counter = counterAt(act, ring);
    const total = u64(load<u32>(counter)) + cost;
    store<u32>(counter, total > u64(u32.MAX_VALUE) ? u32.MAX_VALUE : u32(total));
    after = act > present ? limit : used + cost;
  }
  if (!(mode & ANSWER)) return isGranted;
  // Full again when the newest slot with a count drops out.
  let last = load<u64>(lane, LANE_LINE + NEWEST);
  let turns = ring;
  while (turns && !load<u32>(counterAt(last, ring))) {
    turns--;
    if (turns) last--;
  }
  setOutcome(
    f64(i64(limit) - i64(after)),
    isNever ? Infinity : delay,
    turns ? untilSlot(piece, last + ring, now) : 0,
    isNever ? Infinity : delay,
    (act << 2) | 1,
  );
  return isGranted;
}

/** Takes `cost` out of the ring in the lane: from the slot of `act` if it is a cancel, else from the newest on. */
export function restoreRing(piece: usize, cost: f64, act: u64): bool {
  const ring = u64(load<u32>(piece, PIECE_PRE_SHIFT));
  const newest = load<u64>(lane, LANE_LINE + NEWEST);
  let back = cost < 4294967295.0 ? u64(cost) : 4294967295;
  const wanted = back;
  let slot = act ? act >> 2 : newest;
  for (let turns = act ? 1 : ring; turns && back && slot && slot <= newest && slot + ring > newest; turns--) {
    const counter = counterAt(slot, ring);
    const some = min(back, u64(load<u32>(counter)));
    store<u32>(counter, load<u32>(counter) - u32(some));
    back -= some;
    slot--;
  }
  return back < wanted;
}

export function untilRingAct(piece: usize, act: u64, now: i64): f64 {
  return untilSlot(piece, act >> 2, now);
}
