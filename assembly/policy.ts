// Policies: appended once, their segments replaced one by one.
//
// Both writers fill their scratch first and copy it under a lock in one
// instruction, so that a writer that dies before leaves nothing half done. A
// writer that dies under the lock leaves the old segment, or the old count, in
// force; `recover` then opens the lock.
//
// A change of scale takes three steps, so that a scale has two sides only:
//
//   publish     the new segment is in force: words of the old side are rescaled
//               as they are met
//   pass        through every stripe lock: a claim that began before has ended,
//               one that begins later sees the new version
//   walk        over every word of the policy: none of the old side is left, and a
//               word of 0 is written too, so that a decider that was stopped with
//               the old segment cannot swap it
//
// and only then may the scale change again. A writer that dies on the way leaves
// `walked` behind the scale: the next change walks first.

import { BucketSegment, Declaration, isCurrent, limitOf, MAX_LIMITS, numberOf, Policy } from "./layout/policy";
import { POLICY_DECLARATION, POLICY_GLOBAL, POLICY_LIMITS, POLICY_NAME, POLICY_NAME_MAX } from "./layout/policy";
import { POLICY_SEGMENT, policyAt, SEGMENT_BYTES, segmentOf, versionOf } from "./layout/policy";
import { BUSY, LINE_SET_BYTES, LINE_SLOT_COUNT, SET_BYTES, SIDE_BITS, SLOT_STATE, SLOT_STEP } from "./layout/slots";
import { SLOTS_END } from "./layout/slots";
import { HEADER_POLICY_COUNT, HEADER_POLICY_LOCK, LOCK_BYTES, LOCK_COUNT, LOCKS, POLICY_BITS } from "./layout/table";
import { POLICY_COUNT } from "./layout/table";
import { SCRATCH_LIMITS, SCRATCH_NAME, SCRATCH_SEGMENT } from "./layout/thread";
import { rescaleLimits } from "./lines/limits";
import { copyLine, lineOf, swapLine } from "./table/lines";
import { lineSetCount, lineSets, owner, PATIENCE, scratch, scratchAt, setCount, sets, yieldTo } from "./thread";
import { nanoseconds, reading, rescale } from "./words/clock";

/** Answers of `append` and `publish` other than success. */
export const POLICY_MOVED: i32 = 0;
export const POLICY_LOCKED: i32 = -1;

/**
 * Appends the policy whose name, segment, limits and first global word (as dueAt)
 * are staged in the scratch, if there are `expected` policies so far. Its number,
 * POLICY_MOVED if others were appended meanwhile, or POLICY_LOCKED if another
 * thread is appending.
 */
export function append(expected: i32, kind: i32, nameBytes: i32, rate: f64, burst: f64, extra: f64, flags: i32): i32 {
  assert(u32(nameBytes) <= u32(POLICY_NAME_MAX));
  const number = expected + 1;
  assert(u32(number) < u32(POLICY_COUNT));
  const policy = policyAt(u64(number));
  const at = changetype<usize>(policy);
  const declaration = changetype<Declaration>(at + POLICY_DECLARATION);
  let answer = POLICY_MOVED;
  if (atomic.cmpxchg<i32>(0, 0, owner, HEADER_POLICY_LOCK) != 0) return POLICY_LOCKED;
  // Held from here: straight line only.
  if (atomic.load<i32>(0, HEADER_POLICY_COUNT) == expected) {
    policy.kind = kind;
    policy.flags = flags;
    policy.nameBytes = u32(nameBytes);
    policy.limitCount = load<u32>(scratchAt + usize(MAX_LIMITS) * 4, SCRATCH_LIMITS);
    declaration.rate = rate;
    declaration.burst = burst;
    declaration.extra = extra;
    memory.copy(at + POLICY_LIMITS, scratchAt + SCRATCH_LIMITS, usize(MAX_LIMITS) * 4);
    memory.copy(at + POLICY_NAME, scratchAt + SCRATCH_NAME, POLICY_NAME_MAX);
    memory.copy(at + POLICY_SEGMENT, scratchAt + SCRATCH_SEGMENT, SEGMENT_BYTES);
    store<u64>(at, scratch().dueAt, POLICY_GLOBAL);
    atomic.store<i32>(0, number, HEADER_POLICY_COUNT);
    answer = number;
  }
  atomic.store<i32>(0, 0, HEADER_POLICY_LOCK);
  // Released.
  if (answer > 0) { for (let i = 0; i < i32(policy.limitCount); i++) limitOf(policy, i).parent = u32(number); }
  return answer;
}

/** Puts the staged segment in force, if `version` still is: 1, POLICY_MOVED or POLICY_LOCKED. */
export function publish(policy: Policy, version: u32): i32 {
  const at = changetype<usize>(policy);
  const spare = changetype<usize>(segmentOf(policy, version + 1));
  let answer = POLICY_MOVED;
  if (atomic.cmpxchg<i32>(at, 0, owner, offsetof<Policy>("lock")) != 0) return POLICY_LOCKED;
  // Held from here: straight line only.
  if (versionOf(policy) == version) {
    memory.copy(spare, scratchAt + SCRATCH_SEGMENT, SEGMENT_BYTES);
    atomic.store<u32>(at, version + 1);
    answer = 1;
  }
  atomic.store<i32>(at, 0, offsetof<Policy>("lock"));
  // Released.
  return answer;
}

/** v(now) of a bucket's clock, as BigInt: for changing a policy, not for deciding. */
export function readingOf(policy: Policy, ms: f64): u64 {
  return reading(changetype<BucketSegment>(segmentOf(policy, versionOf(policy))), nanoseconds(ms));
}

/**
 * The second and third step of a change of scale, of the global bucket alone unless
 * the policy `hasKeys`: 1 when no word of the older scale is left, 0 if a lock or a line in the way
 * stayed locked, as that of a
 * thread that died and is not buried yet.
 */
export function walk(policy: Policy, hasKeys: i32): i32 {
  const segment = changetype<BucketSegment>(segmentOf(policy, versionOf(policy)));
  const scale = segment.scale;
  const at = changetype<usize>(policy);
  const parent = u64(policy.parent);
  // Decisions of its parent under way are thrown away; by 2, as the parity is the segment in
  // force. Of two threads that do so at once, both have published before either reads.
  if (parent) atomic.store<u32>(changetype<usize>(policyAt(parent)), versionOf(policyAt(parent)) + 2);
  if (hasKeys && !passStripes(policy)) return 0;
  const isGlobalDone = parent != 0 || walkWord(policy, 0, at + POLICY_GLOBAL);
  const isDone = isGlobalDone && (parent ? walkLines(policyAt(parent)) : !hasKeys || walkWords(policy));
  // Should another thread be a scale ahead, the next change walks once more.
  if (isDone) atomic.store<u32>(at, scale, offsetof<Policy>("walked"));
  return i32(isDone);
}

/** Sees every stripe lock open once. */
function passStripes(policy: Policy): bool {
  for (let i = 0; i < LOCK_COUNT; i++) {
    for (let tries = 0; atomic.load<i32>(LOCKS + usize(i) * LOCK_BYTES); tries++) {
      if (tries > PATIENCE) return false;
      yieldTo(policy, tries);
    }
  }
  return true;
}

function walkWords(policy: Policy): bool {
  const number = numberOf(policy);
  let isDone = true;
  const end = sets + usize(setCount) * SET_BYTES;
  for (let set = sets; set < end; set += SET_BYTES) {
    for (let slot = set; slot < set + SLOTS_END; slot += SLOT_STEP) {
      if ((atomic.load<u64>(slot) & POLICY_BITS) == number) {
        isDone = walkWord(policy, slot, slot + SLOT_STATE) && isDone;
      }
    }
  }
  return isDone;
}

/** Writes a word in the scale in force, while `slot` (0: the global bucket) is the policy's. */
function walkWord(policy: Policy, slot: usize, at: usize): bool {
  for (let tries = 0; tries <= PATIENCE; tries++) {
    const version = versionOf(policy);
    const segment = changetype<BucketSegment>(segmentOf(policy, version));
    const word = atomic.load<u64>(at);
    if (word && (word & SIDE_BITS) == u64(segment.scale & 1)) return true;
    // A claim that began after the pass writes in this scale.
    if ((word & SIDE_BITS) == BUSY) return true;
    if (slot && (atomic.load<u64>(slot) & POLICY_BITS) != numberOf(policy)) return true;
    const next = rescale(segment, word);
    if (isCurrent(policy, version) && atomic.cmpxchg<u64>(at, word, next) == word) return true;
  }
  return false;
}

/** The same for the lines of a policy with several limits. */
function walkLines(policy: Policy): bool {
  const number = numberOf(policy);
  let isDone = walkLine(policy, changetype<usize>(policy) + POLICY_GLOBAL);
  const end = lineSets + usize(lineSetCount) * LINE_SET_BYTES;
  for (let set = lineSets; set < end; set += LINE_SET_BYTES) {
    for (let slot = set; slot < set + usize(LINE_SLOT_COUNT) * SLOT_STEP; slot += SLOT_STEP) {
      if ((atomic.load<u64>(slot) & POLICY_BITS) == number) isDone = walkLine(policy, lineOf(slot)) && isDone;
    }
  }
  return isDone;
}

/** Writes a line anew, so that a decision on an older copy of it is thrown away. */
function walkLine(policy: Policy, line: usize): bool {
  for (let tries = 0; tries <= PATIENCE; tries++) {
    if (copyLine(line)) {
      rescaleLimits(policy);
      if (swapLine(line)) return true;
    }
    yieldTo(policy, tries);
  }
  return false;
}
