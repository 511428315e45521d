// The token bucket in one word.
//
// A key's word z is the virtual time at which its bucket is (or was) empty:
//
//   tokens = min(burst, v(now) - z)
//   admit  : next = max(z, v(now) - burst) + cost ;  ok if next <= v(horizon)
//
// That is GCRA (ITU-T I.371) with time counted in tokens, so that one clock a
// policy serves all its keys and a new rate is a new piece of that clock. An
// integer cost is added exactly; only reading the clock rounds, and that does
// not accumulate. A refusal writes nothing.
//
// The word of a slot is written by one swap by whoever decides; nobody holds
// anything while deciding, so a thread that stops here stops nobody else.

import { isCurrent, isQuick, isWithinLife, pieceOf, policyOf, quickReading, translated } from "./clock";
import { CONSUME, decideAt, full, HINTED, LOOK_UP } from "./decide";
import {
  BUSY,
  FLAG_SLIDING,
  HEADER_CLOCK_NS,
  LANE_KEY,
  LANE_SET_A,
  LANE_SET_B,
  LANE_SLOT,
  LANE_STATS,
  PIECE_BURST,
  PIECE_BURST_TOKENS,
  PIECE_FLAGS,
  PIECE_TOKEN_SHIFT,
  POLICIES,
  POLICY_BYTES,
  POLICY_GLOBAL,
  POLICY_VERSION,
  READING_BURST_TOKENS,
  READING_FLOOR,
  READING_MOMENT,
  READING_POLICY,
  READING_TOKEN_SHIFT,
  READING_V,
  READING_VERSION,
  SLOT_STATE,
  STATS_ALLOWED,
  STATS_BYTES,
  STATS_CONTENDED,
  STATS_DENIED,
  TAG_BITS,
} from "./layout";
import { quickSliding, SLIDING_RARE, SLIDING_REFUSED } from "./sliding";
import { claim, CLAIM_AGAIN, CLAIM_FULL, find } from "./table";
import { count, lane, PATIENCE, yieldTo } from "./thread";

/**
 * The plain decision for a key, with all that is rare elsewhere: 1 admitted, 0
 * refused. A policy with flags goes the general way. Leaves the slot in the lane.
 */
export function allowKey(policy: usize, key: u64, a: usize, b: usize, cost: u32, now: i64): i32 {
  let tries = -1;
  while (true) {
    if (++tries > PATIENCE) return refused(policy);
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    if (!isQuick(piece, now)) {
      store<u64>(lane, key, LANE_KEY);
      store<u32>(lane, u32(a), LANE_SET_A);
      store<u32>(lane, u32(b), LANE_SET_B);
      return decideAt(policy, CONSUME, cost, now, 0);
    }
    const v = quickReading(piece, now);
    const floor = v - load<u64>(piece, PIECE_BURST);
    const need = u64(cost) << load<i32>(piece, PIECE_TOKEN_SHIFT);
    const isTooMuch = cost > load<u32>(piece, PIECE_BURST_TOKENS);
    if (!isCurrent(policy, version)) continue;
    if (isTooMuch) break;
    const slot = find(key, a, b);
    store<u32>(lane, u32(slot), LANE_SLOT);
    if (!slot) {
      if (!cost) return admitted(policy);
      const claimed = claim(policy, version, key, a, b, floor + need, now, tries);
      if (claimed == CLAIM_AGAIN) continue;
      return claimed == CLAIM_FULL ? full(policy) : admitted(policy);
    }
    const seen = atomic.load<u64>(slot, SLOT_STATE);
    // The version after the state: else a word of a later scale could pass for one of this.
    if (atomic.load<u64>(slot) != key || !isCurrent(policy, version)) continue;
    let z = seen;
    if ((seen & TAG_BITS) != (v & TAG_BITS)) {
      if ((seen & TAG_BITS) == BUSY) {
        yieldTo(policy, tries);
        continue;
      }
      z = translated(piece, seen);
      if (!isCurrent(policy, version)) continue;
    }
    const next = (z > floor ? z : floor) + need;
    if (next > v) break;
    if (!cost) return admitted(policy);
    if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) return admitted(policy);
    count(policy, STATS_CONTENDED);
  }
  return refused(policy);
}

/**
 * The decision for a key whose slot was `slot` the last time, when `piece` was in
 * force: `allowKey` without the look-up. Leaves to it, by answering LOOK_UP, all
 * that is rare. Given the piece, its numbers need not wait for the version.
 *
 * Loads are atomic where order matters: the state, which the key word is loaded
 * after, and the version at the end. V8 checks alignment and bounds of each.
 */
// @ts-ignore: decorator
@inline
export function allowSlotAt(piece: usize, slot: usize, key: u64, cost: u32, now: i64): i32 {
  const policy = policyOf(piece);
  const version = load<u32>(policy, POLICY_VERSION);
  if (pieceOf(policy, version) != piece) return LOOK_UP;
  if (!isQuick(piece, now)) {
    if (load<i32>(piece, PIECE_FLAGS) == FLAG_SLIDING && isWithinLife(piece, now)) {
      return allowSlidingAt(piece, version, slot, key, cost, now);
    }
    store<u64>(lane, key, LANE_KEY);
    store<u32>(lane, u32(slot), LANE_SLOT);
    return decideAt(policy, CONSUME | HINTED, cost, now, 0);
  }
  const v = quickReading(piece, now);
  const floor = v - load<u64>(piece, PIECE_BURST);
  const need = u64(cost) << load<i32>(piece, PIECE_TOKEN_SHIFT);
  const isTooMuch = cost > load<u32>(piece, PIECE_BURST_TOKENS);
  const seen = atomic.load<u64>(slot, SLOT_STATE);
  if (load<u64>(slot) != key || (seen & TAG_BITS) != (v & TAG_BITS) || !isCurrent(policy, version)) return LOOK_UP;
  const next = (seen > floor ? seen : floor) + need;
  if (next > v || isTooMuch) return refused(policy);
  if (!cost || atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) return admitted(policy);
  return overtaken(policy);
}

/**
 * The same by the clock cell, for a policy without flags that matter: from what
 * this thread keeps of the policy at `stats`. A hot key is decided thousands of
 * times between two ticks, and its clock is read once. What `stats` holds may
 * be out of date: version and moment, compared here, are all that it hangs on.
 */
// @ts-ignore: decorator
@inline
export function allowSlotByCell(stats: usize, slot: usize, key: u64, cost: u32): i32 {
  if (load<i64>(stats, READING_MOMENT) != ~load<i64>(0, HEADER_CLOCK_NS) && !readCell(stats)) return LOOK_UP;
  const v = load<u64>(stats, READING_V);
  const seen = atomic.load<u64>(slot, SLOT_STATE);
  if (
    load<u64>(slot) != key || (seen & TAG_BITS) != (v & TAG_BITS)
    || !isCurrent(load<u32>(stats, READING_POLICY), load<u32>(stats, READING_VERSION))
  ) return outOfDate(stats);
  const floor = load<u64>(stats, READING_FLOOR);
  const next = (seen > floor ? seen : floor) + (u64(cost) << load<i32>(stats, READING_TOKEN_SHIFT));
  if (next > v || cost > load<u32>(stats, READING_BURST_TOKENS)) return counted(stats, STATS_DENIED, 0);
  if (!cost || atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) return counted(stats, STATS_ALLOWED, 1);
  return counted(stats, STATS_CONTENDED, LOOK_UP);
}

/** The same for the policy's global bucket. */
// @ts-ignore: decorator
@inline
export function allowGlobalByCell(stats: usize, cost: u32): i32 {
  if (load<i64>(stats, READING_MOMENT) != ~load<i64>(0, HEADER_CLOCK_NS) && !readCell(stats)) return LOOK_UP;
  const policy = usize(load<u32>(stats, READING_POLICY));
  const v = load<u64>(stats, READING_V);
  const seen = atomic.load<u64>(policy, POLICY_GLOBAL);
  if ((seen & TAG_BITS) != (v & TAG_BITS) || !isCurrent(policy, load<u32>(stats, READING_VERSION))) {
    return outOfDate(stats);
  }
  const floor = load<u64>(stats, READING_FLOOR);
  const next = (seen > floor ? seen : floor) + (u64(cost) << load<i32>(stats, READING_TOKEN_SHIFT));
  if (next > v || cost > load<u32>(stats, READING_BURST_TOKENS)) return counted(stats, STATS_DENIED, 0);
  if (!cost || atomic.cmpxchg<u64>(policy, seen, next, POLICY_GLOBAL) == seen) return counted(stats, STATS_ALLOWED, 1);
  return counted(stats, STATS_CONTENDED, LOOK_UP);
}

/** Reads the clock of the policy whose counters are at `stats` by the clock cell; false if it is not `isQuick`. */
function readCell(stats: usize): bool {
  const policy = POLICIES + ((stats - lane - LANE_STATS) / STATS_BYTES) * POLICY_BYTES;
  const now = load<i64>(0, HEADER_CLOCK_NS);
  const version = atomic.load<u32>(policy, POLICY_VERSION);
  const piece = pieceOf(policy, version);
  if (!isQuick(piece, now)) return false;
  const v = quickReading(piece, now);
  store<u64>(stats, v, READING_V);
  store<u64>(stats, v - load<u64>(piece, PIECE_BURST), READING_FLOOR);
  store<u32>(stats, load<u32>(piece, PIECE_BURST_TOKENS), READING_BURST_TOKENS);
  store<i32>(stats, load<i32>(piece, PIECE_TOKEN_SHIFT), READING_TOKEN_SHIFT);
  store<u32>(stats, u32(policy), READING_POLICY);
  store<u32>(stats, version, READING_VERSION);
  store<i64>(stats, ~now, READING_MOMENT);
  return true;
}

/** Another piece is in force, or another key has the slot. */
function outOfDate(stats: usize): i32 {
  store<i64>(stats, 0, READING_MOMENT);
  return LOOK_UP;
}

// @ts-ignore: decorator
@inline
function counted(stats: usize, counter: usize, answer: i32): i32 {
  store<u64>(stats + counter, load<u64>(stats + counter) + 1);
  return answer;
}

/** The same for a sliding window counter. */
// @ts-ignore: decorator
@inline
function allowSlidingAt(piece: usize, version: u32, slot: usize, key: u64, cost: u32, now: i64): i32 {
  const policy = policyOf(piece);
  const seen = atomic.load<u64>(slot, SLOT_STATE);
  if (load<u64>(slot) != key) return LOOK_UP;
  const next = quickSliding(piece, seen, cost, now);
  if (!isCurrent(policy, version) || next == SLIDING_RARE) return LOOK_UP;
  if (next == SLIDING_REFUSED) return refused(policy);
  if (!cost || atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) return admitted(policy);
  return overtaken(policy);
}

/** The same for the policy's global bucket. */
// @ts-ignore: decorator
@inline
export function allowGlobalQuickly(piece: usize, cost: u32, now: i64): i32 {
  const policy = policyOf(piece);
  const version = load<u32>(policy, POLICY_VERSION);
  if (pieceOf(policy, version) != piece || !isQuick(piece, now)) return LOOK_UP;
  const v = quickReading(piece, now);
  const floor = v - load<u64>(piece, PIECE_BURST);
  const need = u64(cost) << load<i32>(piece, PIECE_TOKEN_SHIFT);
  const isTooMuch = cost > load<u32>(piece, PIECE_BURST_TOKENS);
  const seen = atomic.load<u64>(policy, POLICY_GLOBAL);
  if ((seen & TAG_BITS) != (v & TAG_BITS) || !isCurrent(policy, version)) return LOOK_UP;
  const next = (seen > floor ? seen : floor) + need;
  if (next > v || isTooMuch) return refused(policy);
  if (!cost || atomic.cmpxchg<u64>(policy, seen, next, POLICY_GLOBAL) == seen) return admitted(policy);
  return overtaken(policy);
}

// @ts-ignore: decorator
@inline
function admitted(policy: usize): i32 {
  count(policy, STATS_ALLOWED);
  return 1;
}

// @ts-ignore: decorator
@inline
function refused(policy: usize): i32 {
  count(policy, STATS_DENIED);
  return 0;
}

/** Another thread came first. */
// @ts-ignore: decorator
@inline
function overtaken(policy: usize): i32 {
  count(policy, STATS_CONTENDED);
  return LOOK_UP;
}
