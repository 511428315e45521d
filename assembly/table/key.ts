// Keys: bytes to a key word and two sets, left in the scratch.
//
// The table's hash key is varied by the policy's number and by the kind of
// key, so that one user under two policies meets two pairs of sets, and `1`,
// `'1'` and their bytes are different keys.

import { isLineKind, numberOf, Policy } from "../layout/policy";
import { LINE_SET_BYTES, SET_BYTES, SLOT_STATE } from "../layout/slots";
import { POLICY_BITS } from "../layout/table";
import { BATCH_ENTRY_BYTES, MAX_BATCH, MAX_SCRATCH_BYTES, SCRATCH_BATCH, SCRATCH_BYTES } from "../layout/thread";
import { SCRATCH_HASH, SCRATCH_TAKEN } from "../layout/thread";
import { hashKey0, hashKey1, lineSetCount, lineSets, scratch, scratchAt, setCount, sets } from "../thread";
import { SIP_END, SIP_START, sipHash, sipHigh, sipLow } from "./siphash";
import { otherSet } from "./slots";

// Kinds of key.
export const TEXT: i32 = 0;
export const WIDE_TEXT: i32 = 1;
export const NUMBER: i32 = 2;
export const BIGINT: i32 = 3;
export const WIDE_BIGINT: i32 = 4;
export const BYTES: i32 = 5;

/** The key word, from the last hash. */
@inline
export function keyWord(policy: Policy): u64 {
  return (sipLow & ~POLICY_BITS) | numberOf(policy);
}

/** The first set, from the last hash. */
@inline
export function firstSet(policy: Policy): usize {
  if (isLineKind(policy.flags)) return lineSets + usize((u64(u32(sipHigh)) * u64(lineSetCount)) >> 32) * LINE_SET_BYTES;
  return sets + usize((u64(u32(sipHigh)) * u64(setCount)) >> 32) * SET_BYTES;
}

/** The table's hash key, varied by the policy and the kind of key. */
@inline
function hashKey(policy: Policy, kind: i32): u64 {
  return hashKey0 ^ ((numberOf(policy) << 3) | u64(kind));
}

/** Hashes `length` bytes of the scratch, from byte `offset` of its key bytes. */
@inline
export function hashAt(policy: Policy, kind: i32, offset: u32, length: u32): void {
  sipHash(scratchAt + SCRATCH_BYTES + offset, length, length, hashKey(policy, kind), hashKey1, 0, SIP_START | SIP_END);
}

@inline
export function hashNumber(policy: Policy, key: f64): void {
  // One key for 0 and -0.
  store<f64>(scratchAt, key + 0, SCRATCH_BYTES);
  hashAt(policy, NUMBER, 0, 8);
}

/** Makes a key word and its sets the scratch's. */
function put(key: u64, a: usize): void {
  const own = scratch();
  own.key = key;
  own.setA = u32(a);
  own.setB = u32(otherSet(a, key));
}

/** The same of the last hash. */
@inline
function define(policy: Policy): void {
  put(keyWord(policy), firstSet(policy));
}

/** Makes `length` bytes of the scratch its key. */
export function keyOfBytes(policy: Policy, kind: i32, length: u32): void {
  assert(length <= u32(MAX_SCRATCH_BYTES));
  hashAt(policy, kind, 0, length);
  define(policy);
}

export function keyOfNumber(policy: Policy, key: f64): void {
  hashNumber(policy, key);
  define(policy);
}

// A key that is longer than the scratch comes in chunks, all but the last of them
// KEY_CHUNK_BYTES long.
export const KEY_CHUNK_BYTES: i32 = 4096;

export function keyChunk(policy: Policy, kind: i32, isFirst: i32): void {
  sipHash(
    scratchAt + SCRATCH_BYTES,
    KEY_CHUNK_BYTES,
    0,
    hashKey(policy, kind),
    hashKey1,
    scratchAt + SCRATCH_HASH,
    isFirst ? SIP_START : 0,
  );
}

/** The last `length` (less than KEY_CHUNK_BYTES) of `total` bytes. */
export function keyEnd(policy: Policy, length: u32, total: u32): void {
  assert(length < u32(KEY_CHUNK_BYTES));
  sipHash(scratchAt + SCRATCH_BYTES, length, total, 0, 0, scratchAt + SCRATCH_HASH, SIP_END);
  define(policy);
}

/** Makes the key whose word and first set are given the scratch's key. */
export function keyOfWords(low: u32, high: u32, a: u32): void {
  const key = (u64(high) << 32) | u64(low);
  put(key, a);
}

/** Entry `i` of the scratch's batch. */
@inline
export function batchEntry(i: i32): usize {
  assert(u32(i) < u32(MAX_BATCH));
  return scratchAt + SCRATCH_BATCH + usize(i) * BATCH_ENTRY_BYTES;
}

/** Puts the last hash into entry `i`. */
@inline
export function hashToBatch(policy: Policy, i: i32): void {
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
  const end = scratchAt + SCRATCH_BATCH + usize(entries) * BATCH_ENTRY_BYTES;
  for (let entry = scratchAt + SCRATCH_BATCH; entry < end; entry += BATCH_ENTRY_BYTES) {
    const a = usize(load<u32>(entry, 8));
    const b = usize(load<u32>(entry, 12));
    all ^= load<u32>(a) ^ load<u32>(a, SLOT_STATE) ^ load<u32>(b) ^ load<u32>(b, SLOT_STATE);
  }
  // Keeps the loads alive through the optimisers.
  store<u32>(scratchAt, all, SCRATCH_TAKEN);
}
