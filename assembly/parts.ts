// Several limits on one key, all or nothing: a token bucket each.
//
//   line   8 the words of up to 7 buckets, 7 x u64
//
// Each limit is a policy of its own, with its clock; the words are as in
// bucket.ts. A cost is charged to all as of one moment: now, or the first at
// which all have room.

import { nanoseconds, pieceOf, reading, translated, wholeNanosecondsUntil } from "./clock";
import { ANSWER, AS_OF, CONSUME, DEBT } from "./decide";
import {
  AHEAD_LIMIT,
  FLAG_UNLIMITED,
  LANE_LIMIT,
  LANE_LINE,
  LANE_REAL_MS,
  LANE_TAKEN,
  PIECE_BURST,
  PIECE_BURST_TOKENS,
  PIECE_FLAGS,
  PIECE_TOKEN_SHIFT,
  POLICIES,
  POLICY_BYTES,
  POLICY_PART_COUNT,
  POLICY_PARTS,
  POLICY_VERSION,
  TAG_BITS,
} from "./layout";
import { setOutcome } from "./outcome";
import { lane } from "./thread";

const WORDS: usize = 8;

// @ts-ignore: decorator
@inline
function wordAt(i: i32): usize {
  return lane + LANE_LINE + WORDS + usize(i) * 8;
}

/** The piece in force of limit `i`. */
function pieceOfPart(policy: usize, i: i32): usize {
  const part = POLICIES + usize(load<i32>(policy + POLICY_PARTS + usize(i) * 4)) * POLICY_BYTES;
  return pieceOf(part, atomic.load<u32>(part, POLICY_VERSION));
}

/** The word of limit `i`, in its piece's units, not before its bucket was full. */
// @ts-ignore: decorator
@inline
function wordOf(piece: usize, i: i32, v: u64): u64 {
  const word = load<u64>(wordAt(i));
  const z = (word & TAG_BITS) == (v & TAG_BITS) ? word : translated(piece, word);
  return max(z, v - load<u64>(piece, PIECE_BURST));
}

export function partsLack(policy: usize, now: i64): f64 {
  let most = 0.0;
  for (let i = 0; i < load<i32>(policy, POLICY_PART_COUNT); i++) {
    const piece = pieceOfPart(policy, i);
    if (load<i32>(piece, PIECE_FLAGS) & FLAG_UNLIMITED) continue;
    const v = reading(piece, now);
    const burst = load<u64>(piece, PIECE_BURST);
    most = max(most, f64(i64(wordOf(piece, i, v) - (v - burst))) / f64(max(1, burst)));
  }
  return most;
}

/** Charges limit `i`, whose bucket stands at z as of `act` where its clock reads v; leaves what that took. */
function chargePart(piece: usize, i: i32, z: u64, v: u64, cost: u32, before: u64): u64 {
  const shift = load<i32>(piece, PIECE_TOKEN_SHIFT);
  let next = z + min(u64(cost) << shift, AHEAD_LIMIT);
  if (next > v && next - v > AHEAD_LIMIT) next = (v + AHEAD_LIMIT) & ~TAG_BITS | (v & TAG_BITS);
  store<u64>(wordAt(i), next);
  store<f64>(lane + LANE_TAKEN + usize(i) * 8, f64(i64(next - before)) / f64(u64(1) << shift));
  return next;
}

/**
 * For whoever wants no more than yes or no: one reading for each limit.
 * It charges as it goes; of a refusal, the lane's line is thrown away.
 */
function decideNow(policy: usize, cost: u32, now: i64): bool {
  const parts = load<i32>(policy, POLICY_PART_COUNT);
  for (let i = 0; i < parts; i++) {
    const piece = pieceOfPart(policy, i);
    if (load<i32>(piece, PIECE_FLAGS) & FLAG_UNLIMITED) continue;
    const v = reading(piece, now);
    const next = wordOf(piece, i, v) + (u64(cost) << load<i32>(piece, PIECE_TOKEN_SHIFT));
    if (next > v || cost > load<u32>(piece, PIECE_BURST_TOKENS)) return false;
    store<u64>(wordAt(i), next);
  }
  return true;
}

/** Decides on the words in the lane and charges them there: true if granted. Leaves the limit that decided. */
export function decideParts(policy: usize, mode: i32, cost: u32, now: i64, wait: i64): bool {
  if (!(mode & (ANSWER | DEBT)) && wait <= 0) return decideNow(policy, cost, now);
  const parts = load<i32>(policy, POLICY_PART_COUNT);
  // The first moment at which all have room.
  let delay = 0.0;
  let slowest = -1;
  for (let i = 0; i < parts; i++) {
    const piece = pieceOfPart(policy, i);
    if (load<i32>(piece, PIECE_FLAGS) & FLAG_UNLIMITED) continue;
    const v = reading(piece, now);
    const isTooMuch = cost > load<u32>(piece, PIECE_BURST_TOKENS);
    const next = wordOf(piece, i, v) + (u64(cost) << load<i32>(piece, PIECE_TOKEN_SHIFT));
    if (next <= v && !isTooMuch) continue;
    const own = isTooMuch ? Infinity : wholeNanosecondsUntil(piece, now, next);
    if (own > delay) {
      delay = own;
      slowest = i;
    }
  }
  const isGranted = (mode & DEBT) != 0 || delay == 0 || delay <= f64(wait);
  const isCharged = isGranted && (mode & CONSUME) != 0;
  if (!isCharged && !(mode & ANSWER)) return isGranted;
  const act = mode & DEBT || delay > 9e18 ? now : now + i64(delay);
  let fewest = Infinity;
  let tightest = 0;
  let reset = 0.0;
  for (let i = 0; i < parts; i++) {
    const piece = pieceOfPart(policy, i);
    if (load<i32>(piece, PIECE_FLAGS) & FLAG_UNLIMITED) continue;
    const v = reading(piece, now);
    const z = wordOf(piece, i, v);
    let after = z;
    if (isCharged) {
      const later = act == now ? v : reading(piece, act);
      const before = mode & AS_OF ? wordOf(piece, i, reading(piece, nanoseconds(load<f64>(lane, LANE_REAL_MS)))) : z;
      after = chargePart(piece, i, act == now ? z : wordOf(piece, i, later), later, cost, before);
    }
    if (!(mode & ANSWER)) continue;
    const tokens = f64(i64(v - after)) / f64(u64(1) << load<i32>(piece, PIECE_TOKEN_SHIFT));
    if (tokens < fewest) {
      fewest = tokens;
      tightest = i;
    }
    reset = max(reset, wholeNanosecondsUntil(piece, now, after + load<u64>(piece, PIECE_BURST)));
  }
  store<i32>(lane, isGranted || slowest < 0 ? tightest : slowest, LANE_LIMIT);
  setOutcome(fewest, delay, reset, delay, (u64(act) << 2) | 1);
  return isGranted;
}

/**
 * Gives every word in the lane `cost` back; or, for a cancel, what the lane says
 * that the reservation took, as far as nobody reserved behind `act`.
 */
export function restoreParts(policy: usize, cost: f64, act: u64, now: i64): bool {
  let isAny = false;
  for (let i = 0; i < load<i32>(policy, POLICY_PART_COUNT); i++) {
    const piece = pieceOfPart(policy, i);
    if (load<i32>(piece, PIECE_FLAGS) & FLAG_UNLIMITED) continue;
    const v = reading(piece, now);
    const shift = load<i32>(piece, PIECE_TOKEN_SHIFT);
    const z = wordOf(piece, i, v);
    const tokens = act ? load<f64>(lane + LANE_TAKEN + usize(i) * 8) : cost;
    let back = u64(min(tokens * f64(u64(1) << shift), f64(AHEAD_LIMIT))) & ~TAG_BITS;
    if (act) {
      const acted = reading(piece, i64(act >> 2));
      if (z > acted) back = z - acted < back ? back - (z - acted) : 0;
    }
    back = min(back, z - (v - load<u64>(piece, PIECE_BURST)));
    store<u64>(wordAt(i), z - back);
    if (back) isAny = true;
  }
  return isAny;
}

/** Rewrites the word of limit `i` in the lane if it carries `tag`: true if it did. */
export function retagPart(piece: usize, i: i32, tag: u64): bool {
  const word = load<u64>(wordAt(i));
  if (!word || (word & TAG_BITS) != tag) return false;
  store<u64>(wordAt(i), translated(piece, word));
  return true;
}
