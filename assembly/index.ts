// What the kernel offers. Numbers in, numbers out: no string, no clock, no
// allocation, nothing imported but the memory.
//
// Policies are named by the address of their record, times are milliseconds
// since the table's epoch (for the calls named allow, a negative one means the
// table's clock cell), and a virtual time crosses as two 32-bit halves.

import {
  allowGlobalByCell as byGlobal,
  allowGlobalQuickly,
  allowKey,
  allowSlotAt,
  allowSlotByCell as bySlot,
} from "./bucket";
import { moment, policyOf } from "./clock";
import { CONSUME, decide, decideAt, GLOBAL, LOOK_UP } from "./decide";
import {
  batchEntry,
  firstSet,
  hashAt,
  hashNumber,
  keepInBatch,
  keyOfBytes,
  keyOfNumber,
  keyOfWords,
  keyWord,
  TEXT,
  touchBatch,
} from "./key";
import { BATCH_MAX, LANE_ANSWERS, LANE_KEY } from "./layout";
import { takeKey, takeLeased } from "./lease";
import { restore } from "./restore";
import { otherSet } from "./table";
import { lane } from "./thread";

export {
  audit,
  AUDIT_BUSY,
  AUDIT_DOUBLES,
  AUDIT_FRESH,
  AUDIT_LOCKS,
  AUDIT_STRANGERS,
  AUDIT_TORN,
  AUDIT_USED,
} from "./audit";
export { ANSWER, AS_OF, CONSUME, DEBT, decide, EVEN_NEVER, GLOBAL, LOOK_UP } from "./decide";
export { keyEnd, keyOfBytes, keyOfNumber, keyOfWords, keyPart, LANE_PART } from "./key";
export { BIGINT, BYTES, NUMBER, TEXT, WIDE_BIGINT, WIDE_TEXT } from "./key";
export * from "./layout";
export { deposit, LEASE_ASK, LEASE_PAUSE, LEASE_SHORT, leased, takeBack } from "./lease";
export { append, POLICY_LOCKED, POLICY_MOVED, publish, readingOf, retag } from "./policy";
export { setTokens, translateAct, untilAct } from "./restore";
export { recover } from "./table";
export { enter, lineSetsOffset, setsOffset } from "./thread";

/** Decides for the Latin-1 text of `length` bytes in the lane. */
export function allowText(policy: usize, length: u32, cost: u32, ms: f64): i32 {
  hashAt(policy, TEXT, 0, length);
  const key = keyWord(policy);
  const a = firstSet(policy);
  return allowKey(policy, key, a, otherSet(a, key), cost, moment(ms));
}

export function allowNumber(policy: usize, number: f64, cost: u32, ms: f64): i32 {
  hashNumber(policy, number);
  const key = keyWord(policy);
  const a = firstSet(policy);
  return allowKey(policy, key, a, otherSet(a, key), cost, moment(ms));
}

/** Decides for a key that was hashed before. */
export function allowWords(policy: usize, low: u32, high: u32, a: u32, cost: u32, ms: f64): i32 {
  const key = (u64(high) << 32) | u64(low);
  return allowKey(policy, key, a, otherSet(a, key), cost, moment(ms));
}

/** The same at the slot, and under the piece, of the last time; LOOK_UP if either is another by now. */
export function allowSlot(piece: usize, slot: usize, low: u32, high: u32, cost: u32, ms: f64): i32 {
  return allowSlotAt(piece, slot, (u64(high) << 32) | u64(low), cost, moment(ms));
}

/** The same by the clock cell, from what this thread keeps of the policy at `stats`. */
export function allowSlotByCell(stats: usize, slot: usize, low: u32, high: u32, cost: u32): i32 {
  return bySlot(stats, slot, (u64(high) << 32) | u64(low), cost);
}

/** Decides for the global bucket by the clock cell; LOOK_UP if that takes more than a few steps. */
export function allowGlobalByCell(stats: usize, cost: u32): i32 {
  return byGlobal(stats, cost);
}

/** Decides for the global bucket, under the piece of the last time. */
export function allowGlobal(piece: usize, cost: u32, ms: f64): i32 {
  const now = moment(ms);
  const answer = allowGlobalQuickly(piece, cost, now);
  return answer == LOOK_UP ? decideAt(policyOf(piece), CONSUME | GLOBAL, cost, now, 0) : answer;
}

// The general decision, in one call from a text, a number or the words of a key.

export function decideText(policy: usize, length: u32, mode: i32, cost: u32, ms: f64, maxWaitMs: f64): i32 {
  keyOfBytes(policy, TEXT, length);
  return decide(policy, mode, cost, ms, maxWaitMs);
}

export function decideNumber(policy: usize, number: f64, mode: i32, cost: u32, ms: f64, maxWaitMs: f64): i32 {
  keyOfNumber(policy, number);
  return decide(policy, mode, cost, ms, maxWaitMs);
}

/** With GLOBAL in `mode`, the words do not matter. */
export function decideWords(
  policy: usize,
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

/** A refund if the virtual time is 0, else a cancel of the reservation that acts at it: see `restore`. */
export function giveBack(
  policy: usize,
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
  return restore(policy, mode, cost, (u64(dueAtHigh) << 32) | u64(dueAtLow), ms);
}

// Tokens that were leased: 1 if they were there, and LEASE_ASK if the caller is to
// ask for more. Refusals are counted if `countsRefusal`.

export function takeText(policy: usize, length: u32, cost: u32, countsRefusal: i32, ms: f64): i32 {
  hashAt(policy, TEXT, 0, length);
  const key = keyWord(policy);
  const a = firstSet(policy);
  return takeLeased(policy, key, a, otherSet(a, key), cost, countsRefusal, moment(ms));
}

export function takeNumber(policy: usize, number: f64, cost: u32, countsRefusal: i32, ms: f64): i32 {
  hashNumber(policy, number);
  const key = keyWord(policy);
  const a = firstSet(policy);
  return takeLeased(policy, key, a, otherSet(a, key), cost, countsRefusal, moment(ms));
}

/** For the lane's key, or the global word. */
export function take(policy: usize, mode: i32, cost: u32, countsRefusal: i32, ms: f64): i32 {
  return takeKey(policy, mode, cost, countsRefusal, moment(ms));
}

// A batch: its entries are hashed first, then their sets are loaded all at once,
// then they are decided in order.

export function batchText(policy: usize, i: i32, offset: u32, length: u32): void {
  hashAt(policy, TEXT, offset, length);
  keepInBatch(policy, i);
}

export function batchNumber(policy: usize, i: i32, number: f64): void {
  hashNumber(policy, number);
  keepInBatch(policy, i);
}

/** Copies the lane's key into entry `i`. */
export function batchKey(i: i32): void {
  memory.copy(batchEntry(i), lane + LANE_KEY, 16);
}

/** Decides the first `entries` of the batch; leaves 0 or 1 for each in the lane. */
export function allowBatch(policy: usize, entries: i32, cost: u32, ms: f64): void {
  assert(u32(entries) <= u32(BATCH_MAX));
  const now = moment(ms);
  touchBatch(entries);
  for (let i = 0; i < entries; i++) {
    const entry = batchEntry(i);
    const is = allowKey(policy, load<u64>(entry), load<u32>(entry, 8), load<u32>(entry, 12), cost, now);
    store<u8>(lane + LANE_ANSWERS + i, u8(is));
  }
}

/** Gives back `cost` tokens, at most up to the burst: 1 if some were. */
export function refund(policy: usize, mode: i32, cost: f64, ms: f64): i32 {
  return restore(policy, mode, cost, 0, ms);
}

/** Gives back what nobody reserved behind the reservation that acts at the given virtual time. */
export function cancel(policy: usize, mode: i32, cost: f64, actLow: u32, actHigh: u32, ms: f64): i32 {
  return restore(policy, mode, cost, (u64(actHigh) << 32) | u64(actLow), ms);
}
