// Where a key may be, and where it is.
//
// A key has two candidate sets (Azar, Broder, Karlin and Upfal, "Balanced
// allocations", 1994), and takes a slot in the emptier one. Set a comes from
// the hash, set b from set a and the key word, so that either set and the key
// word give the other (as in cuckoo filters) and an audit can look for doubles.
// Both lie in one 4 KiB page, so that a look-up costs one TLB miss and not two.
// Simulated with 8 million keys: at 70 % load 1 key in 36,000 finds both full,
// at 75 % 1 in 5,000 (1 in 96,000 if set b may lie anywhere).
//
// Look-up is plain reads: the caller loads the key word again once it has the state.

import { isLineKind, Policy, POLICY_GLOBAL } from "../layout/policy";
import { BUSY, LINE_GROUP_SETS, LINE_SET_BYTES, PAGE_SETS, SET_BYTES, SIDE_BITS, SLOT_COUNT } from "../layout/slots";
import { SLOT_STATE, SLOT_STEP, SLOTS_END } from "../layout/slots";
import { LOCK_BYTES, LOCK_COUNT, LOCKS } from "../layout/table";
import { GLOBAL, HINTED } from "../question";
import { scratch, yieldTo } from "../thread";

/** A fraction of `n` that 32 bits of a key word choose. */
@inline
function choice(key: u64, n: u64): usize {
  return usize((u64(u32(key >> 32)) * n) >> 32);
}

/** The set that goes with `set` for this key word: another of the same page. */
@inline
export function otherSet(set: usize, key: u64): usize {
  return set ^ ((1 + choice(key, PAGE_SETS - 1)) * SET_BYTES);
}

/** The line set that goes with `set` for this key word: another of the same group. */
@inline
export function otherLineSet(set: usize, key: u64): usize {
  return set ^ ((1 + choice(key, LINE_GROUP_SETS - 1)) * LINE_SET_BYTES);
}

/** Starts loading a cache line that nothing waits for yet. */
@inline
export function touch(at: usize): void {
  touched = atomic.load<u32>(at);
}

/** Keeps the touches alive through the optimisers. */
let touched: u32 = 0;

/** Two bits for each slot of a set: 11 where the key word is `key`. */
@inline
export function matches(set: usize, key: u64): u32 {
  const wanted = i64x2.splat(key);
  return i8x16.bitmask(
    i8x16.narrow_i16x8_s(
      i16x8.narrow_i32x4_s(i64x2.eq(v128.load(set, 0), wanted), i64x2.eq(v128.load(set, 16), wanted)),
      i16x8.narrow_i32x4_s(i64x2.eq(v128.load(set, 32), wanted), i64x2.eq(v128.load(set, 48), wanted)),
    ),
  );
}

/**
 * The slot of a key, or 0. All four lines are loaded at once and without a
 * branch between them, so that their cache misses overlap; nor is there one on
 * which set it was, a coin that no predictor knows and that would be tossed only
 * when the misses are over.
 */
@inline
export function find(key: u64, a: usize, b: usize): usize {
  touch(a + SLOT_STATE);
  touch(b + SLOT_STATE);
  const found = matches(a, key) | (matches(b, key) << 16);
  if (!found) return 0;
  const place = usize(ctz(found) >> 1);
  return a + place * SLOT_STEP + ((b - a - SLOTS_END) & (0 - place / usize(SLOT_COUNT)));
}

/** The slot of a key in its two line sets, or 0. */
export function findLine(key: u64, a: usize, b: usize): usize {
  const found = matches(a, key) | (matches(b, key) << 16);
  if (!found) return 0;
  const place = usize(ctz(found) >> 1);
  return place < 8 ? a + place * SLOT_STEP : b + (place - 8) * SLOT_STEP;
}

/** A hinted slot that is another key's by now: the scratch has no sets to look in. */
export const LOST: usize = 1;

/**
 * The slot that a general call works on, left in the scratch; 0 if its key has none. A global bucket
 * looks like a slot.
 */
export function target(policy: Policy, mode: i32): usize {
  if (mode & GLOBAL) return changetype<usize>(policy) + POLICY_GLOBAL - SLOT_STATE;
  const own = scratch();
  const key = own.key;
  if (mode & HINTED) return atomic.load<u64>(own.slot) == key ? usize(own.slot) : LOST;
  const a = usize(own.setA);
  const slot = isLineKind(policy.flags) ? findLine(key, a, otherLineSet(a, key)) : find(key, a, own.setB);
  own.slot = u32(slot);
  return slot;
}

/** The key that a general call is about; 0 for the global bucket. */
@inline
export function keyIn(mode: i32): u64 {
  return mode & GLOBAL ? 0 : scratch().key;
}

/** The state word of a slot, 0 of slot 0; BUSY if it is to be looked up again. A key of 0 is the global bucket's. */
@inline
export function see(policy: Policy, slot: usize, key: u64, tries: i32): u64 {
  if (!slot) return 0;
  const word = atomic.load<u64>(slot, SLOT_STATE);
  // The key after its state: else the state could be that of the slot's next key.
  if (key && atomic.load<u64>(slot) != key) return BUSY;
  if ((word & SIDE_BITS) != BUSY) return word;
  yieldTo(policy, tries);
  return BUSY;
}

/** The lock of a key's stripe. */
@inline
export function stripeOf(key: u64): usize {
  return LOCKS + usize(u32(key >> 10) % LOCK_COUNT) * LOCK_BYTES;
}
