// Claims: a key that has no slot is given one.
//
// A slot is given to a key only under the striped lock of that key, after a
// second look-up, so a key never has two slots. Two claimers with different locks
// may want the same slot: a swap of the victim's state decides, for BUSY or, of a
// line, for its lock.
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

import { algorithmIn, isCurrent, isLineKind, LEASE, Policy, policyAt } from "../layout/policy";
import { BUSY, LINE_OWNER_BITS, LINE_SLOT_COUNT, LINE_VERSION_STEP, SIDE_BITS, SLOT_COUNT } from "../layout/slots";
import { SLOT_STATE, SLOT_STEP } from "../layout/slots";
import { EVICT, header, LOCK_SLOT, POLICY_BITS } from "../layout/table";
import { Counters, SCRATCH_LINE, SCRATCH_SEGMENT } from "../layout/thread";
import { count, owner, scratch, scratchAt, yieldTo } from "../thread";
import { LEASE_SIDE } from "../words/lease";
import { deficitOf } from "./deficit";
import { copyLine, copyState, lineOf } from "./lines";
import { matches, stripeOf } from "./slots";

// Answers of `claim`.
export const CLAIM_AGAIN: i32 = 0;
export const CLAIM_TAKEN: i32 = 1;
export const CLAIM_FULL: i32 = 2;

/** Where a claim sets the new line aside: no segment is staged meanwhile. */
const ASIDE: usize = SCRATCH_SEGMENT;

// The victim that was chosen: its slot (0: none), key word, state (of a line, its lock word) and deficit.
let victim: usize = 0;
let victimKey: u64 = 0;
let victimState: u64 = 0;
let victimDeficit: f64 = 0;

/** The state of a slot; of a line, its lock word. */
@inline
function stateOf(slot: usize, isLine: bool): u64 {
  return isLine ? u64(atomic.load<i32>(lineOf(slot))) : atomic.load<u64>(slot, SLOT_STATE);
}

/** True if another thread claims or writes the slot with this state. */
@inline
function isLocked(state: u64, isLine: bool): bool {
  return isLine ? (i32(state) & LINE_OWNER_BITS) != 0 : (state & SIDE_BITS) == BUSY;
}

@inline
function isTakenNow(slot: usize, isLine: bool): bool {
  return isLocked(stateOf(slot, isLine), isLine);
}

/** Chooses an empty slot, in the emptier set: true if there is one. */
function chooseEmpty(a: usize, b: usize, isLine: bool): bool {
  const end = SLOT_STEP * usize(isLine ? LINE_SLOT_COUNT : SLOT_COUNT);
  let emptyA: usize = 0;
  let emptyB: usize = 0;
  let usedA = 0;
  let usedB = 0;
  for (let i: usize = 0; i < end; i += SLOT_STEP) {
    if (atomic.load<u64>(a + i)) usedA++;
    else if (!isTakenNow(a + i, isLine)) emptyA = a + i;
    if (atomic.load<u64>(b + i)) usedB++;
    else if (!isTakenNow(b + i, isLine)) emptyB = b + i;
  }
  victim = emptyA && (!emptyB || usedA <= usedB) ? emptyA : emptyB;
  if (!victim) return false;
  victimKey = 0;
  victimDeficit = 0;
  victimState = stateOf(victim, isLine);
  return true;
}

/** Chooses the slot with the least deficit, whose sets have no empty one: true if there is one. */
function chooseFreshest(a: usize, b: usize, isLine: bool, now: i64): bool {
  const end = SLOT_STEP * usize(isLine ? LINE_SLOT_COUNT : SLOT_COUNT);
  victim = 0;
  victimDeficit = Infinity;
  for (let i: usize = 0; i < 2 * end && victimDeficit > 0; i += SLOT_STEP) {
    const slot = i < end ? a + i : b + i - end;
    const key = atomic.load<u64>(slot);
    let state: u64 = 0;
    if (isLine) {
      if (!copyLine(lineOf(slot)) || atomic.load<u64>(slot) != key) continue;
      state = u64(load<i32>(scratchAt, SCRATCH_LINE));
    } else {
      state = stateOf(slot, false);
      if (isLocked(state, false)) continue;
    }
    if (!key) continue;
    const deficit = deficitOf(policyAt(key & POLICY_BITS), state, now);
    if (deficit >= victimDeficit) continue;
    victim = slot;
    victimKey = key;
    victimState = state;
    victimDeficit = deficit;
  }
  return victim != 0;
}

/** A new word that differs from the victim's: the same word again would let a decider of the old key swap it. */
@inline
function unlike(policy: Policy, word: u64, seen: u64): u64 {
  // Leases are used up again, so theirs never comes back: it has the other side.
  if (algorithmIn(policy.flags) == LEASE) return word ^ (~(word ^ seen) & LEASE_SIDE);
  return word == seen ? word + SIDE_BITS + 1 : word;
}

/**
 * Gives a key that has no slot one, with the state `word`, or for a line kind with
 * the state in the scratch's line. CLAIM_FULL if both sets hold only keys that are
 * not fresh and the table does not evict; CLAIM_AGAIN if the key or the victim was
 * taken, or the policy changed, meanwhile: look up again.
 */
export function claim(
  policy: Policy,
  version: u32,
  key: u64,
  a: usize,
  b: usize,
  word: u64,
  now: i64,
  tries: i32,
): i32 {
  const isLine = isLineKind(policy.flags);
  if (!chooseEmpty(a, b, isLine)) {
    // The new line steps aside while the scratch's serves to look at others.
    if (isLine) copyState(scratchAt + SCRATCH_LINE, scratchAt + ASIDE);
    const isFound = chooseFreshest(a, b, isLine, now);
    if (isLine) copyState(scratchAt + ASIDE, scratchAt + SCRATCH_LINE);
    if (!isFound) {
      yieldTo(policy, tries);
      return CLAIM_AGAIN;
    }
    if (victimDeficit > 0 && header().whenFull != EVICT) {
      return matches(a, key) | matches(b, key) ? CLAIM_AGAIN : CLAIM_FULL;
    }
    if (!isLine) word = unlike(policy, word, victimState);
  }
  if (isLocked(victimState, isLine)) {
    yieldTo(policy, tries);
    return CLAIM_AGAIN;
  }
  const slot = victim;
  const slotKey = victimKey;
  const seen = victimState;
  const line = lineOf(slot);
  const lineWord = i32(seen);
  const from = scratchAt + SCRATCH_LINE;
  const lock = stripeOf(key);
  if (isLine) scratch().lineLocked = u32(line);
  if (atomic.cmpxchg<i32>(lock, 0, owner) != 0) {
    yieldTo(policy, tries);
    return CLAIM_AGAIN;
  }
  // Held from here: straight line only.
  let isTaken = 0;
  if (!(matches(a, key) | matches(b, key)) && isCurrent(policy, version)) {
    store<u32>(lock, u32(slot), LOCK_SLOT);
    if (atomic.load<u64>(slot) == slotKey) {
      if (isLine) {
        if (atomic.cmpxchg<i32>(line, lineWord, lineWord | owner) == lineWord) {
          atomic.store<u64>(slot, key);
          copyState(from, line);
          atomic.store<i32>(line, lineWord + LINE_VERSION_STEP);
          isTaken = 1;
        }
      } else if (atomic.cmpxchg<u64>(slot, seen, (u64(owner) << 2) | BUSY, SLOT_STATE) == seen) {
        atomic.store<u64>(slot, key);
        atomic.store<u64>(slot, word, SLOT_STATE);
        isTaken = 1;
      }
    }
  }
  atomic.store<i32>(lock, 0);
  // Released.
  if (!isTaken) {
    count(policy, offsetof<Counters>("contended"));
    return CLAIM_AGAIN;
  }
  count(policy, offsetof<Counters>("claimed"));
  if (victimDeficit > 0) count(policy, offsetof<Counters>("evicted"));
  return CLAIM_TAKEN;
}
