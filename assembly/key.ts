// Keys: bytes to a key word and two sets, left in the lane.
//
// The table's hash key is varied by the policy's number and by the kind of
// key, so that one user under two policies meets two pairs of sets, and `1`,
// `'1'` and their bytes are different keys.

import {
  BATCH_MAX,
  FLAG_LINE,
  LANE_BATCH,
  LANE_BYTES,
  LANE_BYTES_MAX,
  LANE_HASH,
  LANE_KEY,
  LANE_SET_A,
  LANE_SET_B,
  LANE_TAKEN,
  LINE_SET_BYTES,
  POLICIES,
  POLICY_BITS,
  POLICY_BYTES,
  POLICY_FLAGS,
  SET_BYTES,
  SLOT_STATE,
} from "./layout";
import { SIP_END, SIP_START, sipHash, sipHigh, sipLow } from "./siphash";
import { otherSet } from "./table";
import { hashKey0, hashKey1, lane, lineSetCount, lineSets, setCount, sets } from "./thread";

// Kinds of key.
export const TEXT: i32 = 0;
export const WIDE_TEXT: i32 = 1;
export const NUMBER: i32 = 2;
export const BIGINT: i32 = 3;
export const WIDE_BIGINT: i32 = 4;
export const BYTES: i32 = 5;

/** The key word, from the last hash. */
// @ts-ignore: decorator
@inline
export function keyWord(policy: usize): u64 {
  return (sipLow & ~POLICY_BITS) | u64((policy - POLICIES) / POLICY_BYTES);
}

/** The first set, from the last hash. */
// @ts-ignore: decorator
@inline
export function firstSet(policy: usize): usize {
  if (load<i32>(policy, POLICY_FLAGS) & FLAG_LINE) {
    return lineSets + usize((u64(u32(sipHigh)) * u64(lineSetCount)) >> 32) * LINE_SET_BYTES;
  }
  return sets + usize((u64(u32(sipHigh)) * u64(setCount)) >> 32) * SET_BYTES;
}

/** The table's hash key, varied by the policy and the kind of key. */
// @ts-ignore: decorator
@inline
function hashKey(policy: usize, kind: i32): u64 {
  return hashKey0 ^ ((u64((policy - POLICIES) / POLICY_BYTES) << 3) | u64(kind));
}

/** Hashes `length` bytes of the lane, from byte `offset` of its key bytes. */
// @ts-ignore: decorator
@inline
export function hashAt(policy: usize, kind: i32, offset: u32, length: u32): void {
  sipHash(lane + LANE_BYTES + offset, length, length, hashKey(policy, kind), hashKey1, 0, SIP_START | SIP_END);
}

// @ts-ignore: decorator
@inline
export function hashNumber(policy: usize, key: f64): void {
  // One key for 0 and -0.
  store<f64>(lane, key + 0, LANE_BYTES);
  hashAt(policy, NUMBER, 0, 8);
}

function keep(policy: usize): void {
  const key = keyWord(policy);
  const a = firstSet(policy);
  store<u64>(lane, key, LANE_KEY);
  store<u32>(lane, u32(a), LANE_SET_A);
  store<u32>(lane, u32(otherSet(a, key)), LANE_SET_B);
}

/** Makes `length` bytes of the lane its key. */
export function keyOfBytes(policy: usize, kind: i32, length: u32): void {
  assert(length <= u32(LANE_BYTES_MAX));
  hashAt(policy, kind, 0, length);
  keep(policy);
}

export function keyOfNumber(policy: usize, key: f64): void {
  hashNumber(policy, key);
  keep(policy);
}

// A key that is longer than the lane comes in parts, all but the last of them
// LANE_PART bytes long.
export const LANE_PART: i32 = 4096;

export function keyPart(policy: usize, kind: i32, isFirst: i32): void {
  sipHash(lane + LANE_BYTES, LANE_PART, 0, hashKey(policy, kind), hashKey1, lane + LANE_HASH, isFirst ? SIP_START : 0);
}

/** The last `length` (less than LANE_PART) of `total` bytes. */
export function keyEnd(policy: usize, length: u32, total: u32): void {
  assert(length < u32(LANE_PART));
  sipHash(lane + LANE_BYTES, length, total, 0, 0, lane + LANE_HASH, SIP_END);
  keep(policy);
}

/** Makes the key whose word and first set are given the lane's key. */
export function keyOfWords(low: u32, high: u32, a: u32): void {
  const key = (u64(high) << 32) | u64(low);
  store<u64>(lane, key, LANE_KEY);
  store<u32>(lane, a, LANE_SET_A);
  store<u32>(lane, u32(otherSet(a, key)), LANE_SET_B);
}

/** Entry `i` of the lane's batch. */
// @ts-ignore: decorator
@inline
export function batchEntry(i: i32): usize {
  assert(u32(i) < u32(BATCH_MAX));
  return lane + LANE_BATCH + usize(i) * 16;
}

/** Puts the last hash into entry `i`. */
// @ts-ignore: decorator
@inline
export function keepInBatch(policy: usize, i: i32): void {
  const entry = batchEntry(i);
  const key = keyWord(policy);
  const a = firstSet(policy);
  store<u64>(entry, key);
  store<u32>(entry, u32(a), 8);
  store<u32>(entry, u32(otherSet(a, key)), 12);
}

/**
 * Loads the lines of all entries, and nothing else, so that as many misses as the
 * processor can hold are under way at once: between the hashing of two keys there
 * are more instructions than it looks ahead.
 */
export function touchBatch(entries: i32): void {
  let all: u32 = 0;
  const end = lane + LANE_BATCH + usize(entries) * 16;
  for (let entry = lane + LANE_BATCH; entry < end; entry += 16) {
    const a = usize(load<u32>(entry, 8));
    const b = usize(load<u32>(entry, 12));
    all ^= load<u32>(a) ^ load<u32>(a, SLOT_STATE) ^ load<u32>(b) ^ load<u32>(b, SLOT_STATE);
  }
  // Keeps the loads alive through the optimisers.
  store<u32>(lane, all, LANE_TAKEN);
}
