// Walks the table and counts what must not be there. Meant for a table at rest:
// under way, a claim may show as BUSY and a word may be newer than its clock.

import { algorithmIn, BUCKET, BucketSegment, isLineKind, Policy, policyAt, segmentOf } from "../layout/policy";
import { versionOf } from "../layout/policy";
import { BUSY, LINE_OWNER_BITS, LINE_SET_BYTES, LINE_SLOT_COUNT, SET_BYTES, SIDE_BITS } from "../layout/slots";
import { SLOT_STATE, SLOT_STEP, SLOTS_END } from "../layout/slots";
import { HEADER_POLICY_COUNT, HEADER_POLICY_LOCK, LOCK_BYTES, LOCK_COUNT, LOCKS, POLICY_BITS } from "../layout/table";
import { SCRATCH_BATCH } from "../layout/thread";
import { countersOf, lineSetCount, lineSets, scratchAt, setCount, sets } from "../thread";
import { MAX_AHEAD, nanoseconds, reading, wordIn } from "../words/clock";
import { deficitOf } from "./deficit";
import { copyLine, lineOf } from "./lines";
import { otherLineSet, otherSet } from "./slots";

// The counts, left in the scratch's batch as u32.
export const AUDIT_USED: usize = 0;
export const AUDIT_FRESH: usize = 4;
export const AUDIT_BUSY: usize = 8;
export const AUDIT_TORN: usize = 12;
export const AUDIT_DOUBLES: usize = 16;
export const AUDIT_STRANGERS: usize = 20;
export const AUDIT_LOCKS: usize = 24;

function add(counter: usize): void {
  const at = scratchAt + SCRATCH_BATCH + counter;
  store<u32>(at, load<u32>(at) + 1);
}

/** Counts a key that is in its place: fresh, or in use. */
function addKey(policy: Policy, isFresh: bool): void {
  if (isFresh) add(AUDIT_FRESH);
  else countersOf(policy).live++;
}

/** The policies that there are. */
function policyCount(): u64 {
  return u64(atomic.load<i32>(0, HEADER_POLICY_COUNT));
}

function holds(set: usize, end: usize, key: u64, but: usize): bool {
  for (let slot = set; slot < set + end; slot += SLOT_STEP) {
    if (slot != but && atomic.load<u64>(slot) == key) return true;
  }
  return false;
}

/** True if a bucket's word is farther ahead than any debt. */
function isTorn(policy: Policy, word: u64, now: i64): bool {
  const segment = changetype<BucketSegment>(segmentOf(policy, versionOf(policy)));
  if (algorithmIn(segment.flags) != BUCKET) return false;
  const v = reading(segment, now);
  const z = wordIn(segment, word);
  return z > v && z - v > MAX_AHEAD + SIDE_BITS;
}

function auditSlot(set: usize, slot: usize, now: i64): void {
  const key = atomic.load<u64>(slot);
  const word = atomic.load<u64>(slot, SLOT_STATE);
  const isBusy = (word & SIDE_BITS) == BUSY;
  if (!key) {
    if (word) add(isBusy ? AUDIT_BUSY : AUDIT_TORN);
    return;
  }
  add(AUDIT_USED);
  const number = key & POLICY_BITS;
  if (!number || number > policyCount() || isLineKind(policyAt(number).flags)) return add(AUDIT_STRANGERS);
  if (isBusy) return add(AUDIT_BUSY);
  const policy = policyAt(number);
  addKey(policy, deficitOf(policy, word, now) <= 0);
  if (isTorn(policy, word, now)) add(AUDIT_TORN);
  const other = otherSet(set, key);
  // Of two slots of one key, the lower counts.
  if (holds(set, SLOTS_END, key, slot) || (other > set && holds(other, SLOTS_END, key, slot))) add(AUDIT_DOUBLES);
}

function auditLine(set: usize, slot: usize, now: i64): void {
  const key = atomic.load<u64>(slot);
  if (load<i32>(lineOf(slot)) & LINE_OWNER_BITS) add(AUDIT_LOCKS);
  if (!key) return;
  add(AUDIT_USED);
  const number = key & POLICY_BITS;
  const policy = policyAt(number);
  if (!number || number > policyCount() || !isLineKind(policy.flags)) return add(AUDIT_STRANGERS);
  addKey(policy, copyLine(lineOf(slot)) && deficitOf(policy, 0, now) <= 0);
  const other = otherLineSet(set, key);
  const end = SLOT_STEP * usize(LINE_SLOT_COUNT);
  if (holds(set, end, key, slot) || (other > set && holds(other, end, key, slot))) add(AUDIT_DOUBLES);
}

function auditLocks(): void {
  for (let i = 0; i < LOCK_COUNT; i++) {
    if (atomic.load<i32>(LOCKS + usize(i) * LOCK_BYTES)) add(AUDIT_LOCKS);
  }
  for (let i: u64 = 0; i <= policyCount(); i++) {
    if (atomic.load<i32>(changetype<usize>(policyAt(i)) + offsetof<Policy>("lock"))) add(AUDIT_LOCKS);
  }
  if (atomic.load<i32>(0, HEADER_POLICY_LOCK)) add(AUDIT_LOCKS);
}

/**
 * Used slots, fresh ones among them, BUSY ones, torn ones (an empty slot with
 * a word, or a word beyond any debt), keys in two slots, keys of policies that
 * do not exist, and locks held; and in this thread's counters of each policy, its
 * keys in use.
 */
export function audit(ms: f64): void {
  const now = nanoseconds(ms);
  memory.fill(scratchAt + SCRATCH_BATCH, 0, 32);
  for (let number: u64 = 0; number <= policyCount(); number++) countersOf(policyAt(number)).live = 0;
  const end = sets + usize(setCount) * SET_BYTES;
  for (let set = sets; set < end; set += SET_BYTES) {
    for (let slot = set; slot < set + SLOTS_END; slot += SLOT_STEP) auditSlot(set, slot, now);
  }
  const lineEnd = lineSets + usize(lineSetCount) * LINE_SET_BYTES;
  for (let set = lineSets; set < lineEnd; set += LINE_SET_BYTES) {
    for (let slot = set; slot < set + SLOT_STEP * usize(LINE_SLOT_COUNT); slot += SLOT_STEP) auditLine(set, slot, now);
  }
  auditLocks();
}
