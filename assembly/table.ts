// Keys to slots: look-up and claim.
//
// A key has two candidate sets (Azar, Broder, Karlin and Upfal, "Balanced
// allocations", 1994), and takes a slot in the emptier one. Set a comes from
// the hash, set b from set a and the key word, so that either set and the key
// word give the other (as in cuckoo filters) and an audit can look for doubles.
// Both lie in one 4 KiB page, so that a look-up costs one TLB miss and not two.
// Simulated with 8 million keys: at 70 % load 1 key in 36,000 finds both full,
// at 75 % 1 in 5,000 (1 in 96,000 if set b may lie anywhere).
//
// Look-up is plain reads. A slot is given to a key only under the striped lock
// of that key, after a second look-up, so a key never has two slots. Two
// claimers with different locks may want the same slot: the swap of the
// victim's state for BUSY decides.
//
//   claimer                              decider of the old key
//   lock the key's stripe                find slot by key word
//   look up again                        load state
//   state: seen -> BUSY  (swap)          load key word again: another? look up again
//   key word: store                      BUSY? look up again
//   state: store the new key's           state: loaded -> next (swap): fails if the
//   unlock                               slot was claimed, as words only grow
//
// A word could come back to `seen` only by being refunded to the unit, which
// a claim followed by charges does not do; the new word of a claim is above
// any fresh word of the same policy.
//
// From taking a lock to releasing it there is no loop, no call and no trap: V8
// stops a worker only at those. Should a worker die there all the same, the
// lock and the BUSY word name it, and `recover` gives both back.

import { isCurrent, pieceOf, reading, translated } from "./clock";
import {
  BURST_LIMIT,
  BUSY,
  EVICT,
  FLAG_LEASE,
  FLAG_SLIDING,
  FLAG_UNLIMITED,
  HEADER_POLICY_LOCK,
  HEADER_WHEN_FULL,
  LEASE_SIDE,
  LOCK_BYTES,
  LOCK_COUNT,
  LOCK_SLOT,
  LOCKS,
  PAGE_SETS,
  PIECE_BURST,
  PIECE_FLAGS,
  POLICIES,
  POLICY_BITS,
  POLICY_BYTES,
  POLICY_COUNT,
  POLICY_FLAGS,
  POLICY_LOCK,
  POLICY_VERSION,
  SET_BYTES,
  SLOT_COUNT,
  SLOT_STATE,
  SLOT_STEP,
  SLOTS_END,
  STATS_CLAIMED,
  STATS_EVICTED,
  TAG_BITS,
} from "./layout";
import { leaseLack } from "./lease";
import { recoverLine } from "./line";
import { slidingLack } from "./sliding";
import { count, lineSets, owner, yieldTo } from "./thread";

/** The set that goes with `set` for this key word: another of the same page. */
// @ts-ignore: decorator
@inline
export function otherSet(set: usize, key: u64): usize {
  return set ^ (usize(1 + ((u64(u32(key >> 32)) * (PAGE_SETS - 1)) >> 32)) * SET_BYTES);
}

/** Starts loading a line that nothing waits for yet. */
// @ts-ignore: decorator
@inline
export function touch(at: usize): void {
  touched = atomic.load<u32>(at);
}

/** Keeps the touches alive through the optimisers. */
let touched: u32 = 0;

/** Two bits for each slot of a set: 11 where the key word is `key`. */
// @ts-ignore: decorator
@inline
export function matches(set: usize, key: u64): u32 {
  const wanted = i64x2.splat(key);
  return i8x16.bitmask(i8x16.narrow_i16x8_s(
    i16x8.narrow_i32x4_s(i64x2.eq(v128.load(set, 0), wanted), i64x2.eq(v128.load(set, 16), wanted)),
    i16x8.narrow_i32x4_s(i64x2.eq(v128.load(set, 32), wanted), i64x2.eq(v128.load(set, 48), wanted)),
  ));
}

/**
 * The slot of a key, or 0. All four lines are loaded at once and without a
 * branch between them, so that their cache misses overlap; nor is there one on
 * which set it was, a coin that no predictor knows and that would be tossed only
 * when the misses are over. Vector loads are no atomic ones: whoever uses a slot
 * loads its key word again.
 */
// @ts-ignore: decorator
@inline
export function find(key: u64, a: usize, b: usize): usize {
  touch(a + SLOT_STATE);
  touch(b + SLOT_STATE);
  const found = matches(a, key) | (matches(b, key) << 16);
  if (!found) return 0;
  const place = usize(ctz(found) >> 1);
  return a + place * SLOT_STEP + ((b - a - SLOTS_END) & (0 - place / usize(SLOT_COUNT)));
}

/** The lock of a key's stripe. */
// @ts-ignore: decorator
@inline
export function stripeOf(key: u64): usize {
  return LOCKS + usize(u32(key >> 10) % LOCK_COUNT) * LOCK_BYTES;
}

/** How much of its burst a slot lacks: 0 or less is fresh, 1 is empty, more is in debt. */
function lack(key: u64, word: u64, now: i64): f64 {
  const policy = POLICIES + usize(key & POLICY_BITS) * POLICY_BYTES;
  while (true) {
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const v = reading(piece, now);
    const burst = load<u64>(piece, PIECE_BURST);
    const flags = load<i32>(piece, PIECE_FLAGS);
    if (flags & FLAG_SLIDING) return slidingLack(piece, word, now);
    if (flags & FLAG_LEASE) return leaseLack(word, now);
    const z = (word & TAG_BITS) == (v & TAG_BITS) ? word : translated(piece, word);
    if (!isCurrent(policy, version)) continue;
    if (flags & FLAG_UNLIMITED) return 0;
    const missing = i64(z - (v - burst));
    // A burst of 0 is never less than empty; debt still counts.
    return f64(missing) / (burst ? f64(burst) : f64(BURST_LIMIT));
  }
}

// @ts-ignore: decorator
@inline
function isBusy(slot: usize): bool {
  return (atomic.load<u64>(slot, SLOT_STATE) & TAG_BITS) == BUSY;
}

/** Answers of `claim`. */
export const CLAIM_AGAIN: i32 = 0;
export const CLAIM_TAKEN: i32 = 1;
export const CLAIM_FULL: i32 = 2;

/**
 * Gives a key that has no slot one whose state is `word`. CLAIM_FULL if both
 * sets hold only keys that are not fresh and the table does not evict;
 * CLAIM_AGAIN if the key or the victim was taken, or the policy changed,
 * meanwhile: look up again.
 */
export function claim(policy: usize, version: u32, key: u64, a: usize, b: usize, word: u64, now: i64, tries: i32): i32 {
  let victim: usize = 0, victimKey: u64 = 0, seen: u64 = 0;
  let least = Infinity;

  let emptyA: usize = 0, emptyB: usize = 0;
  let usedA = 0, usedB = 0;
  for (let i: usize = 0; i < SLOTS_END; i += SLOT_STEP) {
    if (atomic.load<u64>(a + i)) usedA++;
    else if (!isBusy(a + i)) emptyA = a + i;
    if (atomic.load<u64>(b + i)) usedB++;
    else if (!isBusy(b + i)) emptyB = b + i;
  }
  if (emptyA | emptyB) {
    victim = emptyA && (!emptyB || usedA <= usedB) ? emptyA : emptyB;
    seen = atomic.load<u64>(victim, SLOT_STATE);
    if ((seen & TAG_BITS) == BUSY) {
      yieldTo(policy, tries);
      return CLAIM_AGAIN;
    }
    least = 0;
  } else {
    for (let i: usize = 0; i < 2 * SLOTS_END; i += SLOT_STEP) {
      const slot = i < SLOTS_END ? a + i : b + i - SLOTS_END;
      const slotKey = atomic.load<u64>(slot);
      const state = atomic.load<u64>(slot, SLOT_STATE);
      if (!slotKey || (state & TAG_BITS) == BUSY) continue;
      const lacking = lack(slotKey, state, now);
      if (lacking < least) {
        least = lacking;
        victim = slot;
        victimKey = slotKey;
        seen = state;
        if (lacking <= 0) break;
      }
    }
    if (!victim) {
      yieldTo(policy, tries);
      return CLAIM_AGAIN;
    }
    if (least > 0 && load<i32>(0, HEADER_WHEN_FULL) != EVICT) return find(key, a, b) ? CLAIM_AGAIN : CLAIM_FULL;
    // The same word again would let a decider of the old key swap it. Leases are
    // used up again, so theirs never comes back: it has the other side.
    if (load<i32>(policy, POLICY_FLAGS) & FLAG_LEASE) word ^= ~(word ^ seen) & LEASE_SIDE;
    else if (word == seen) word += TAG_BITS + 1;
  }

  const lock = stripeOf(key);
  if (atomic.cmpxchg<i32>(lock, 0, owner) != 0) {
    yieldTo(policy, tries);
    return CLAIM_AGAIN;
  }
  // Held from here: straight line only.
  let isTaken = 0;
  if (!(matches(a, key) | matches(b, key)) && isCurrent(policy, version)) {
    store<u32>(lock, u32(victim), LOCK_SLOT);
    if (atomic.load<u64>(victim) == victimKey) {
      if (atomic.cmpxchg<u64>(victim, seen, (u64(owner) << 2) | BUSY, SLOT_STATE) == seen) {
        atomic.store<u64>(victim, key);
        atomic.store<u64>(victim, word, SLOT_STATE);
        isTaken = 1;
      }
    }
  }
  atomic.store<i32>(lock, 0);
  // Released.
  if (!isTaken) return CLAIM_AGAIN;
  count(policy, STATS_CLAIMED);
  if (least > 0) count(policy, STATS_EVICTED);
  return CLAIM_TAKEN;
}

/**
 * Gives back what a thread held that is gone for good: call it only when
 * `dead` (its number + 1) can run no more. Returns how many locks it held.
 */
export function recover(dead: i32): i32 {
  let held = 0;
  for (let i = 0; i < LOCK_COUNT; i++) {
    const lock = LOCKS + usize(i) * LOCK_BYTES;
    if (atomic.load<i32>(lock) != dead) continue;
    const slot = load<u32>(lock, LOCK_SLOT);
    if (slot && slot < u32(lineSets) && atomic.load<u64>(slot, SLOT_STATE) == ((u64(dead) << 2) | BUSY)) {
      atomic.store<u64>(slot, 0);
      atomic.store<u64>(slot, 0, SLOT_STATE);
    }
    atomic.store<i32>(lock, 0);
    held++;
  }
  held += recoverLine(dead);
  for (let i = 0; i < POLICY_COUNT; i++) {
    if (atomic.cmpxchg<i32>(POLICIES + usize(i) * POLICY_BYTES, dead, 0, POLICY_LOCK) == dead) held++;
  }
  if (atomic.cmpxchg<i32>(0, dead, 0, HEADER_POLICY_LOCK) == dead) held++;
  return held;
}
