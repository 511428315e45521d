// What the kernel offers. Numbers in, numbers out: no string, no clock, no
// allocation, nothing imported but the memory.
//
// Policies are named by the address of their record, times are milliseconds
// since the table's epoch (for the calls named allow, a negative one means the
// table's clock cell), and a due time crosses as two 32-bit halves.

import { decide } from "./decide/decide";
import { allowByCell, allowGlobalAt, allowGlobalByCell as byCell, allowKey, allowSlotAt } from "./decide/hot";
import { takeKey, takeLeased } from "./decide/lease";
import { refund } from "./decide/refund";
import { Policy, policyOf, Segment } from "./layout/policy";
import { BATCH_ENTRY_BYTES, Counters, MAX_BATCH, Scratch, SCRATCH_ANSWERS } from "./layout/thread";
import { GLOBAL } from "./question";
import { batchEntry, firstSet, hashAt, hashNumber, hashToBatch, keyOfBytes, keyOfNumber } from "./table/key";
import { keyOfWords, keyWord, TEXT, touchBatch } from "./table/key";
import { otherSet } from "./table/slots";
import { scratch, scratchAt } from "./thread";
import { moment } from "./words/clock";

export { decide } from "./decide/decide";
export { deposit, LEASE_ASK, LEASE_PAUSE, LEASE_SHORT, leased, takeBack } from "./decide/lease";
export { rescaleDueAt, setTokens, untilDueAt } from "./decide/refund";
export * from "./offsets";
export { append, POLICY_LOCKED, POLICY_MOVED, publish, readingOf, walk } from "./policy";
export { ANSWER, AS_OF, CONSUME, DEBT, EVEN_NEVER, GLOBAL, LOOK_UP } from "./question";
export { audit, AUDIT_BUSY, AUDIT_DOUBLES, AUDIT_FRESH, AUDIT_LOCKS, AUDIT_STRANGERS, AUDIT_TORN } from "./table/audit";
export { AUDIT_USED } from "./table/audit";
export { BIGINT, BYTES, KEY_CHUNK_BYTES, keyChunk, keyEnd, keyOfBytes, keyOfNumber, keyOfWords } from "./table/key";
export { NUMBER, TEXT, WIDE_BIGINT, WIDE_TEXT } from "./table/key";
export { recover } from "./table/recover";
export { enter, lineSetsOffset, setsOffset } from "./thread";
export { FORGETS, MAX_AHEAD, MAX_BURST_UNITS, QUICK_PRE_SHIFT, V_START } from "./words/clock";
export { LEASE_MAX_TOKENS } from "./words/lease";

/** A word from its halves. */
@inline
function wordOf(low: u32, high: u32): u64 {
  return (u64(high) << 32) | u64(low);
}

/** Decides for the Latin-1 text of `length` bytes in the scratch. */
export function allowText(policy: Policy, length: u32, cost: u32, ms: f64): i32 {
  hashAt(policy, TEXT, 0, length);
  const key = keyWord(policy);
  const a = firstSet(policy);
  return allowKey(policy, key, a, otherSet(a, key), cost, moment(ms));
}

export function allowNumber(policy: Policy, number: f64, cost: u32, ms: f64): i32 {
  hashNumber(policy, number);
  const key = keyWord(policy);
  const a = firstSet(policy);
  return allowKey(policy, key, a, otherSet(a, key), cost, moment(ms));
}

/** Decides for a key that was hashed before. */
export function allowWords(policy: Policy, low: u32, high: u32, a: u32, cost: u32, ms: f64): i32 {
  const key = wordOf(low, high);
  return allowKey(policy, key, a, otherSet(a, key), cost, moment(ms));
}

/** The same at the slot, and under the segment, of the last time; LOOK_UP if either is another by now. */
export function allowSlot(segment: Segment, slot: usize, low: u32, high: u32, cost: u32, ms: f64): i32 {
  return allowSlotAt(segment, slot, wordOf(low, high), false, cost, moment(ms));
}

/** The same by the clock cell, from what this thread keeps of the policy. */
export function allowSlotByCell(counters: Counters, slot: usize, low: u32, high: u32, cost: u32): i32 {
  return allowByCell(counters, slot, wordOf(low, high), false, cost);
}

/** Decides for the global bucket by the clock cell; LOOK_UP if that takes more than a few steps. */
export function allowGlobalByCell(counters: Counters, cost: u32): i32 {
  return byCell(counters, cost);
}

/** Decides for the global bucket, under the segment of the last time. */
export function allowGlobal(segment: Segment, cost: u32, ms: f64): i32 {
  return allowGlobalAt(segment, cost, moment(ms));
}

// The general decision, in one call from a text, a number or the words of a key.

export function decideText(policy: Policy, length: u32, mode: i32, cost: u32, ms: f64, maxWaitMs: f64): i32 {
  keyOfBytes(policy, TEXT, length);
  return decide(policy, mode, cost, ms, maxWaitMs);
}

export function decideNumber(policy: Policy, number: f64, mode: i32, cost: u32, ms: f64, maxWaitMs: f64): i32 {
  keyOfNumber(policy, number);
  return decide(policy, mode, cost, ms, maxWaitMs);
}

/** With GLOBAL in `mode`, the words do not matter. */
export function decideWords(
  policy: Policy,
  low: u32,
  high: u32,
  a: u32,
  mode: i32,
  cost: u32,
  ms: f64,
  maxWaitMs: f64,
): i32 {
  if (!(mode & GLOBAL)) keyOfWords(low, high, a);
  return decide(policy, mode, cost, ms, maxWaitMs);
}

/** A refund if the virtual time is 0, else a cancel of the reservation that acts at it: see `refund`. */
export function giveBack(
  policy: Policy,
  low: u32,
  high: u32,
  a: u32,
  mode: i32,
  cost: f64,
  dueAtLow: u32,
  dueAtHigh: u32,
  ms: f64,
): i32 {
  if (!(mode & GLOBAL)) keyOfWords(low, high, a);
  return refund(policy, mode, cost, wordOf(dueAtLow, dueAtHigh), ms);
}

// Tokens that were leased: 1 if they were there, and LEASE_ASK if the caller is to
// ask for more. Refusals are counted if `countsRefusal`.

export function takeText(policy: Policy, length: u32, cost: u32, countsRefusal: i32, ms: f64): i32 {
  hashAt(policy, TEXT, 0, length);
  const key = keyWord(policy);
  const a = firstSet(policy);
  return takeLeased(policy, key, a, otherSet(a, key), cost, countsRefusal, moment(ms));
}

export function takeNumber(policy: Policy, number: f64, cost: u32, countsRefusal: i32, ms: f64): i32 {
  hashNumber(policy, number);
  const key = keyWord(policy);
  const a = firstSet(policy);
  return takeLeased(policy, key, a, otherSet(a, key), cost, countsRefusal, moment(ms));
}

/** For the scratch's key, or the global word. */
export function take(policy: Policy, mode: i32, cost: u32, countsRefusal: i32, ms: f64): i32 {
  return takeKey(policy, mode, cost, countsRefusal, moment(ms));
}

// A batch: its entries are hashed first, then their sets are loaded all at once,
// then they are decided in order.

export function batchText(policy: Policy, i: i32, offset: u32, length: u32): void {
  hashAt(policy, TEXT, offset, length);
  hashToBatch(policy, i);
}

export function batchNumber(policy: Policy, i: i32, number: f64): void {
  hashNumber(policy, number);
  hashToBatch(policy, i);
}

/** Copies the scratch's key into entry `i`. */
export function batchKey(i: i32): void {
  memory.copy(batchEntry(i), changetype<usize>(scratch()) + offsetof<Scratch>("key"), BATCH_ENTRY_BYTES);
}

/** Decides the first `entries` of the batch; leaves 0 or 1 for each in the scratch. */
export function allowBatch(policy: Policy, entries: i32, cost: u32, ms: f64): void {
  assert(u32(entries) <= u32(MAX_BATCH));
  const now = moment(ms);
  touchBatch(entries);
  for (let i = 0; i < entries; i++) {
    const entry = batchEntry(i);
    const is = allowKey(policy, load<u64>(entry), load<u32>(entry, 8), load<u32>(entry, 12), cost, now);
    store<u8>(scratchAt + SCRATCH_ANSWERS + i, u8(is));
  }
}
