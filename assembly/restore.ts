// Giving back, setting by hand, and asking when a reservation may act.

import { isCurrent, nanoseconds, pieceOf, reading, translated, wholeNanosecondsUntil } from "./clock";
import { isOurs, target } from "./decide";
import { resetLine, restoreLine } from "./decide-line";
import {
  AHEAD_LIMIT,
  BUSY,
  FLAG_LINE,
  FLAG_RING,
  FLAG_SLIDING,
  FLAG_UNLIMITED,
  LANE_ACT,
  PIECE_BURST,
  PIECE_FLAGS,
  PIECE_TOKEN_SHIFT,
  POLICY_FLAGS,
  POLICY_VERSION,
  SLOT_STATE,
  STATS_CONTENDED,
  TAG_BITS,
} from "./layout";
import { untilRingAct } from "./ring";
import { restored, untilSlidingAct } from "./sliding";
import { count, lane, PATIENCE, yieldTo } from "./thread";

/**
 * Gives tokens back: 1 if some were. With `act` 0 it is a plain refund, which
 * fills the bucket at most. With the virtual time at which a reservation was
 * to act it is a cancel, which gives back what nobody has reserved behind it.
 */
export function restore(policy: usize, mode: i32, cost: f64, act: u64, ms: f64): i32 {
  const now = nanoseconds(ms);
  if (load<i32>(policy, POLICY_FLAGS) & FLAG_LINE) return restoreLine(policy, mode, cost, act, now);
  let tries = -1;
  while (++tries <= PATIENCE) {
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const v = reading(piece, now);
    const burst = load<u64>(piece, PIECE_BURST);
    const shift = load<i32>(piece, PIECE_TOKEN_SHIFT);
    const flags = load<i32>(piece, PIECE_FLAGS);
    const slot = target(policy, mode);
    if (!slot || flags & FLAG_UNLIMITED) return 0;
    const seen = atomic.load<u64>(slot, SLOT_STATE);
    if (!isOurs(slot, mode)) continue;
    if ((seen & TAG_BITS) == BUSY) {
      yieldTo(policy, tries);
      continue;
    }
    const word = (seen & TAG_BITS) == (v & TAG_BITS) ? seen : translated(piece, seen);
    const acted = !act || (act & TAG_BITS) == (v & TAG_BITS) ? act : translated(piece, act);
    if (!isCurrent(policy, version)) continue;
    if (flags & FLAG_SLIDING) {
      const next = restored(piece, seen, cost, act);
      if (next == seen) return 0;
      if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) return 1;
      count(policy, STATS_CONTENDED);
      continue;
    }
    const floor = v - burst;
    const z = word > floor ? word : floor;
    let back = u64(min(cost * f64(u64(1) << shift), f64(AHEAD_LIMIT))) & ~TAG_BITS;
    if (act && z > acted) back = z - acted < back ? back - (z - acted) : 0;
    if (back > z - floor) back = z - floor;
    if (!back) return 0;
    if (atomic.cmpxchg<u64>(slot, seen, z - back, SLOT_STATE) == seen) return 1;
    count(policy, STATS_CONTENDED);
  }
  return 0;
}

/** Makes the bucket hold `tokens` (fractions and debts too), at most its burst. */
export function setTokens(policy: usize, mode: i32, tokens: f64, ms: f64): void {
  const now = nanoseconds(ms);
  // A line is made full, whatever the tokens: nobody sets another number.
  if (load<i32>(policy, POLICY_FLAGS) & FLAG_LINE) return resetLine(policy, mode);
  let tries = -1;
  while (++tries <= PATIENCE) {
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const v = reading(piece, now);
    const burst = load<u64>(piece, PIECE_BURST);
    const shift = load<i32>(piece, PIECE_TOKEN_SHIFT);
    const slot = target(policy, mode);
    if (!slot) return;
    const seen = atomic.load<u64>(slot, SLOT_STATE);
    if (!isOurs(slot, mode) || !isCurrent(policy, version)) continue;
    if ((seen & TAG_BITS) == BUSY) {
      yieldTo(policy, tries);
      continue;
    }
    let units: i64 = i64(nearest(tokens * f64(u64(1) << (shift - 2)))) << 2;
    if (tokens * f64(u64(1) << shift) >= f64(burst)) units = i64(burst);
    if (units < -i64(AHEAD_LIMIT)) units = -i64(AHEAD_LIMIT);
    // No counts are a full bucket; no other number of tokens is set on a window.
    // A full bucket is as one never seen, full under any later burst too.
    const next = load<i32>(piece, PIECE_FLAGS) & FLAG_SLIDING ? 0 : tokens == Infinity ? v & TAG_BITS : v - units;
    if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) return;
    count(policy, STATS_CONTENDED);
  }
}

/** Whole ns until a reservation with this virtual time may act under the present rate: 0 now, Infinity never. */
export function untilAct(policy: usize, actLow: u32, actHigh: u32, ms: f64): f64 {
  const act = (u64(actHigh) << 32) | u64(actLow);
  const now = nanoseconds(ms);
  while (true) {
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const flags = load<i32>(piece, PIECE_FLAGS);
    if (flags & FLAG_RING) return untilRingAct(piece, act, now);
    // The other lines' reservations act at a time, whatever the rate does.
    if (flags & FLAG_LINE) return f64(max(0, i64(act >> 2) - now));
    const isUnlimited = flags & FLAG_UNLIMITED;
    if (flags & FLAG_SLIDING) return untilSlidingAct(piece, act, now);
    const tag = reading(piece, now) & TAG_BITS;
    const word = (act & TAG_BITS) == tag ? act : translated(piece, act);
    const ns = isUnlimited ? 0 : wholeNanosecondsUntil(piece, now, word);
    if (isCurrent(policy, version)) return ns;
  }
}

/** The virtual time of a reservation in the present units, left in the lane. */
export function translateAct(policy: usize, actLow: u32, actHigh: u32): void {
  const piece = pieceOf(policy, atomic.load<u32>(policy, POLICY_VERSION));
  store<u64>(lane, translated(piece, (u64(actHigh) << 32) | u64(actLow)), LANE_ACT);
}
