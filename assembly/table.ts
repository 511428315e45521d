// Keys to slots: look-up and claim.
//
// A key has two candidate sets (Azar, Broder, Karlin and Upfal, "Balanced
// allocations", 1994): set a from the hash, set b from set a and the key word,
// so that either set and the key word give the other (as in cuckoo filters)
// and an audit can look for doubles.
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

import {
  BUSY, EVICT, FLAG_UNLIMITED, HEADER_WHEN_FULL, LOCKS, LOCK_BYTES, LOCK_COUNT, LOCK_SLOT, PIECE_BURST, PIECE_FLAGS,
  POLICIES, POLICY_BITS, POLICY_BYTES, POLICY_COUNT, POLICY_LOCK, SET_BYTES, SLOT_BYTES, SLOT_COUNT, SLOT_STATE,
  STATS_CLAIMED, STATS_EVICTED, TAG_BITS, POLICY_VERSION, HEADER_POLICY_LOCK, BURST_LIMIT,
} from "./layout";
import { isCurrent, pieceOf, reading, translated } from "./clock";
import { count, owner, setCount, sets, yieldTo } from "./thread";

/** The set that goes with `set` for this key word; its own inverse. */
// @ts-ignore: decorator
@inline
export function otherSet(set: usize, key: u64): usize {
  const index = u32(set - sets) / u32(SET_BYTES);
  const sum = u32((u64(u32(key >> 32)) * u64(setCount)) >> 32);
  const other = sum >= index ? sum - index : sum + setCount - index;
  return sets + usize(other) * SET_BYTES;
}

// @ts-ignore: decorator
@inline
function isAt(set: usize, key: u64, i: usize): bool {
  return atomic.load<u64>(set + i * SLOT_BYTES) == key;
}

/** The slot of a key, or 0. */
// @ts-ignore: decorator
@inline
export function find(key: u64, a: usize, b: usize): usize {
  if (isAt(a, key, 0)) return a;
  if (isAt(a, key, 1)) return a + 1 * SLOT_BYTES;
  if (isAt(a, key, 2)) return a + 2 * SLOT_BYTES;
  if (isAt(a, key, 3)) return a + 3 * SLOT_BYTES;
  if (isAt(a, key, 4)) return a + 4 * SLOT_BYTES;
  if (isAt(a, key, 5)) return a + 5 * SLOT_BYTES;
  if (isAt(a, key, 6)) return a + 6 * SLOT_BYTES;
  if (isAt(a, key, 7)) return a + 7 * SLOT_BYTES;
  if (isAt(b, key, 0)) return b;
  if (isAt(b, key, 1)) return b + 1 * SLOT_BYTES;
  if (isAt(b, key, 2)) return b + 2 * SLOT_BYTES;
  if (isAt(b, key, 3)) return b + 3 * SLOT_BYTES;
  if (isAt(b, key, 4)) return b + 4 * SLOT_BYTES;
  if (isAt(b, key, 5)) return b + 5 * SLOT_BYTES;
  if (isAt(b, key, 6)) return b + 6 * SLOT_BYTES;
  if (isAt(b, key, 7)) return b + 7 * SLOT_BYTES;
  return 0;
}

// @ts-ignore: decorator
@inline
function isIn(set: usize, key: u64): i32 {
  return i32(isAt(set, key, 0)) | i32(isAt(set, key, 1)) | i32(isAt(set, key, 2)) | i32(isAt(set, key, 3)) |
    i32(isAt(set, key, 4)) | i32(isAt(set, key, 5)) | i32(isAt(set, key, 6)) | i32(isAt(set, key, 7));
}

/** How much of its burst a slot lacks: 0 or less is fresh, 1 is empty, more is in debt. */
function lack(key: u64, word: u64, now: i64): f64 {
  const policy = POLICIES + usize(key & POLICY_BITS) * POLICY_BYTES;
  while (true) {
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const v = reading(piece, now);
    const burst = atomic.load<u64>(piece, PIECE_BURST);
    const isUnlimited = atomic.load<i32>(piece, PIECE_FLAGS) & FLAG_UNLIMITED;
    const z = (word & TAG_BITS) == (v & TAG_BITS) ? word : translated(piece, word);
    if (!isCurrent(policy, version)) continue;
    if (isUnlimited) return 0;
    const missing = i64(z - (v - burst));
    // A burst of 0 is never less than empty; debt still counts.
    return f64(missing) / (burst ? f64(burst) : f64(BURST_LIMIT));
  }
}

/** Answers of `claim`. */
export const CLAIM_AGAIN: i32 = 0;
export const CLAIM_TAKEN: i32 = 1;
export const CLAIM_FULL: i32 = 2;

/** The slot that the last CLAIM_TAKEN took; a policy's thread reads it at once. */
export let claimedSlot: usize = 0;

/**
 * Gives a key that has no slot one whose state is `word`. CLAIM_FULL if both
 * sets hold only keys that are not fresh and the table does not evict;
 * CLAIM_AGAIN if the key or the victim was taken meanwhile: look up again.
 */
export function claim(policy: usize, key: u64, a: usize, b: usize, word: u64, now: i64, tries: i32): i32 {
  let victim: usize = 0, victimKey: u64 = 0, seen: u64 = 0;
  let least = Infinity;

  let emptyA: usize = 0, emptyB: usize = 0;
  let usedA = 0, usedB = 0;
  for (let i: usize = 0; i < SET_BYTES; i += SLOT_BYTES) {
    if (atomic.load<u64>(a + i)) usedA++; else emptyA = a + i;
    if (atomic.load<u64>(b + i)) usedB++; else emptyB = b + i;
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
    for (let i: usize = 0; i < 2 * SET_BYTES; i += SLOT_BYTES) {
      const slot = i < SET_BYTES ? a + i : b + i - SET_BYTES;
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
    if (least > 0 && load<i32>(0, HEADER_WHEN_FULL) != EVICT) return CLAIM_FULL;
    // The same word again would let a decider of the old key swap it.
    if (word == seen) word += TAG_BITS + 1;
  }

  const lock = LOCKS + usize(u32(key >> 10) % LOCK_COUNT) * LOCK_BYTES;
  if (atomic.cmpxchg<i32>(lock, 0, owner) != 0) {
    yieldTo(policy, tries);
    return CLAIM_AGAIN;
  }
  // Held from here: straight line only.
  let isTaken = 0;
  if (!(isIn(a, key) | isIn(b, key))) {
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
  claimedSlot = victim;
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
    if (slot && atomic.load<u64>(slot, SLOT_STATE) == ((u64(dead) << 2) | BUSY)) {
      atomic.store<u64>(slot, 0);
      atomic.store<u64>(slot, 0, SLOT_STATE);
    }
    atomic.store<i32>(lock, 0);
    held++;
  }
  for (let i = 0; i < POLICY_COUNT; i++) {
    if (atomic.cmpxchg<i32>(POLICIES + usize(i) * POLICY_BYTES, dead, 0, POLICY_LOCK) == dead) held++;
  }
  if (atomic.cmpxchg<i32>(0, dead, 0, HEADER_POLICY_LOCK) == dead) held++;
  return held;
}
