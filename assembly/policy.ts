// Policies: appended once, their clocks replaced piece by piece.
//
// Both writers fill their lane first and copy it under a lock in one
// instruction, so that a writer that dies before leaves nothing half done. A
// writer that dies under the lock leaves the old piece, or the old count, in
// force; `recover` then opens the lock.

import { isCurrent, nanoseconds, pieceOf, reading, translated } from "./clock";
import {
  FLAG_PARTS,
  HEADER_POLICY_COUNT,
  HEADER_POLICY_LOCK,
  LANE_ACT,
  LANE_NAME,
  LANE_PARTS,
  LANE_PIECE,
  LINE_SET_BYTES,
  LINE_SLOT_COUNT,
  PARTS_MAX,
  PIECE_BYTES,
  POLICIES,
  POLICY_BITS,
  POLICY_BURST,
  POLICY_BYTES,
  POLICY_COUNT,
  POLICY_EXTRA,
  POLICY_FLAGS,
  POLICY_GLOBAL,
  POLICY_KIND,
  POLICY_LOCK,
  POLICY_NAME,
  POLICY_NAME_BYTES,
  POLICY_NAME_MAX,
  POLICY_PART_COUNT,
  POLICY_PARTS,
  POLICY_PIECE,
  POLICY_RATE,
  POLICY_VERSION,
  SET_BYTES,
  SLOT_STATE,
  SLOT_STEP,
  SLOTS_END,
  TAG_BITS,
} from "./layout";
import { copyLine, lineOf, swapLine } from "./line";
import { retagPart } from "./parts";
import { lane, lineSetCount, lineSets, owner, setCount, sets } from "./thread";

/** Answers of `append` and `publish` other than success. */
export const POLICY_MOVED: i32 = 0;
export const POLICY_LOCKED: i32 = -1;

/**
 * Appends the policy whose name, piece and first global word (as LANE_ACT) are
 * staged in the lane, if there are `expected` policies so far. Its number, POLICY_MOVED if others were appended
 * meanwhile, or POLICY_LOCKED if somebody is appending.
 */
export function append(expected: i32, kind: i32, nameBytes: i32, rate: f64, burst: f64, extra: f64, flags: i32): i32 {
  assert(u32(nameBytes) <= u32(POLICY_NAME_MAX));
  const number = expected + 1;
  assert(u32(number) < u32(POLICY_COUNT));
  const policy = POLICIES + usize(number) * POLICY_BYTES;
  let answer = POLICY_MOVED;
  if (atomic.cmpxchg<i32>(0, 0, owner, HEADER_POLICY_LOCK) != 0) return POLICY_LOCKED;
  if (atomic.load<i32>(0, HEADER_POLICY_COUNT) == expected) {
    store<i32>(policy, kind, POLICY_KIND);
    store<i32>(policy, nameBytes, POLICY_NAME_BYTES);
    store<f64>(policy, rate, POLICY_RATE);
    store<f64>(policy, burst, POLICY_BURST);
    store<f64>(policy, extra, POLICY_EXTRA);
    store<i32>(policy, flags, POLICY_FLAGS);
    memory.copy(policy + POLICY_PARTS, lane + LANE_PARTS, usize(PARTS_MAX + 1) * 4);
    memory.copy(policy + POLICY_NAME, lane + LANE_NAME, POLICY_NAME_MAX);
    memory.copy(policy + POLICY_PIECE, lane + LANE_PIECE, PIECE_BYTES);
    store<u64>(policy, load<u64>(lane, LANE_ACT), POLICY_GLOBAL);
    atomic.store<i32>(0, number, HEADER_POLICY_COUNT);
    answer = number;
  }
  atomic.store<i32>(0, 0, HEADER_POLICY_LOCK);
  return answer;
}

/** Puts the staged piece in force, if `version` still is: 1, POLICY_MOVED or POLICY_LOCKED. */
export function publish(policy: usize, version: u32): i32 {
  const spare = pieceOf(policy, version + 1);
  let answer = POLICY_MOVED;
  if (atomic.cmpxchg<i32>(policy, 0, owner, POLICY_LOCK) != 0) return POLICY_LOCKED;
  if (atomic.load<u32>(policy, POLICY_VERSION) == version) {
    memory.copy(spare, lane + LANE_PIECE, PIECE_BYTES);
    atomic.store<u32>(policy, version + 1, POLICY_VERSION);
    answer = 1;
  }
  atomic.store<i32>(policy, 0, POLICY_LOCK);
  return answer;
}

/** v(now), as BigInt: for changing a policy, not for deciding. */
export function readingOf(policy: usize, ms: f64): u64 {
  return reading(pieceOf(policy, atomic.load<u32>(policy, POLICY_VERSION)), nanoseconds(ms));
}

/** Rewrites a word that carries `tag`, while `slot` (0: the global bucket) is the policy's. */
// @ts-ignore: decorator
@inline
function retagWord(policy: usize, slot: usize, at: usize, tag: u64): void {
  const number = u64((policy - POLICIES) / POLICY_BYTES);
  while (true) {
    const word = atomic.load<u64>(at);
    if (!word || (word & TAG_BITS) != tag) return;
    if (slot && (atomic.load<u64>(slot) & POLICY_BITS) != number) return;
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const moved = translated(pieceOf(policy, version), word);
    if (isCurrent(policy, version) && atomic.cmpxchg<u64>(at, word, moved) == word) return;
  }
}

/** Rewrites every word of a policy that carries `tag`, so that the tag can be used again. */
export function retag(policy: usize, tag: u64): void {
  retagWord(policy, 0, policy + POLICY_GLOBAL, tag);
  const number = u64((policy - POLICIES) / POLICY_BYTES);
  const end = sets + usize(setCount) * SET_BYTES;
  for (let set = sets; set < end; set += SET_BYTES) {
    for (let slot = set; slot < set + SLOTS_END; slot += SLOT_STEP) {
      if ((atomic.load<u64>(slot) & POLICY_BITS) == number) retagWord(policy, slot, slot + SLOT_STATE, tag);
    }
  }
  retagLines(policy, tag);
}

/** The same for the words of a limit that is one of several. */
function retagLines(part: usize, tag: u64): void {
  const number = i32((part - POLICIES) / POLICY_BYTES);
  const end = lineSets + usize(lineSetCount) * LINE_SET_BYTES;
  const count = atomic.load<i32>(0, HEADER_POLICY_COUNT);
  for (let i = 1; i <= count; i++) {
    const policy = POLICIES + usize(i) * POLICY_BYTES;
    if (!(load<i32>(policy, POLICY_FLAGS) & FLAG_PARTS)) continue;
    for (let j = 0; j < load<i32>(policy, POLICY_PART_COUNT); j++) {
      if (load<i32>(policy + POLICY_PARTS + usize(j) * 4) != number) continue;
      retagLine(part, policy + POLICY_GLOBAL, j, tag);
      for (let set = lineSets; set < end; set += LINE_SET_BYTES) {
        for (let slot = set; slot < set + usize(LINE_SLOT_COUNT) * SLOT_STEP; slot += SLOT_STEP) {
          if (i32(atomic.load<u64>(slot) & POLICY_BITS) == i) retagLine(part, lineOf(slot), j, tag);
        }
      }
    }
  }
}

function retagLine(part: usize, line: usize, i: i32, tag: u64): void {
  while (true) {
    if (!copyLine(line)) continue;
    const piece = pieceOf(part, atomic.load<u32>(part, POLICY_VERSION));
    if (!retagPart(piece, i, tag) || swapLine(line)) return;
  }
}
