// Lines: the state of keys that does not fit a word.
//
// Whoever decides copies the line, works on the copy, and puts it back if
// nobody was faster: a compare-and-swap of a whole line, by a lock word that
// counts versions.
//
//   decider                                   another
//   lock word: load, free?                    lock word: version v -> v, mine (swap)
//   copy the line into the lane               (held: straight line) store the copy
//   lock word and key word the same? else again      lock word: version v + 1, free
//   decide on the copy: refused writes nothing
//   lock word: version v -> v, mine (swap); fails if anybody wrote meanwhile
//   (held: straight line) store the copy
//   lock word: version v + 1, free
//
// The lock is held for nine stores, without a loop, a call or a trap. A claim
// takes the key's stripe first and the line's lock within it. A writer that
// dies there all the same leaves the line locked: `recover` opens it. It may
// then hold a part of that writer's last charge.

import { pieceOf } from "./clock";
import {
  EVICT,
  FLAG_PARTS,
  FLAG_RING,
  HEADER_WHEN_FULL,
  LANE_HELD,
  LANE_LINE,
  LANE_PIECE,
  LINE_BYTES,
  LINE_GROUP_SETS,
  LINE_OWNER_BITS,
  LINE_SET_BYTES,
  LINE_SLOT_COUNT,
  LINE_VERSION_STEP,
  PIECE_FLAGS,
  POLICIES,
  POLICY_BITS,
  POLICY_BYTES,
  POLICY_VERSION,
  SLOT_STEP,
  STATS_CLAIMED,
  STATS_CONTENDED,
  STATS_EVICTED,
  THREAD_BYTES,
  THREADS,
} from "./layout";
import { partsLack } from "./parts";
import { ringLack } from "./ring";
import { CLAIM_AGAIN, CLAIM_FULL, CLAIM_TAKEN, matches, stripeOf } from "./table";
import { count, lane, owner, yieldTo } from "./thread";
import { warmUpLack } from "./warmup";

/** The line set that goes with `set` for this key word: another of the same group. */
export function otherLineSet(set: usize, key: u64): usize {
  return set ^ (usize(1 + ((u64(u32(key >> 32)) * (LINE_GROUP_SETS - 1)) >> 32)) * LINE_SET_BYTES);
}

/** The slot of a key in its two line sets, or 0. */
export function findLine(key: u64, a: usize, b: usize): usize {
  const found = matches(a, key) | (matches(b, key) << 16);
  if (!found) return 0;
  const place = usize(ctz(found) >> 1);
  return place < 8 ? a + place * SLOT_STEP : b + (place - 8) * SLOT_STEP;
}

/** The line of a slot. */
// @ts-ignore: decorator
@inline
export function lineOf(slot: usize): usize {
  return (slot & ~(LINE_SET_BYTES - 1)) + LINE_BYTES + (slot & (LINE_BYTES - 1)) * (LINE_BYTES / SLOT_STEP);
}

/** Copies all of a line but its lock word: written out, as it stands under a lock. */
// @ts-ignore: decorator
@inline
function copyState(from: usize, to: usize): void {
  store<u32>(to, load<u32>(from, 4), 4);
  store<u64>(to, load<u64>(from, 8), 8);
  store<u64>(to, load<u64>(from, 16), 16);
  store<u64>(to, load<u64>(from, 24), 24);
  store<u64>(to, load<u64>(from, 32), 32);
  store<u64>(to, load<u64>(from, 40), 40);
  store<u64>(to, load<u64>(from, 48), 48);
  store<u64>(to, load<u64>(from, 56), 56);
}

/** Copies a line into the lane; false if somebody writes it just now. */
export function copyLine(line: usize): bool {
  const word = atomic.load<i32>(line);
  if (word & LINE_OWNER_BITS) return false;
  store<i32>(lane, word, LANE_LINE);
  copyState(line, lane + LANE_LINE);
  return atomic.load<i32>(line) == word;
}

/** Makes the lane's line that of a key never seen. */
export function clearLine(): void {
  memory.fill(lane + LANE_LINE, 0, LINE_BYTES);
}

/** Puts the lane's line back, if the line is as it was copied. */
export function swapLine(line: usize): bool {
  const word = load<i32>(lane, LANE_LINE);
  // So that whoever buries this thread knows where to look.
  store<u32>(lane, u32(line), LANE_HELD);
  if (atomic.cmpxchg<i32>(line, word, word | owner) != word) return false;
  // Held from here: straight line only.
  copyState(lane + LANE_LINE, line);
  atomic.store<i32>(line, word + LINE_VERSION_STEP);
  // Released.
  return true;
}

/** How much of its limit the key of a line in the lane lacks: 0 or less is fresh. */
export function lineLack(policy: usize, now: i64): f64 {
  const piece = pieceOf(policy, atomic.load<u32>(policy, POLICY_VERSION));
  const flags = load<i32>(piece, PIECE_FLAGS);
  if (flags & FLAG_RING) return ringLack(piece, now);
  if (flags & FLAG_PARTS) return partsLack(policy, now);
  return warmUpLack(piece, now);
}

/** Where a claim sets its new state aside: no piece is staged meanwhile. */
const LANE_ASIDE: usize = LANE_PIECE;

/**
 * Gives a key that has no slot one, with the state in the lane's line. Answers
 * as `claim` does; the lane's line is as it was unless it took one.
 */
export function claimLine(policy: usize, key: u64, a: usize, b: usize, now: i64, tries: i32): i32 {
  let victim: usize = 0, victimKey: u64 = 0;
  let least = Infinity;
  let word: i32 = 0;
  // The new state steps aside while the lane's line serves to look at others.
  copyState(lane + LANE_LINE, lane + LANE_ASIDE);
  let usedA = 0, usedB = 0;
  for (let i: usize = 0; i < usize(LINE_SLOT_COUNT); i++) {
    usedA += i32(atomic.load<u64>(a + i * SLOT_STEP) != 0);
    usedB += i32(atomic.load<u64>(b + i * SLOT_STEP) != 0);
  }
  const first = usedA <= usedB ? a : b;
  for (let i: usize = 0; i < 2 * usize(LINE_SLOT_COUNT) && least > 0; i++) {
    const slot = i < usize(LINE_SLOT_COUNT)
      ? first + i * SLOT_STEP
      : (a ^ b ^ first) + (i - usize(LINE_SLOT_COUNT)) * SLOT_STEP;
    const slotKey = atomic.load<u64>(slot);
    if (!copyLine(lineOf(slot)) || atomic.load<u64>(slot) != slotKey) continue;
    const lacking = slotKey ? lineLack(POLICIES + usize(slotKey & POLICY_BITS) * POLICY_BYTES, now) : 0;
    if (lacking < least) {
      least = lacking;
      victim = slot;
      victimKey = slotKey;
      word = load<i32>(lane, LANE_LINE);
    }
  }
  copyState(lane + LANE_ASIDE, lane + LANE_LINE);
  if (!victim) {
    yieldTo(policy, tries);
    return CLAIM_AGAIN;
  }
  if (least > 0 && load<i32>(0, HEADER_WHEN_FULL) != EVICT) return findLine(key, a, b) ? CLAIM_AGAIN : CLAIM_FULL;

  const line = lineOf(victim);
  store<u32>(lane, u32(line), LANE_HELD);
  const lock = stripeOf(key);
  if (atomic.cmpxchg<i32>(lock, 0, owner) != 0) {
    yieldTo(policy, tries);
    return CLAIM_AGAIN;
  }
  // Held from here: straight line only.
  let isTaken = 0;
  if (!(matches(a, key) | matches(b, key))) {
    if (atomic.load<u64>(victim) == victimKey) {
      if (atomic.cmpxchg<i32>(line, word, word | owner) == word) {
        atomic.store<u64>(victim, key);
        copyState(lane + LANE_LINE, line);
        atomic.store<i32>(line, word + LINE_VERSION_STEP);
        isTaken = 1;
      }
    }
  }
  atomic.store<i32>(lock, 0);
  // Released.
  if (!isTaken) {
    count(policy, STATS_CONTENDED);
    return CLAIM_AGAIN;
  }
  count(policy, STATS_CLAIMED);
  if (least > 0) count(policy, STATS_EVICTED);
  return CLAIM_TAKEN;
}

/** Opens the line that a thread which is gone for good held: how many it held. */
export function recoverLine(dead: i32): i32 {
  const line = usize(load<u32>(THREADS + usize(dead - 1) * THREAD_BYTES, LANE_HELD));
  if (!line) return 0;
  const word = atomic.load<i32>(line);
  if ((word & LINE_OWNER_BITS) != dead) return 0;
  atomic.store<i32>(line, (word & ~LINE_OWNER_BITS) + LINE_VERSION_STEP);
  return 1;
}
