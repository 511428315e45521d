// Where every byte of a table lives. The kernel owns these numbers; TypeScript
// reads them from the exports of this file and repeats none.
//
//   0        header            4 KiB
//   4096     policies          1024 records of 512 bytes
//            locks             1024 words, 16 bytes apart
//            threads           one lane a thread: registers, scratch, stats
//            sets              128 bytes each: 8 key words, 8 state words
//            line sets         512 bytes each: 7 key words, 7 lines of 64 bytes
//
// Zeroed memory is a valid table of fresh keys without policies, so pages that
// nobody touched cost nothing.

/** First word of every table: "SLCE", little-endian. */
export const MAGIC: i32 = 0x45434c53;
/** Changes with every incompatible change of the bytes below. */
export const LAYOUT_VERSION: i32 = 1;

// --- header -----------------------------------------------------------------
//
//   0 magic i32        4 version i32      8 set count u32    12 thread count u32
//  16 hash key 0 u64  24 hash key 1 u64  32 epoch i64 (ns on the monotonic clock)
//  40 clock kind i32  44 when full i32   48 table id u64     56 capacity u32
//  60 line set count u32
//  64 clock cell: f64 ms since the epoch, 72 the same in ns i64; alone on its line
// 128 policy count i32                  132 policy lock i32
// 192 ticker turn i32, alone on its line

export const HEADER_MAGIC: usize = 0;
export const HEADER_VERSION: usize = 4;
export const HEADER_SET_COUNT: usize = 8;
export const HEADER_THREAD_COUNT: usize = 12;
export const HEADER_HASH_KEY: usize = 16;
export const HEADER_EPOCH: usize = 32;
export const HEADER_CLOCK_KIND: usize = 40;
export const HEADER_WHEN_FULL: usize = 44;
export const HEADER_TABLE_ID: usize = 48;
export const HEADER_CAPACITY: usize = 56;
export const HEADER_LINE_SET_COUNT: usize = 60;
export const HEADER_CLOCK: usize = 64;
export const HEADER_CLOCK_NS: usize = 72;
export const HEADER_POLICY_COUNT: usize = 128;
export const HEADER_POLICY_LOCK: usize = 132;
export const HEADER_TICKER: usize = 192;

export const EVICT: i32 = 0;
export const DENY: i32 = 1;
export const ADMIT: i32 = 2;

// --- policies ---------------------------------------------------------------
//
// Record 0 is never used: policy number 0 in a key word means an empty slot.
//
//   0 version u32    4 lock i32    8 kind i32    12 name bytes u32
//  16 declared rate f64           24 declared burst f64       32 name (96 bytes)
// 128 piece 0 (128 bytes)        256 piece 1 (128 bytes)
// 384 the global bucket's word, alone on its line
// 448 declared extra f64         456 declared flags i32
// 460 the policies of its limits, if it has several, 7 x i32     488 how many i32
//
// The piece in force is number (version & 1). A writer fills the other one and
// then stores version + 1: readers never wait, and a writer that dies leaves
// the old piece in force.

export const POLICY_COUNT: i32 = 1024;
export const POLICY_BITS: u64 = 1023;
export const POLICIES: usize = 4096;
export const POLICY_BYTES: usize = 512;
export const POLICY_VERSION: usize = 0;
export const POLICY_LOCK: usize = 4;
export const POLICY_KIND: usize = 8;
export const POLICY_NAME_BYTES: usize = 12;
export const POLICY_RATE: usize = 16;
export const POLICY_BURST: usize = 24;
export const POLICY_NAME: usize = 32;
export const POLICY_NAME_MAX: i32 = 96;
export const POLICY_PIECE: usize = 128;
export const POLICY_GLOBAL: usize = 384;
export const POLICY_EXTRA: usize = 448;
export const POLICY_FLAGS: usize = 456;
export const POLICY_PARTS: usize = 460;
export const POLICY_PART_COUNT: usize = 488;
export const PARTS_MAX: i32 = 7;

// A piece of a policy's clock (see clock.ts for what the numbers mean).
//
//   0 v0 u64       8 t0 i64      16 multiplier u64  24 burst u64
//  32 dt limit i64 (ns)          40 ns a unit f64
//  48 pre-shift i32
//  56 token shift i32            60 burst u32 (whole tokens)
//  64 flags i32   68 generation u32: how often the scale changed; the tag is its rest by 3
//  52 window shift i32: a window is found by multiplier and this
//  72, 88 the last two changes of scale, the newer first: from u64, shift i32, fresh i32
//         (of a fixed window, of its limit: from u64, the former limit u32)
// 104 rate f64  112 burst f64, as the user said them
// 120 extra i64: a window in ns, or how far a queue may run ahead in units

export const PIECE_BYTES: usize = 128;
export const PIECE_V0: usize = 0;
export const PIECE_T0: usize = 8;
export const PIECE_MULTIPLIER: usize = 16;
export const PIECE_BURST: usize = 24;
export const PIECE_DT_LIMIT: usize = 32;
export const PIECE_NS_A_UNIT: usize = 40;
export const PIECE_PRE_SHIFT: usize = 48;
export const PIECE_WINDOW_SHIFT: usize = 52;
export const PIECE_TOKEN_SHIFT: usize = 56;
export const PIECE_BURST_TOKENS: usize = 60;
export const PIECE_FLAGS: usize = 64;
export const PIECE_GENERATION: usize = 68;
export const PIECE_OLDER: usize = 72;
export const PIECE_RATE: usize = 104;
export const PIECE_BURST_SAID: usize = 112;
export const PIECE_EXTRA: usize = 120;
export const OLDER_BYTES: usize = 16;
export const OLDER_FROM: usize = 0;
export const OLDER_SHIFT: usize = 8;
export const OLDER_FRESH: usize = 12;

/** Token shift of a fixed window: whole tokens, in multiples of 4 units. */
export const STEP_SHIFT: u64 = 2;

/** Pre-shift of every piece without flags. */
export const QUICK_PRE_SHIFT: u64 = 4;

/** The rate is infinite: everything is admitted and nothing is written. */
export const FLAG_UNLIMITED: i32 = 1;
/** The next caller pays: a cost is charged after the test (Guava). */
export const FLAG_PAY_LATER: i32 = 2;
/** A wait is cut to whole nanoseconds, so a shortage of less than one is none (Go). */
export const FLAG_CUT_WAIT: i32 = 4;
/** Waits queue up to a length, and what does not fit is refused (leaky bucket as a queue). */
export const FLAG_QUEUE: i32 = 8;
/** The clock flows in steps of a burst, one a window (fixed window). */
export const FLAG_STEP: i32 = 16;
/** The word holds the counts of two windows (sliding window counter). */
export const FLAG_SLIDING: i32 = 32;
/** What would be refused is admitted, and counted. */
export const FLAG_SHADOW: i32 = 64;
/** Its keys live in lines: one of the next three. */
export const FLAG_LINE: i32 = 128;
/** A ring of time slots (sliding window). */
export const FLAG_RING: i32 = 256;
/** Several limits, all or nothing. */
export const FLAG_PARTS: i32 = 512;
/** Stored permits that cost time while cold (warm-up). */
export const FLAG_WARM_UP: i32 = 1024;
/** Its words hold tokens leased from elsewhere (lease). */
export const FLAG_LEASE: i32 = 2048;

/** Flags that do not matter to a call that will not wait. */
export const QUICK_FLAGS: i32 = FLAG_QUEUE | FLAG_STEP;

// --- locks ------------------------------------------------------------------
//
//   0 owner i32 (thread number + 1, 0 free)    4 the slot being claimed u32

export const LOCK_COUNT: i32 = 1024;
export const LOCK_BYTES: usize = 16;
export const LOCKS: usize = POLICIES + usize(POLICY_COUNT) * POLICY_BYTES;
export const LOCK_SLOT: usize = 4;

// --- threads ----------------------------------------------------------------
//
// A lane belongs to one thread; nobody else writes it, but for the owner word.
//
//     0 owner i32 (0 free)          4 nap i32 (never written: a thing to sleep on)
//     8 key word u64               16 set a u32      20 set b u32
//    24 results: remaining f64, retry ns f64, reset ns f64, delay ns f64, tokens f64
//    64 act u64 (the virtual time at which a reservation may act)
//    72 staged parts, 8 x i32
//   104 present time when deciding as of a later one f64
//   128 hash state, 4 x u64
//   192 staged piece (128 bytes)   320 staged name (96 bytes)
//   416 limit that decided i32    420 slot that decided u32
//   424 parent thread i32         428 line being written u32
//   448 a line (64 bytes)
//   512 batch: 32 entries of 16 bytes: key word u64, set a u32, set b u32
//  1024 batch answers, 1 byte each
//  1088 tokens taken by the last grant, one for each limit, 7 x f64
//  1152 key bytes, 7 KiB less the above, and a margin for whole words
//  8192 stats, two lines a policy

export const THREADS: usize = LOCKS + usize(LOCK_COUNT) * LOCK_BYTES;
export const LANE_OWNER: usize = 0;
export const LANE_NAP: usize = 4;
export const LANE_KEY: usize = 8;
export const LANE_SET_A: usize = 16;
export const LANE_SET_B: usize = 20;
export const LANE_REMAINING: usize = 24;
export const LANE_RETRY_NS: usize = 32;
export const LANE_RESET_NS: usize = 40;
export const LANE_DELAY_NS: usize = 48;
export const LANE_TOKENS: usize = 56;
export const LANE_ACT: usize = 64;
export const LANE_PARTS: usize = 72;
export const LANE_REAL_MS: usize = 104;
export const LANE_HASH: usize = 128;
export const LANE_PIECE: usize = 192;
export const LANE_NAME: usize = 320;
export const LANE_LIMIT: usize = 416;
export const LANE_SLOT: usize = 420;
export const LANE_PARENT: usize = 424;
export const LANE_HELD: usize = 428;
export const LANE_LINE: usize = 448;
export const LANE_BATCH: usize = 512;
export const LANE_ANSWERS: usize = 1024;
export const LANE_TAKEN: usize = 1088;
export const LANE_BYTES: usize = 1152;
export const LANE_BYTES_MAX: i32 = 7024;
export const LANE_STATS: usize = 8192;
export const BATCH_MAX: i32 = 32;

// What one thread keeps of one policy: a line of 8 counters, and a line with what
// it made of the clock cell the last time. The cell stands still for a thousand
// calls and more, and so do the reading and all that follows from it.
//
//    0 counters: 8 x u64
//   64 ~ns of the cell (0: none)   72 v(then)         80 v(then) - burst
//   88 version u32   92 burst u32, whole tokens   96 token shift i32   100 policy
//  104 keys in use u32, by the last audit of this thread
//
// It is right for as long as the cell says the same and the policy has the same
// version: both are compared by every call.
export const STATS_BYTES: usize = 128;
export const READING_MOMENT: usize = 64;
export const READING_V: usize = 72;
export const READING_FLOOR: usize = 80;
export const READING_VERSION: usize = 88;
export const READING_BURST_TOKENS: usize = 92;
export const READING_TOKEN_SHIFT: usize = 96;
export const READING_POLICY: usize = 100;
export const STATS_LIVE: usize = 104;
export const STATS_ALLOWED: usize = 0;
export const STATS_DENIED: usize = 8;
export const STATS_EVICTED: usize = 16;
export const STATS_CONTENDED: usize = 24;
export const STATS_FULL_DENIED: usize = 32;
export const STATS_FULL_ALLOWED: usize = 40;
export const STATS_CLAIMED: usize = 48;
export const STATS_SHADOWED: usize = 56;

export const THREAD_BYTES: usize = LANE_STATS + usize(POLICY_COUNT) * STATS_BYTES;

// --- sets -------------------------------------------------------------------
//
// A set is two cache lines, key words in the first and state words in the
// second, so that four vector compares look through it. A slot is the address
// of its key word; its state word is one line further on.
//
//   key word    fingerprint (54 bits) | policy number (10 bits); 0 is an empty slot
//   state word  virtual time (62 bits) | tag (2 bits); 0 is a key never seen
//
// Tag 0, 1 or 2 says which scale of its policy the word is written in. Tag 3
// is BUSY: a claimer is about to give the slot to another key, and the upper
// bits hold its thread number + 1. Deciders that meet BUSY look up again.
//
// The state word of a leased key is another (see lease.ts), BUSY the same:
//
//   state word  end (39 bits) | tokens (16) | held (1) | told (1) | size (4) | side (1) | tag 0 (2)

export const SLOT_COUNT: i32 = 8;
export const SLOT_STEP: usize = 8;
export const SLOT_STATE: usize = 64;
export const SET_BYTES: usize = 128;
/** Sets in a page; a table has whole pages of them. */
export const PAGE_SETS: u64 = 32;
/** Where the slots of a set end. */
export const SLOTS_END: usize = SLOT_STEP * usize(SLOT_COUNT);
export const TAG_BITS: u64 = 3;
export const BUSY: u64 = 3;

/** A step of an end, 2^21 ns: it lasts 36 years. */
export const LEASE_STEP_SHIFT: i64 = 21;
export const LEASE_END_SHIFT: u64 = 25;
export const LEASE_TOKENS_SHIFT: u64 = 9;
/** Most tokens that a word holds. */
export const LEASE_MOST: u64 = (1 << 16) - 1;
export const LEASE_HELD: u64 = 1 << 8;
export const LEASE_TOLD: u64 = 1 << 7;
export const LEASE_SIZE_SHIFT: u64 = 3;
export const LEASE_SIZE_BITS: u64 = 15;
export const LEASE_SIDE: u64 = 1 << 2;

// --- lines ------------------------------------------------------------------
//
// What does not fit a word has a cache line of its own. A line set is eight
// lines: seven key words and a zero, then the seven lines of those keys.
//
//   line   0 lock i32: owner (11 bits: thread number + 1, 0 free) | version (21 bits)
//          4 the state, 60 bytes, as its algorithm draws it
//
// A zeroed line is a key never seen. See line.ts for who may write it.

export const LINE_SLOT_COUNT: i32 = 7;
export const LINE_BYTES: usize = 64;
export const LINE_SET_BYTES: usize = 512;
/** Line sets in a group, within which both sets of a key lie. */
export const LINE_GROUP_SETS: u64 = 32;
export const LINE_OWNER_BITS: i32 = 2047;
export const LINE_VERSION_STEP: i32 = 2048;

/** A new clock's first reading, so that a zero word is fresh whatever the burst. */
export const V_START: u64 = 1 << 59;
/** Largest burst, in units of the word. */
export const BURST_LIMIT: u64 = 1 << 58;
/** Farthest that a word may run ahead of its clock (debt and reservations). */
export const AHEAD_LIMIT: u64 = 1 << 59;

// What one part writes another verifies; what must not overlap fails to compile.
if (usize(PAGE_SETS) * SET_BYTES != 4096) ERROR("a page of sets is no page of memory");
if (SLOTS_END > SLOT_STATE) ERROR("key words run into state words");
if (
  LEASE_SIDE <= TAG_BITS || LEASE_SIZE_BITS << LEASE_SIZE_SHIFT >= LEASE_TOLD
  || LEASE_MOST << LEASE_TOKENS_SHIFT >> LEASE_END_SHIFT
) ERROR("parts of a leased word overlap");
if (POLICIES % POLICY_BYTES != 0 || POLICY_BYTES & (POLICY_BYTES - 1)) ERROR("a record must be found from within");
if (THREADS % 64 != 0) ERROR("lanes must start on a cache line");
if (POLICY_NAME + usize(POLICY_NAME_MAX) > POLICY_PIECE) ERROR("a name runs into its clock");
if (POLICY_PIECE + 2 * PIECE_BYTES > POLICY_GLOBAL) ERROR("a clock runs into the global word");
if (PIECE_OLDER + 2 * OLDER_BYTES > PIECE_RATE) ERROR("the older tags run into the rate");
if (usize(LINE_SLOT_COUNT + 1) * LINE_BYTES != LINE_SET_BYTES) ERROR("a line set is no whole lines");
if (LANE_LINE + LINE_BYTES > LANE_BATCH) ERROR("the lane's line runs into its batch");
if (LANE_BATCH + usize(BATCH_MAX) * 16 > LANE_ANSWERS) ERROR("a batch runs into its answers");
if (LANE_BYTES + usize(LANE_BYTES_MAX) + 16 > LANE_STATS) ERROR("key bytes run into the stats");
