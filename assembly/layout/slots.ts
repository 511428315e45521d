// Slots: where keys and their states lie.

// --- sets -------------------------------------------------------------------
//
// A set is two cache lines, so that four vector compares look through it:
//
//   0 +------------------------------+
//     | key words, 8 x u64           |
//  64 +------------------------------+
//     | state words, 8 x u64         |
//     +------------------------------+
//
// A slot is the address of its key word; its state word is one line further on.
//
//   63                            10 9              0
//   +-------------------------------+---------------+
//   | fingerprint                   | policy number |   key word; 0 is an empty slot
//   +-------------------------------+---------------+
//
//   63                                     2 1    0
//   +---------------------------------------+------+
//   | virtual time (words/bucket.ts)        | side |    state word of a bucket; 0 is a key never seen
//   +---------------------------------------+------+
//   | thread number + 1 of the claimer      |  11  |    BUSY: look up again
//   +---------------------------------------+------+
//
// The state words of other algorithms are drawn where their arithmetic is; their
// two lowest bits are 0, except in BUSY.

export const SLOT_COUNT: i32 = 8;
export const SLOT_STEP: usize = 8;
export const SLOT_STATE: usize = 64;
export const SET_BYTES: usize = 128;
/** Sets in a page; a table has whole pages of them. */
export const PAGE_SETS: u64 = 32;
/** Where the slots of a set end. */
export const SLOTS_END: usize = SLOT_STEP * usize(SLOT_COUNT);
/** The bits of a state word that hold no state. */
export const SIDE_BITS: u64 = 3;
export const BUSY: u64 = 3;

// --- lines ------------------------------------------------------------------
//
// What does not fit a word has a cache line of its own. A line set is eight
// lines:
//
//   0 +-----------------------------+---+
//     | key words, 7 x u64          | 0 |
//  64 +-----------------------------+---+
//     | line of slot 0, 64 bytes        |
// 128 +---------------------------------+
//     | ... up to that of slot 6        |
// 512 +---------------------------------+
//
//   0 +--------------------------------------+-------------------------------------------+
//     | owner, 11 bits | version, 21 bits    | the state, 60 bytes, as its algorithm has it |
//     +--------------------------------------+-------------------------------------------+
//
// A zeroed line is a key never seen. See table/lines.ts for who may write it.

export const LINE_SLOT_COUNT: i32 = 7;
export const LINE_BYTES: usize = 64;
export const LINE_SET_BYTES: usize = 512;
/** Line sets in a group, within which both sets of a key lie. */
export const LINE_GROUP_SETS: u64 = 32;
export const LINE_OWNER_BITS: i32 = 2047;
export const LINE_VERSION_STEP: i32 = 2048;

if (usize(PAGE_SETS) * SET_BYTES != 4096) ERROR("a page of sets is not a page of memory");
if (SLOTS_END > SLOT_STATE) ERROR("key words run into state words");
if (usize(LINE_SLOT_COUNT + 1) * LINE_BYTES != LINE_SET_BYTES) ERROR("a line set is not whole lines");
