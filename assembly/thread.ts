// What this instance is: one thread's view of one table. Set once at attach.

import {
  HEADER_HASH_KEY,
  HEADER_LINE_SET_COUNT,
  HEADER_MAGIC,
  HEADER_SET_COUNT,
  HEADER_THREAD_COUNT,
  HEADER_VERSION,
  LANE_NAP,
  LANE_STATS,
  LAYOUT_VERSION,
  LINE_GROUP_SETS,
  LINE_SET_BYTES,
  MAGIC,
  PAGE_SETS,
  POLICIES,
  POLICY_BYTES,
  SET_BYTES,
  STATS_BYTES,
  STATS_CONTENDED,
  THREAD_BYTES,
  THREADS,
} from "./layout";

/** This thread's number + 1, as lock owner and in BUSY words. */
export let owner: i32 = 0;
/** This thread's lane. */
export let lane: usize = 0;
export let sets: usize = 0;
export let setCount: u32 = 0;
export let lineSets: usize = 0;
export let lineSetCount: u32 = 0;
export let hashKey0: u64 = 0;
export let hashKey1: u64 = 0;

/** Binds this instance to thread number `thread`. Traps if the memory is no table. */
export function enter(thread: i32): void {
  assert(load<i32>(0, HEADER_MAGIC) == MAGIC);
  assert(load<i32>(0, HEADER_VERSION) == LAYOUT_VERSION);
  const threadCount = load<i32>(0, HEADER_THREAD_COUNT);
  assert(u32(thread) < u32(threadCount));
  owner = thread + 1;
  lane = THREADS + usize(thread) * THREAD_BYTES;
  sets = setsOffset(threadCount);
  setCount = load<u32>(0, HEADER_SET_COUNT);
  lineSetCount = load<u32>(0, HEADER_LINE_SET_COUNT);
  lineSets = lineSetsOffset(threadCount, setCount);
  hashKey0 = load<u64>(0, HEADER_HASH_KEY);
  hashKey1 = load<u64>(0, HEADER_HASH_KEY + 8);
  assert(lineSetCount % u32(LINE_GROUP_SETS) == 0);
  assert(setCount > 0 && setCount % u32(PAGE_SETS) == 0);
}

/** Where the sets of a table for `threadCount` threads begin: on a page. */
export function setsOffset(threadCount: i32): usize {
  return (THREADS + usize(threadCount) * THREAD_BYTES + 4095) & ~4095;
}

/** Where its line sets begin: on a whole group. */
export function lineSetsOffset(threadCount: i32, setCount: u32): usize {
  const group = usize(LINE_GROUP_SETS) * LINE_SET_BYTES;
  return (setsOffset(threadCount) + usize(setCount) * SET_BYTES + group - 1) & ~(group - 1);
}

/** Adds one to a counter of this thread. Nobody else writes it. */
// @ts-ignore: decorator
@inline
export function count(policy: usize, counter: usize): void {
  const at = lane + LANE_STATS + ((policy - POLICIES) / POLICY_BYTES) * STATS_BYTES + counter;
  store<u64>(at, load<u64>(at) + 1);
}

/**
 * Tries before a call gives up and is refused, about a second: whoever is in the
 * way may have died, and is buried only when this thread's event loop turns.
 */
export const PATIENCE: i32 = 20000;

/**
 * Lets others go first: returns at once for the first tries, then sleeps for
 * 50 µs a try. Nobody wakes a sleeper, so no wake-up can be lost with a thread.
 */
export function yieldTo(policy: usize, tries: i32): void {
  count(policy, STATS_CONTENDED);
  if (tries > 64) atomic.wait<i32>(lane + LANE_NAP, 0, 50000);
}
