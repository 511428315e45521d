// Lines: the state of keys that does not fit a word.
//
// A decider copies the line, works on the copy, and puts it back if no other
// thread was faster: a compare-and-swap of a whole line, by a lock word that
// counts versions.
//
//   decider                                   another
//   lock word: load, free?                    lock word: version v -> v, mine (swap)
//   copy the line into the scratch            (locked: straight line) store the copy
//   lock word and key word the same? else again      lock word: version v + 1, free
//   decide on the copy: refused writes nothing
//   lock word: version v -> v, mine (swap); fails if another wrote meanwhile
//   (locked: straight line) store the copy
//   lock word: version v + 1, free
//
// The lock is held for nine stores, without a loop, a call or a trap. A writer that
// dies there all the same leaves the line locked: `recover` opens it. It may then
// hold a part of that writer's last charge.

import { isLineKind, Policy, POLICY_GLOBAL } from "../layout/policy";
import { LINE_BYTES, LINE_OWNER_BITS, LINE_SET_BYTES, LINE_VERSION_STEP, SLOT_STATE } from "../layout/slots";
import { SLOT_STEP } from "../layout/slots";
import { Counters, SCRATCH_LINE } from "../layout/thread";
import { GLOBAL } from "../question";
import { count, owner, scratch, scratchAt, yieldTo } from "../thread";

/** The line of a slot of a line set. */
@inline
export function lineOf(slot: usize): usize {
  return (slot & ~(LINE_SET_BYTES - 1)) + LINE_BYTES + (slot & (LINE_BYTES - 1)) * (LINE_BYTES / SLOT_STEP);
}

/** Copies all of a line but its lock word: written out, as it stands under a lock. */
@inline
export function copyState(from: usize, to: usize): void {
  store<u32>(to, load<u32>(from, 4), 4);
  store<u64>(to, load<u64>(from, 8), 8);
  store<u64>(to, load<u64>(from, 16), 16);
  store<u64>(to, load<u64>(from, 24), 24);
  store<u64>(to, load<u64>(from, 32), 32);
  store<u64>(to, load<u64>(from, 40), 40);
  store<u64>(to, load<u64>(from, 48), 48);
  store<u64>(to, load<u64>(from, 56), 56);
}

/** Copies a line into the scratch; false if another thread writes it just now. */
export function copyLine(line: usize): bool {
  const word = atomic.load<i32>(line);
  if (word & LINE_OWNER_BITS) return false;
  store<i32>(scratchAt, word, SCRATCH_LINE);
  copyState(line, scratchAt + SCRATCH_LINE);
  return atomic.load<i32>(line) == word;
}

/** Makes the scratch's line that of a key never seen, except for its lock word. */
export function clearLine(): void {
  memory.fill(scratchAt + SCRATCH_LINE + 4, 0, LINE_BYTES - 4);
}

/** Puts the scratch's line back, if the line is as it was copied. */
export function swapLine(line: usize): bool {
  const word = load<i32>(scratchAt, SCRATCH_LINE);
  // So that the thread that buries this one knows where to look.
  scratch().lineLocked = u32(line);
  if (atomic.cmpxchg<i32>(line, word, word | owner) != word) return false;
  // Held from here: straight line only.
  copyState(scratchAt + SCRATCH_LINE, line);
  atomic.store<i32>(line, word + LINE_VERSION_STEP);
  // Released.
  return true;
}

/** The line of a slot that `target` found, or of the policy's global bucket. */
@inline
export function lineAt(policy: Policy, slot: usize, mode: i32): usize {
  return mode & GLOBAL ? changetype<usize>(policy) + POLICY_GLOBAL : lineOf(slot);
}

/** Brings the line of a slot into the scratch, a fresh one for slot 0; false if it is to be looked up again. */
export function fetchLine(policy: Policy, slot: usize, mode: i32, tries: i32): bool {
  if (!slot) {
    clearLine();
    return true;
  }
  if (copyLine(lineAt(policy, slot, mode))) return (mode & GLOBAL) != 0 || atomic.load<u64>(slot) == scratch().key;
  yieldTo(policy, tries);
  return false;
}

/** Puts back a word, or for a line kind the line in the scratch, if no other thread was faster; else counts that. */
export function swapState(policy: Policy, slot: usize, mode: i32, seen: u64, next: u64): bool {
  const isSwapped = isLineKind(policy.flags)
    ? swapLine(lineAt(policy, slot, mode))
    : atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen;
  if (!isSwapped) count(policy, offsetof<Counters>("contended"));
  return isSwapped;
}
