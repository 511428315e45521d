// Walks the table and counts what must not be there. Meant for a table at rest:
// under way, a claim may show as BUSY and a word may be newer than its clock.

import { nanoseconds, pieceOf, reading, translated } from "./clock";
import {
  AHEAD_LIMIT,
  BUSY,
  FLAG_LEASE,
  FLAG_LINE,
  FLAG_SLIDING,
  HEADER_POLICY_COUNT,
  HEADER_POLICY_LOCK,
  LANE_BATCH,
  LANE_STATS,
  LINE_OWNER_BITS,
  LINE_SET_BYTES,
  LINE_SLOT_COUNT,
  LOCK_BYTES,
  LOCK_COUNT,
  LOCKS,
  PIECE_BURST,
  PIECE_FLAGS,
  POLICIES,
  POLICY_BITS,
  POLICY_BYTES,
  POLICY_FLAGS,
  POLICY_LOCK,
  POLICY_VERSION,
  SET_BYTES,
  SLOT_STATE,
  SLOT_STEP,
  SLOTS_END,
  STATS_BYTES,
  STATS_LIVE,
  TAG_BITS,
} from "./layout";
import { leaseLack } from "./lease";
import { copyLine, lineLack, lineOf, otherLineSet } from "./line";
import { slidingLack } from "./sliding";
import { otherSet } from "./table";
import { lane, lineSetCount, lineSets, setCount, sets } from "./thread";

// The counts, left in the lane's batch as u32.
export const AUDIT_USED: usize = 0;
export const AUDIT_FRESH: usize = 4;
export const AUDIT_BUSY: usize = 8;
export const AUDIT_TORN: usize = 12;
export const AUDIT_DOUBLES: usize = 16;
export const AUDIT_STRANGERS: usize = 20;
export const AUDIT_LOCKS: usize = 24;

function add(counter: usize): void {
  const at = lane + LANE_BATCH + counter;
  store<u32>(at, load<u32>(at) + 1);
}

/** Counts a key of a policy: fresh, or in use. */
function keep(number: u64, isFresh: bool): void {
  if (isFresh) {
    add(AUDIT_FRESH);
    return;
  }
  const at = lane + LANE_STATS + usize(number) * STATS_BYTES;
  store<u32>(at, load<u32>(at, STATS_LIVE) + 1, STATS_LIVE);
}

function holds(set: usize, key: u64, but: usize): bool {
  for (let slot = set; slot < set + SLOTS_END; slot += SLOT_STEP) {
    if (slot != but && atomic.load<u64>(slot) == key) return true;
  }
  return false;
}

/**
 * Used slots, fresh ones among them, BUSY ones, torn ones (an empty slot with
 * a word, or a word beyond any debt), keys in two slots, keys of policies that
 * do not exist, and locks held; and in this thread's stats of each policy, its
 * keys in use.
 */
export function audit(ms: f64): void {
  const now = nanoseconds(ms);
  memory.fill(lane + LANE_BATCH, 0, 32);
  const policies = u64(atomic.load<i32>(0, HEADER_POLICY_COUNT));
  for (let number: u64 = 0; number <= policies; number++) {
    store<u32>(lane + LANE_STATS + usize(number) * STATS_BYTES, 0, STATS_LIVE);
  }
  const end = sets + usize(setCount) * SET_BYTES;
  for (let set = sets; set < end; set += SET_BYTES) {
    for (let slot = set; slot < set + SLOTS_END; slot += SLOT_STEP) {
      const key = atomic.load<u64>(slot);
      const word = atomic.load<u64>(slot, SLOT_STATE);
      if (!key) {
        if (word) add((word & TAG_BITS) == BUSY ? AUDIT_BUSY : AUDIT_TORN);
        continue;
      }
      add(AUDIT_USED);
      const number = key & POLICY_BITS;
      if (!number || number > policies) {
        add(AUDIT_STRANGERS);
        continue;
      }
      if ((word & TAG_BITS) == BUSY) {
        add(AUDIT_BUSY);
        continue;
      }
      const policy = POLICIES + usize(number) * POLICY_BYTES;
      const piece = pieceOf(policy, atomic.load<u32>(policy, POLICY_VERSION));
      const v = reading(piece, now);
      const z = translated(piece, word);
      if (load<i32>(piece, PIECE_FLAGS) & FLAG_SLIDING) keep(number, slidingLack(piece, word, now) <= 0);
      else if (load<i32>(piece, PIECE_FLAGS) & FLAG_LEASE) keep(number, leaseLack(word, now) <= 0);
      else {
        keep(number, z <= v - load<u64>(piece, PIECE_BURST));
        if (z > v && z - v > AHEAD_LIMIT + TAG_BITS) add(AUDIT_TORN);
      }
      const other = otherSet(set, key);
      // Of two slots of one key, the lower counts.
      if (holds(set, key, slot) || (other > set && holds(other, key, slot))) add(AUDIT_DOUBLES);
    }
  }
  const lineEnd = lineSets + usize(lineSetCount) * LINE_SET_BYTES;
  for (let set = lineSets; set < lineEnd; set += LINE_SET_BYTES) {
    for (let slot = set; slot < set + usize(LINE_SLOT_COUNT) * SLOT_STEP; slot += SLOT_STEP) {
      const key = atomic.load<u64>(slot);
      if (load<i32>(lineOf(slot)) & LINE_OWNER_BITS) add(AUDIT_LOCKS);
      if (!key) continue;
      add(AUDIT_USED);
      const number = key & POLICY_BITS;
      const policy = POLICIES + usize(number) * POLICY_BYTES;
      if (!number || number > policies || !(load<i32>(policy, POLICY_FLAGS) & FLAG_LINE)) {
        add(AUDIT_STRANGERS);
        continue;
      }
      keep(number, copyLine(lineOf(slot)) && lineLack(policy, now) <= 0);
      const other = otherLineSet(set, key);
      for (let place: usize = 0; place < usize(LINE_SLOT_COUNT); place++) {
        const same = set + place * SLOT_STEP;
        if (same != slot && atomic.load<u64>(same) == key) add(AUDIT_DOUBLES);
        if (other > set && atomic.load<u64>(other + place * SLOT_STEP) == key) add(AUDIT_DOUBLES);
      }
    }
  }
  for (let i = 0; i < LOCK_COUNT; i++) {
    if (atomic.load<i32>(LOCKS + usize(i) * LOCK_BYTES)) add(AUDIT_LOCKS);
  }
  for (let i = 0; i <= i32(policies); i++) {
    if (atomic.load<i32>(POLICIES + usize(i) * POLICY_BYTES, POLICY_LOCK)) add(AUDIT_LOCKS);
  }
  if (atomic.load<i32>(0, HEADER_POLICY_LOCK)) add(AUDIT_LOCKS);
}
