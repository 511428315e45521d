// Policies: one record each, and in it two segments that take turns.

import { POLICIES, POLICY_BYTES } from "./table";

// --- policies ---------------------------------------------------------------
//
// Record 0 is never used: policy number 0 in a key word means an empty slot.
//
//   0 +---------+------+------+-------+--------+--------+-----------+------------+
//     | version | lock | kind | flags | walked | parent | nameBytes | limitCount |
//  32 +---------+------+------+-------+--------+--------+-----------+------------+
//     | name, UTF-8, 96 bytes                                                    |
// 128 +--------------------------------------------------------------------------+
//     | segment 0, 128 bytes                                                     |
// 256 +--------------------------------------------------------------------------+
//     | segment 1, 128 bytes                                                     |
// 384 +--------------------------------------------------------------------------+
//     | the global bucket's word or line, 64 bytes                               |
// 448 +------+-------+-------+---------------------------------------------------+
//     | rate | burst | extra | numbers of its limits, 7 x u32                    |
//     +------+-------+-------+---------------------------------------------------+
//
// The segment in force is number (version & 1). A writer fills the other one and
// then stores the next version: readers never wait, and a writer that dies leaves
// the old segment in force.

@unmanaged
export class Policy {
  version: u32;
  /** Thread number + 1 of the thread that publishes; 0 free. */
  lock: i32;
  /** Number of its kind, for TypeScript. */
  kind: i32;
  /** As in its segments, without UNLIMITED. */
  flags: i32;
  /** The last scale whose walk is finished: no word of an older one is left. */
  walked: u32;
  /** Number of the policy that this one is a limit of; 0 for none. */
  parent: u32;
  nameBytes: u32;
  limitCount: u32;
}

/** What the user asked for when the policy was defined. */
@unmanaged
export class Declaration {
  rate: f64;
  burst: f64;
  extra: f64;
}

export const POLICY_NAME: usize = 32;
export const POLICY_NAME_MAX: i32 = 96;
export const POLICY_SEGMENT: usize = 128;
export const SEGMENT_BYTES: usize = 128;
export const POLICY_GLOBAL: usize = 384;
export const POLICY_DECLARATION: usize = 448;
export const POLICY_LIMITS: usize = 472;
export const MAX_LIMITS: i32 = 7;

// --- segments ---------------------------------------------------------------
//
// A segment says how a policy decides from t0 on. All kinds begin alike:
//
//   0 +----+------+------+-------+-------------+-------+
//     | t0 | life | rate | burst | limitTokens | flags |
//  40 +----+------+------+-------+-------------+-------+
//
// and go on as their algorithm needs (see the classes below).

@unmanaged
export class Segment {
  /** Nanoseconds since the table's epoch at which it begins. */
  t0: i64;
  /** Nanoseconds for which its numbers are good: about 30 years. */
  life: i64;
  /** Tokens per second and tokens, as the user set them. */
  rate: f64;
  burst: f64;
  /** Largest cost that fits at once, whole tokens. */
  limitTokens: u32;
  flags: i32;
}

// A bucket's segment, a straight stretch of its virtual clock (words/clock.ts):
//
//  40 +----+------------+------------+-----------+------------+
//     | v0 | multiplier | burstUnits | nsPerUnit | queueUnits |
//  80 +----+------------+---+--------+-+---------+------------+
//     | beforeMultiplier | lastStart  | secondLastStart        |
// 104 +----------+-------+----+-------+----------------+------+----+-----------------+
//     | preShift | tokenShift | scale | beforePreShift | lastShift | secondLastShift |
// 128 +----------+------------+-------+----------------+-----------+-----------------+

@unmanaged
export class BucketSegment extends Segment {
  /** Reading of the clock at t0, units. */
  v0: u64;
  multiplier: u64;
  burstUnits: u64;
  nsPerUnit: f64;
  /** How far a queue may run ahead, units. */
  queueUnits: u64;
  /** The flow until t0, while that is still to come: multiplier and pre-shift of the segment before. */
  beforeMultiplier: u64;
  /** Readings of the older clocks at the last two changes of scale. */
  lastStart: u64;
  secondLastStart: u64;
  preShift: i32;
  /** Units in a token are 2^tokenShift. */
  tokenShift: i32;
  /** How often the scale changed; its side is the lowest bit. */
  scale: u32;
  beforePreShift: i32;
  /** By how many bits units became finer (+) or coarser (-); FORGETS if all words became fresh. */
  lastShift: i32;
  secondLastShift: i32;
}

// The segment of a fixed window and of a sliding window counter:
//
//  40 +----------+---------+--------------+-----------+
//     | windowNs | inverse | inverseShift | countBits |
//  64 +----------+---------+--------------+-----------+

@unmanaged
export class WindowSegment extends Segment {
  windowNs: u64;
  /** floor(2^(64 + inverseShift) / windowNs): how a window is found without a division. */
  inverse: u64;
  inverseShift: i32;
  /** Bits of a count in the word. */
  countBits: i32;
}

// The segment of a window with time slots:
//
//  40 +--------+---------+--------------+------------+
//     | slotNs | inverse | inverseShift | ringLength |
//  64 +--------+---------+--------------+------------+

@unmanaged
export class RingSegment extends Segment {
  slotNs: u64;
  inverse: u64;
  inverseShift: i32;
  /** Counters in the ring: one more than the window has slots. */
  ringLength: u32;
}

// The segment of a limiter that warms up:
//
//  40 +----------+-----------+------------+-------+----------+
//     | warmUpNs | threshold | maxPermits | slope | stableNs |
//  80 +----------+-----------+------------+-------+----------+

@unmanaged
export class WarmUpSegment extends Segment {
  warmUpNs: i64;
  /** Stored permits above which a permit costs more time. */
  threshold: f64;
  maxPermits: f64;
  /** Nanoseconds that each stored permit above the threshold adds to the price of one. */
  slope: f64;
  /** Nanoseconds of a permit when warm. */
  stableNs: f64;
}

// Flags of a policy and its segments: bits 0 to 7 modify, bits 8 up are the algorithm.

/** The rate is infinite: everything is admitted and nothing is written. */
export const FLAG_UNLIMITED: i32 = 1;
/** The next caller pays: a cost is charged after the test (Guava). */
export const FLAG_PAY_LATER: i32 = 2;
/** A wait is cut to whole nanoseconds, so a shortage of less than one is none (Go). */
export const FLAG_CUT_WAIT: i32 = 4;
/** Waits queue up to a length, and what does not fit is refused (leaky bucket as a queue). */
export const FLAG_QUEUE: i32 = 8;
/** What would be refused is admitted, and counted. */
export const FLAG_SHADOW: i32 = 16;
export const ALGORITHM_SHIFT: i32 = 8;

// Algorithms: those of one word first, then those of a line.
export const BUCKET: i32 = 0;
export const FIXED_WINDOW: i32 = 1;
export const SLIDING_COUNTER: i32 = 2;
export const LEASE: i32 = 3;
export const RING: i32 = 4;
export const LIMITS: i32 = 5;
export const WARM_UP: i32 = 6;

/** The record of policy `number`. */
@inline
export function policyAt(number: u64): Policy {
  return changetype<Policy>(POLICIES + usize(number) * POLICY_BYTES);
}

/** The number of a policy. */
@inline
export function numberOf(policy: Policy): u64 {
  return u64((changetype<usize>(policy) - POLICIES) / POLICY_BYTES);
}

/** The version in force. */
@inline
export function versionOf(policy: Policy): u32 {
  return atomic.load<u32>(changetype<usize>(policy));
}

@inline
export function isCurrent(policy: Policy, version: u32): bool {
  return versionOf(policy) == version;
}

/** The segment that is in force under `version`. */
@inline
export function segmentOf(policy: Policy, version: u32): Segment {
  return changetype<Segment>(changetype<usize>(policy) + POLICY_SEGMENT + usize(version & 1) * SEGMENT_BYTES);
}

/** The policy whose record holds a segment. */
@inline
export function policyOf(segment: Segment): Policy {
  return changetype<Policy>(changetype<usize>(segment) & ~(POLICY_BYTES - 1));
}

/** The algorithm in a word of flags. */
@inline
export function algorithmIn(flags: i32): i32 {
  return flags >> ALGORITHM_SHIFT;
}

/** True for algorithms whose keys live in lines. */
@inline
export function isLineKind(flags: i32): bool {
  return algorithmIn(flags) >= RING;
}

/** Number of limit `i` of a policy that has several. */
@inline
export function limitOf(policy: Policy, i: i32): Policy {
  return policyAt(load<u32>(changetype<usize>(policy) + usize(i) * 4, POLICY_LIMITS));
}

// What must not overlap fails to compile.
if (POLICIES % POLICY_BYTES != 0 || POLICY_BYTES & (POLICY_BYTES - 1)) ERROR("a record must be found from within");
if (offsetof<Policy>() > POLICY_NAME) ERROR("a policy's numbers run into its name");
if (POLICY_NAME + usize(POLICY_NAME_MAX) > POLICY_SEGMENT) ERROR("a name runs into its clock");
if (offsetof<BucketSegment>() > SEGMENT_BYTES) ERROR("a bucket's segment is too long");
if (POLICY_SEGMENT + 2 * SEGMENT_BYTES > POLICY_GLOBAL) ERROR("a segment runs into the global word");
if (POLICY_DECLARATION + offsetof<Declaration>() > POLICY_LIMITS) ERROR("a declaration runs into the limits");
if (POLICY_LIMITS + usize(MAX_LIMITS) * 4 > POLICY_BYTES) ERROR("limits run into the next record");
