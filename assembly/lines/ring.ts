// The sliding window with time slots: a ring of counters, one a slot.
//
//   0 +------+--------------------------------------------------------+
//     | lock | 13 counters, u32: that of slot s at place s modulo the ring |
//  56 +------+--------------------------------------------------------+
//     | number of the newest slot, u64, from 1; 0 is never seen        |
//     +---------------------------------------------------------------+
//
// A window of n slots has n + 1 counters: the present slot, part of which has
// passed, and n whole ones before it. So no interval of the window's length
// ever sees more than the limit, and a call is remembered for a window and at
// most one slot.

import { RingSegment } from "../layout/policy";
import { SCRATCH_LINE, SCRATCH_TAKEN } from "../layout/thread";
import { ANSWER, CONSUME, DEBT, grant, leave } from "../question";
import { scratchAt } from "../thread";
import { sinceStart } from "../words/clock";
import { FIRST_WINDOW, stretchesIn, untilStretch } from "../words/window";

const COUNTERS: usize = SCRATCH_LINE + 4;
const COUNTERS_BYTES: usize = 13 * 4;
const NEWEST: usize = SCRATCH_LINE + 56;

@inline
function counterAt(slot: u64, ring: u64): usize {
  // A 32-bit division is quicker; 2^32 slots of a ms are 50 days, then it is the long one.
  return scratchAt + COUNTERS + (slot >> 32 ? usize(slot % ring) : usize(u32(slot) % u32(ring))) * 4;
}

/** Moves the ring in the scratch on to `slot`, if that is later. */
function advance(slot: u64, ring: u64): void {
  const newest = load<u64>(scratchAt, NEWEST);
  if (slot <= newest) return;
  const from = slot - newest >= ring ? slot - ring + 1 : newest + 1;
  for (let each = from; each <= slot; each++) store<u32>(counterAt(each, ring), 0);
  store<u64>(scratchAt, slot, NEWEST);
}

/** All counters: those beyond the ring are 0. */
function sum(): u64 {
  const from = scratchAt + COUNTERS;
  let all: u64 = 0;
  for (let at: usize = 0; at < COUNTERS_BYTES; at += 4) all += load<u32>(from + at);
  return all;
}

@inline
function presentSlot(segment: RingSegment, now: i64): u64 {
  const dt = u64(sinceStart(segment, now));
  return stretchesIn(dt, segment.slotNs, segment.inverse, segment.inverseShift) + FIRST_WINDOW;
}

/** The share of its limit that the line in the scratch has used: 0 is fresh. */
export function ringDeficit(segment: RingSegment, now: i64): f64 {
  advance(presentSlot(segment, now), u64(segment.ringLength));
  return f64(sum()) / f64(max(1, segment.limitTokens));
}

/** Decides about the ring in the scratch, and charges it there if it is granted. */
export function decideRing(segment: RingSegment, mode: i32, cost: u32, now: i64, maxWait: i64): void {
  const ring = u64(segment.ringLength);
  const limit = u64(segment.limitTokens);
  const present = presentSlot(segment, now);
  advance(present, ring);
  const newest = load<u64>(scratchAt, NEWEST);
  const used = sum();
  let left = used;
  let dueIn = newest;
  const isNever = u64(cost) > limit;
  if (!isNever && !(mode & DEBT)) {
    // Slot by slot the oldest drops out, until the cost fits.
    while (left + cost > limit) {
      dueIn++;
      left -= load<u32>(counterAt(dueIn, ring));
      if (dueIn - newest == ring) left = 0;
    }
  }
  const delay = dueIn == present ? 0.0 : untilStretch(segment, dueIn, segment.slotNs, now);
  const isOk = (mode & DEBT) != 0 || (!isNever && delay <= f64(maxWait));
  let after = used;
  if (isOk && mode & CONSUME) {
    advance(dueIn, ring);
    const counter = counterAt(dueIn, ring);
    store<u32>(counter, u32(min(u64(load<u32>(counter)) + cost, u64(u32.MAX_VALUE))));
    after = dueIn > present ? limit : used + cost;
  }
  grant(isOk, 0);
  if (!(mode & ANSWER)) return;
  store<f64>(scratchAt, f64(cost), SCRATCH_TAKEN);
  // Full again when the newest slot with a count drops out.
  let last = load<u64>(scratchAt, NEWEST);
  let turns = ring;
  while (turns && !load<u32>(counterAt(last, ring))) {
    turns--;
    if (turns) last--;
  }
  leave(
    f64(i64(limit) - i64(after)),
    isNever ? Infinity : delay,
    turns ? untilStretch(segment, last + ring, segment.slotNs, now) : 0,
    isNever ? Infinity : delay,
    (dueIn << 2) | 1,
  );
}

/**
 * Takes `cost` out of the ring in the scratch: from the slot of `dueAt` if it is a cancel, else from
 * the newest on. True if any was there.
 */
export function refundRing(segment: RingSegment, cost: f64, dueAt: u64): bool {
  const ring = u64(segment.ringLength);
  const newest = load<u64>(scratchAt, NEWEST);
  let back = cost < 4294967295.0 ? u64(cost) : 4294967295;
  const wanted = back;
  let slot = dueAt ? dueAt >> 2 : newest;
  for (let turns = dueAt ? 1 : ring; turns && back && slot && slot <= newest && slot + ring > newest; turns--) {
    const counter = counterAt(slot, ring);
    const some = min(back, u64(load<u32>(counter)));
    store<u32>(counter, load<u32>(counter) - u32(some));
    back -= some;
    slot--;
  }
  return back < wanted;
}

/** Nanoseconds until the slot in which a reservation acts. */
export function untilRingDue(segment: RingSegment, dueAt: u64, now: i64): f64 {
  return untilStretch(segment, dueAt >> 2, segment.slotNs, now);
}
