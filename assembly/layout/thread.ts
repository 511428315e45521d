// Threads: a scratch for each, which only its owner writes
// word, and behind it what the thread counts of each policy.

import { LOCK_BYTES, LOCK_COUNT, LOCKS, POLICY_COUNT } from "./table";

// --- scratch ----------------------------------------------------------------
//
//    0 +-------+-----------+--------+------------+
//      | owner | sleepWord | parent | lineLocked |
//   16 +-------+-----------+--------+------------+
//      | key           | setA  | setB  |
//   32 +---------------+-------+-------+-----------------+-------+
//      | remaining | retryNs | resetNs | delayNs | tokens | dueAt |
//   80 +-----------+---------+---------+---------+--------+-------+
//      | presentMs | limitIndex | slot  |
//   96 +-----------+------------+-------+------------------------+
//      | versions of the limits a decision has read, 7 x u32     |
//  128 +---------------------------------------------------------+
//      | hash state, 32 bytes                                    |
//  192 +---------------------------------------------------------+
//      | staged segment, 128 bytes                               |
//  320 +---------------------------------------------------------+
//      | staged name, 96 bytes                                   |
//  416 +---------------------------------------------------------+
//      | staged numbers of limits, 7 x u32, and how many         |
//  448 +---------------------------------------------------------+
//      | a line, 64 bytes                                        |
//  512 +---------------------------------------------------------+
//      | batch: 32 x (key word u64, set a u32, set b u32)        |
// 1024 +---------------------------------------------------------+
//      | batch answers, 32 bytes                                 |
// 1088 +---------------------------------------------------------+
//      | what the last grant took of each limit, 7 x f64         |
// 1152 +---------------------------------------------------------+
//      | key bytes, 7024, and a margin for whole words           |
// 8192 +---------------------------------------------------------+
//      | counters, 128 bytes a policy                            |
//      +---------------------------------------------------------+

@unmanaged
export class Scratch {
  /** Thread id + 1 of its owner; 0 free. */
  owner: i32;
  /** Always 0; the target of `atomic.wait` when backing off. */
  sleepWord: i32;
  /** Thread id + 1 of the thread that started its owner; 0 unknown. */
  parent: i32;
  /** The line that its thread may hold locked. */
  lineLocked: u32;
  /** The key that general calls are about, and its two sets. */
  key: u64;
  setA: u32;
  setB: u32;
  /** The last answer: see question.ts. */
  remaining: f64;
  retryNs: f64;
  resetNs: f64;
  delayNs: f64;
  tokens: f64;
  dueAt: u64;
  /** The present time when deciding as of a later one. */
  presentMs: f64;
  /** Of several limits, the one that decided. */
  limitIndex: i32;
  /** The slot of the last call's key; 0 if it has none. */
  slot: u32;
}

export const THREADS: usize = LOCKS + usize(LOCK_COUNT) * LOCK_BYTES;
export const SCRATCH_VERSIONS: usize = 96;
export const SCRATCH_HASH: usize = 128;
export const SCRATCH_SEGMENT: usize = 192;
export const SCRATCH_NAME: usize = 320;
export const SCRATCH_LIMITS: usize = 416;
export const SCRATCH_LINE: usize = 448;
export const SCRATCH_BATCH: usize = 512;
export const SCRATCH_ANSWERS: usize = 1024;
export const SCRATCH_TAKEN: usize = 1088;
export const SCRATCH_BYTES: usize = 1152;
export const MAX_SCRATCH_BYTES: i32 = 7024;
export const SCRATCH_COUNTERS: usize = 8192;
export const MAX_BATCH: i32 = 32;
/** Bytes of an entry of the batch. */
export const BATCH_ENTRY_BYTES: usize = 16;

// --- counters ---------------------------------------------------------------
//
// What one thread keeps of one policy: a line of counters, and a line with what
// it made of the clock cell the last time. The cell stands still for a thousand
// calls and more, and so do the bounds that follow from it.
//
//   0 +---------+--------+---------+-----------+------------+-------------+---------+----------+
//     | allowed | denied | evicted | contended | fullDenied | fullAllowed | claimed | shadowed |
//  64 +---------+--+-----+-+-------+-+---------+---+--------+---+--------+----+-----+----------+
//     | notCellNs  | upper | lower   | version | limitTokens | tokenShift | policy | live |
//     +------------+-------+---------+---------+-------------+------------+--------+------+
//
// The bounds are right for as long as the cell says the same and the policy has
// the same version: both are compared by every call.

@unmanaged
export class Counters {
  allowed: u64;
  denied: u64;
  evicted: u64;
  contended: u64;
  fullDenied: u64;
  fullAllowed: u64;
  claimed: u64;
  shadowed: u64;
  /** ~ns of the cell; 0 for none. */
  notCellNs: i64;
  /** A word may reach `upper`, and counts from `lower` on: see `charged`. */
  upper: u64;
  lower: u64;
  version: u32;
  limitTokens: u32;
  tokenShift: i32;
  policy: u32;
  /** Keys in use, by the last audit of this thread. */
  live: u32;
}

export const COUNTERS_BYTES: usize = 128;
export const THREAD_BYTES: usize = SCRATCH_COUNTERS + usize(POLICY_COUNT) * COUNTERS_BYTES;

if (THREADS % 64 != 0) ERROR("a scratch must start on a cache line");
if (offsetof<Scratch>() > SCRATCH_VERSIONS) ERROR("answers run into the versions");
if (SCRATCH_BATCH + usize(MAX_BATCH) * BATCH_ENTRY_BYTES > SCRATCH_ANSWERS) ERROR("a batch runs into its answers");
if (SCRATCH_BYTES + usize(MAX_SCRATCH_BYTES) + 16 > SCRATCH_COUNTERS) ERROR("key bytes run into the counters");
if (offsetof<Counters>() > COUNTERS_BYTES) ERROR("counters run into the next policy's");
