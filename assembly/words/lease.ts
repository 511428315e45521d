// Tokens that were leased from elsewhere (Redis), in one word a key.
//
//   63        25 24       9    8      7       6     3    2    1  0
//   +-----------+----------+------+-------+----------+------+----+
//   | end       | tokens   | held | short | size     | side | 0  |
//   +-----------+----------+------+-------+----------+------+----+
//
//   end     when all of it lapses, in steps of 2^21 ns: 36 years
//   tokens  what is left of the leases
//   held    a thread asks for more just now, and no other is to ask until the end.
//           The flag lapses with the word, so that a thread that dies while it
//           asks holds up the others no longer
//   short   the last deposit was less than was asked for: what is left of it is
//           spent before a thread asks again. If held too, no thread asks: it is
//           a pause
//   size    the last deposit had from 2^size tokens on
//   side    turns whenever the slot changes hands (table/claim.ts)
//
// A key without a slot, or whose word has lapsed, has no tokens: evicting it, or
// losing it with its process, loses a lease and admits nothing. So it may be
// reused freely: fresh is lapsed, not full as with the other algorithms.
//
// A deposit keeps of the tokens that are left at most as many as the deposit
// before had, and gives them its own end. So every token left can be taken for
// one of the last deposit, and none outlives the end of the deposit that follows
// its own: it is spent within two lives of a deposit, or never.

import { SIDE_BITS } from "../layout/slots";

/** A step of an end, 2^21 ns: it lasts 36 years. */
const STEP_SHIFT: i64 = 21;
const END_SHIFT: u64 = 25;
const TOKENS_SHIFT: u64 = 9;
/** Most tokens that a word holds. */
export const LEASE_MAX_TOKENS: u64 = (1 << 16) - 1;
export const LEASE_HELD: u64 = 1 << 8;
export const LEASE_IS_SHORT: u64 = 1 << 7;
const SIZE_SHIFT: u64 = 3;
const SIZE_BITS: u64 = 15;
export const LEASE_SIDE: u64 = 1 << 2;
/** How much is left when it is time to ask: a quarter of the last deposit's size. */
const LOW_SHIFT: u64 = 2;

if (
  LEASE_SIDE <= SIDE_BITS || SIZE_BITS << SIZE_SHIFT >= LEASE_IS_SHORT || LEASE_MAX_TOKENS << TOKENS_SHIFT >> END_SHIFT
) {
  ERROR("fields of a leased word overlap");
}

/** True until the word lapses. */
@inline
export function isLive(word: u64, now: i64): bool {
  return now >> STEP_SHIFT < i64(word >> END_SHIFT);
}

@inline
export function leasedTokens(word: u64): u64 {
  return (word >> TOKENS_SHIFT) & LEASE_MAX_TOKENS;
}

/** The tokens of a word that has not lapsed by now. */
@inline
export function leftIn(word: u64, now: i64): u64 {
  return isLive(word, now) ? leasedTokens(word) : 0;
}

/** What was deposited last, rounded down to a power of two; 0 if nothing was. */
@inline
export function depositIn(word: u64): u64 {
  return word >> END_SHIFT ? u64(1) << ((word >> SIZE_SHIFT) & SIZE_BITS) : 0;
}

/** Nanoseconds since the table's epoch at which the word lapses. */
@inline
export function endIn(word: u64): i64 {
  return i64((word >> END_SHIFT) << STEP_SHIFT);
}

/** An end that has come by `ns`, in its place in a word. */
@inline
function endBits(ns: i64): u64 {
  return u64(ns >> STEP_SHIFT) << END_SHIFT;
}

/** The word with `cost` tokens taken out of those that are left. */
@inline
export function leaseWithout(word: u64, cost: u32): u64 {
  return word - (u64(cost) << TOKENS_SHIFT);
}

/** The word of a thread that asks, with `tokens` left: it lapses after `holdNs`, or earlier if its tokens do. */
export function asking(word: u64, tokens: u64, holdNs: i64, now: i64): u64 {
  const until = endBits(now + holdNs);
  const end = word >> END_SHIFT << END_SHIFT;
  const rest = word & (LEASE_SIDE | (SIZE_BITS << SIZE_SHIFT));
  return rest | LEASE_HELD | (tokens << TOKENS_SHIFT) | (tokens && end < until ? end : until);
}

/** True if little is left, of a deposit that was not short, and if that little does not lapse before the flag would. */
@inline
export function isTimeToAsk(word: u64, left: u64, holdNs: i64, now: i64): bool {
  return !left
    || (!(word & LEASE_IS_SHORT) && left <= (u64(1) << ((word >> SIZE_SHIFT) & SIZE_BITS)) >> LOW_SHIFT
      && isLive(word, now + holdNs));
}

/** Tokens that `leaseAfterDeposit` would add. */
@inline
export function addedTo(word: u64, tokens: u64, now: i64): u64 {
  return min(tokens, LEASE_MAX_TOKENS - keptOf(word, now));
}

/** Tokens that a deposit keeps. */
@inline
function keptOf(word: u64, now: i64): u64 {
  return min(leftIn(word, now), u64(1) << ((word >> SIZE_SHIFT) & SIZE_BITS));
}

/** The word after a deposit; without tokens the end of those that are left only moves nearer. */
export function leaseAfterDeposit(word: u64, tokens: u64, endNs: i64, flags: u64, now: i64): u64 {
  const kept = keptOf(word, now);
  const added = addedTo(word, tokens, now);
  const end = !added && kept ? min(endBits(endNs), word >> END_SHIFT << END_SHIFT) : endBits(endNs);
  const size = added ? min(63 - clz(added), SIZE_BITS) << SIZE_SHIFT : word & (SIZE_BITS << SIZE_SHIFT);
  return end | ((kept + added) << TOKENS_SHIFT) | flags | size | (word & LEASE_SIDE);
}

/**
 * How much a slot lacks, to choose a victim: 0 if it has lapsed, else less than any bucket, since no
 * limit is lost with it.
 */
export function leaseDeficit(word: u64, now: i64): f64 {
  return isLive(word, now) ? f64(leasedTokens(word) + 1) / f64(1 << 40) : 0;
}
