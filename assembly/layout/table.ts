// Where every byte of a table lives, and its header and locks. The kernel owns
// these numbers: TypeScript reads them from offsets.ts and repeats none.
//
//   0        header            4 KiB
//   4096     policies          1024 records of 512 bytes
//            locks             1024 stripes of 16 bytes
//            threads           one scratch a thread, with its counters
//            sets              128 bytes each: 8 key words, 8 state words
//            line sets         512 bytes each: 7 key words, 7 lines of 64 bytes
//
// Zeroed memory is a valid table of fresh keys without policies, so a page that
// was never touched costs nothing. Boxes are drawn in address order.

/** First word of every table: "SLCE", little-endian. */
export const MAGIC: i32 = 0x45434c53;
/** Changes with every incompatible change of the bytes below. */
export const LAYOUT_VERSION: i32 = 2;

// --- header -----------------------------------------------------------------
//
//   0 +-------+---------+----------+-------------+
//     | magic | version | setCount | threadCount |
//  16 +-------+---------+----------+-------------+
//     | hashKey0        | hashKey1               |
//  32 +-----------------+-----------+------------+
//     | epochNs         | clockKind | whenFull   |
//  48 +-----------------+----------+-------------+
//     | tableId         | capacity | lineSetCount|
//  64 +-----------------+----------+-------------+
//     | clockMs         | clockNs                |  the clock cell, alone on its line
// 128 +-------------+-------------+--------------+
//     | policyCount | policyLock  |                 the list of policies
// 192 +-------------+-------------+
//     | ticker      |                               alone on its line
//     +-------------+

@unmanaged
export class Header {
  magic: i32;
  version: i32;
  setCount: u32;
  threadCount: u32;
  hashKey0: u64;
  hashKey1: u64;
  /** Nanoseconds on the monotonic clock at which the table's time began. */
  epochNs: i64;
  clockKind: i32;
  whenFull: i32;
  tableId: u64;
  capacity: u32;
  lineSetCount: u32;
  clockMs: f64;
  clockNs: i64;
}

export const HEADER_POLICY_COUNT: usize = 128;
export const HEADER_POLICY_LOCK: usize = 132;
export const HEADER_TICKER: usize = 192;

@inline
export function header(): Header {
  return changetype<Header>(0);
}

// What happens to a new key when both of its sets are full.
export const EVICT: i32 = 0;
export const DENY: i32 = 1;
export const ADMIT: i32 = 2;

// --- policies, for their size: see policy.ts ----------------------------------

export const POLICY_COUNT: i32 = 1024;
export const POLICY_BITS: u64 = 1023;
export const POLICIES: usize = 4096;
export const POLICY_BYTES: usize = 512;

// --- locks ------------------------------------------------------------------
//
//   0 +-------+------+
//     | owner | slot |   thread number + 1 of the thread that claims (0 free), and the slot it claims
//     +-------+------+

export const LOCK_COUNT: i32 = 1024;
export const LOCK_BYTES: usize = 16;
export const LOCKS: usize = POLICIES + usize(POLICY_COUNT) * POLICY_BYTES;
export const LOCK_SLOT: usize = 4;
