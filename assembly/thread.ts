// What this instance is: one thread's view of one table. Set once at attach.

import { Policy } from "./layout/policy";
import { LINE_GROUP_SETS, LINE_SET_BYTES, PAGE_SETS, SET_BYTES } from "./layout/slots";
import { header, LAYOUT_VERSION, MAGIC, POLICIES, POLICY_BYTES } from "./layout/table";
import { Counters, COUNTERS_BYTES, Scratch, SCRATCH_COUNTERS, THREAD_BYTES, THREADS } from "./layout/thread";

/** This thread's number + 1, as lock owner and in BUSY words. */
export let owner: i32 = 0;
/** Address of this thread's scratch. */
export let scratchAt: usize = 0;
export let sets: usize = 0;
export let setCount: u32 = 0;
export let lineSets: usize = 0;
export let lineSetCount: u32 = 0;
export let hashKey0: u64 = 0;
export let hashKey1: u64 = 0;

/** Binds this instance to thread number `thread`. Traps if the memory is not a table. */
export function enter(thread: i32): void {
  const table = header();
  assert(table.magic == MAGIC);
  assert(table.version == LAYOUT_VERSION);
  assert(u32(thread) < table.threadCount);
  owner = thread + 1;
  scratchAt = THREADS + usize(thread) * THREAD_BYTES;
  sets = setsOffset(table.threadCount);
  setCount = table.setCount;
  lineSetCount = table.lineSetCount;
  lineSets = lineSetsOffset(table.threadCount, setCount);
  hashKey0 = table.hashKey0;
  hashKey1 = table.hashKey1;
  assert(lineSetCount % u32(LINE_GROUP_SETS) == 0);
  assert(setCount > 0 && setCount % u32(PAGE_SETS) == 0);
}

/** Where the sets of a table for `threadCount` threads begin: on a page. */
export function setsOffset(threadCount: u32): usize {
  return (THREADS + usize(threadCount) * THREAD_BYTES + 4095) & ~4095;
}

/** Where its line sets begin: on a whole group. */
export function lineSetsOffset(threadCount: u32, setCount: u32): usize {
  const group = usize(LINE_GROUP_SETS) * LINE_SET_BYTES;
  return (setsOffset(threadCount) + usize(setCount) * SET_BYTES + group - 1) & ~(group - 1);
}

/** This thread's scratch. */
@inline
export function scratch(): Scratch {
  return changetype<Scratch>(scratchAt);
}

/** What this thread counts of a policy. */
@inline
export function countersOf(policy: Policy): Counters {
  const number = (changetype<usize>(policy) - POLICIES) / POLICY_BYTES;
  return changetype<Counters>(scratchAt + SCRATCH_COUNTERS + number * COUNTERS_BYTES);
}

/** Adds one to the counter at `offset` among this thread's counters of a policy. */
@inline
export function count(policy: Policy, offset: usize): void {
  const at = changetype<usize>(countersOf(policy)) + offset;
  store<u64>(at, load<u64>(at) + 1);
}

/**
 * Tries before a call gives up and is refused, about a second: the thread in the
 * way may have died, and is buried only when this thread's event loop turns.
 */
export const PATIENCE: i32 = 20000;

/**
 * Lets other threads go first: returns at once for the first tries, then sleeps for
 * 50 µs a try. No thread wakes a sleeper, so no wake-up can be lost with a thread.
 */
export function yieldTo(policy: Policy, tries: i32): void {
  count(policy, offsetof<Counters>("contended"));
  if (tries > 64) atomic.wait<i32>(scratchAt + offsetof<Scratch>("sleepWord"), 0, 50000);
}
