// Tokens that were leased from elsewhere (Redis), in one word a key.
//
//   word   end (39 bits) | tokens (16) | held (1) | told (1) | size (4) | side (1) | tag 0 (2)
//
//   end     when all of it lapses, in steps of 2^21 ns: 36 years
//   tokens  what is left of the leases
//   held    nobody else is to ask for more until the end: somebody asks just now.
//           The flag lapses with the word, so that a thread that dies while it
//           asks holds up nobody for longer
//   told    whoever asked was told that there is little. If held too, nobody asks:
//           they are to come later. Else the deposit was short: what is left of it
//           is spent before anybody asks
//   size    the last deposit had from 2^size tokens on
//   side    turns whenever the slot changes hands, see `claim`
//
// A key without a slot, or whose word has lapsed, has no tokens: evicting it, or
// losing it with its process, loses a lease and admits nothing. So it may be
// reused freely: fresh is lapsed, not full as with the other kinds.
//
// Whoever decides writes the word by one swap, and a refusal writes nothing
// but the flag, by the one who is to ask: an answer with ASK in it.
//
// A deposit keeps of the tokens that are left at most as many as the deposit
// before had, and gives them its own end. So every token left can be taken for
// one of the last deposit, and none outlives the end of the deposit that follows
// its own: it is spent within two lives of a deposit, or never.

import { nanoseconds } from "./clock";
import { full, GLOBAL, isOurs, target } from "./decide";
import {
  ADMIT,
  BUSY,
  HEADER_WHEN_FULL,
  LANE_KEY,
  LANE_REMAINING,
  LANE_RESET_NS,
  LANE_RETRY_NS,
  LANE_SET_A,
  LANE_SET_B,
  LANE_TOKENS,
  LEASE_END_SHIFT,
  LEASE_HELD,
  LEASE_MOST,
  LEASE_SIDE,
  LEASE_SIZE_BITS,
  LEASE_SIZE_SHIFT,
  LEASE_STEP_SHIFT,
  LEASE_TOKENS_SHIFT,
  LEASE_TOLD,
  POLICY_EXTRA,
  POLICY_GLOBAL,
  POLICY_VERSION,
  SLOT_STATE,
  STATS_ALLOWED,
  STATS_CONTENDED,
  STATS_DENIED,
  TAG_BITS,
} from "./layout";
import { claim, CLAIM_AGAIN, CLAIM_FULL, find } from "./table";
import { count, lane, PATIENCE, yieldTo } from "./thread";

/** In an answer of `takeLeased`: the caller holds the flag now, and is to ask for more. */
export const LEASE_ASK: i32 = 2;
/** How much is left when it is time to ask: a quarter of the last deposit's size. */
const LOW_SHIFT: u64 = 2;

/** True until the word lapses. */
// @ts-ignore: decorator
@inline
function isLive(word: u64, now: i64): bool {
  return now >> LEASE_STEP_SHIFT < i64(word >> LEASE_END_SHIFT);
}

// @ts-ignore: decorator
@inline
function tokensOf(word: u64): u64 {
  return (word >> LEASE_TOKENS_SHIFT) & LEASE_MOST;
}

/** The tokens of a word that has not lapsed by now. */
// @ts-ignore: decorator
@inline
function leftOf(word: u64, now: i64): u64 {
  return isLive(word, now) ? tokensOf(word) : 0;
}

// @ts-ignore: decorator
@inline
function sizeOf(word: u64): u64 {
  return (word >> LEASE_SIZE_SHIFT) & LEASE_SIZE_BITS;
}

/** An end that has come by `ns`, in its place in a word. */
// @ts-ignore: decorator
@inline
function endAt(ns: i64): u64 {
  return u64(ns >> LEASE_STEP_SHIFT) << LEASE_END_SHIFT;
}

/** The bits below the end, with so many tokens. */
// @ts-ignore: decorator
@inline
function holding(word: u64, tokens: u64): u64 {
  return (word & ~((LEASE_MOST << LEASE_TOKENS_SHIFT) | (u64.MAX_VALUE << LEASE_END_SHIFT)))
    | (tokens << LEASE_TOKENS_SHIFT);
}

/** How much a slot lacks, for who may be evicted: 0 if it has lapsed, else less than any bucket, since no limit is lost with it. */
export function leaseLack(word: u64, now: i64): f64 {
  return isLive(word, now) ? f64(tokensOf(word) + 1) / f64(1 << 40) : 0;
}

/** ns for which whoever asks holds the flag. */
// @ts-ignore: decorator
@inline
function holdNs(policy: usize): i64 {
  return i64(load<f64>(policy, POLICY_EXTRA));
}

/** The word of one who asks, with `tokens` left: it lapses when the flag does, or earlier if its tokens do. */
function asking(policy: usize, word: u64, tokens: u64, now: i64): u64 {
  const until = endAt(now + holdNs(policy));
  const end = word >> LEASE_END_SHIFT << LEASE_END_SHIFT;
  return (holding(word, tokens) & ~LEASE_TOLD) | LEASE_HELD | (tokens && end < until ? end : until);
}

/**
 * Leaves for whoever is to ask how the last deposit went: its size (0 if there was
 * none), the tokens that are left of it or lapsed with it, ns until its end (less
 * than 0 if that is past), and 1 if it was short or a pause.
 */
function leave(word: u64, tokens: u64, now: i64): void {
  store<f64>(lane, f64(tokens), LANE_REMAINING);
  store<f64>(lane, word >> LEASE_END_SHIFT ? f64(u64(1) << sizeOf(word)) : 0, LANE_TOKENS);
  store<f64>(lane, word & LEASE_TOLD ? 1 : 0, LANE_RETRY_NS);
  store<f64>(lane, f64(i64((word >> LEASE_END_SHIFT) << LEASE_STEP_SHIFT) - now), LANE_RESET_NS);
}

/**
 * Takes `cost` tokens of a key that are leased, or of the policy's global word if
 * `key` is 0: 1 if they were there, else 0; and LEASE_ASK is added if the caller
 * now holds the flag and is to ask for more. Counts refusals only if `countsRefusal`.
 */
export function takeLeased(policy: usize, key: u64, a: usize, b: usize, cost: u32, countsRefusal: i32, now: i64): i32 {
  let tries = -1;
  while (++tries <= PATIENCE) {
    const slot = key ? find(key, a, b) : policy + POLICY_GLOBAL - SLOT_STATE;
    if (!cost) return admitted(policy, 0);
    if (!slot) {
      const version = atomic.load<u32>(policy, POLICY_VERSION);
      const claimed = claim(policy, version, key, a, b, asking(policy, 0, 0, now), now, tries);
      if (claimed == CLAIM_AGAIN) continue;
      if (claimed == CLAIM_FULL) return countsRefusal || load<i32>(0, HEADER_WHEN_FULL) == ADMIT ? full(policy) : 0;
      leave(0, 0, now);
      return refused(policy, countsRefusal, LEASE_ASK);
    }
    const seen = atomic.load<u64>(slot, SLOT_STATE);
    if (key && atomic.load<u64>(slot) != key) continue;
    if ((seen & TAG_BITS) == BUSY) {
      yieldTo(policy, tries);
      continue;
    }
    const had = leftOf(seen, now);
    const isHeld = (seen & LEASE_HELD) != 0 && isLive(seen, now);
    const isThere = u64(cost) <= had;
    if (!isThere && isHeld) return refused(policy, countsRefusal, 0);
    const left = isThere ? had - cost : had;
    let next = seen - (u64(cost) << LEASE_TOKENS_SHIFT);
    let asks = 0;
    if (!isThere || (!isHeld && isTimeToAsk(policy, seen, left, now))) {
      next = asking(policy, seen, left, now);
      asks = LEASE_ASK;
    }
    if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) {
      if (asks) leave(seen, isLive(seen, now) ? left : tokensOf(seen), now);
      return isThere ? admitted(policy, asks) : refused(policy, countsRefusal, asks);
    }
    count(policy, STATS_CONTENDED);
  }
  return refused(policy, countsRefusal, 0);
}

/** True if little is left, of a deposit that was not short, and if that little does not lapse before the flag would. */
// @ts-ignore: decorator
@inline
function isTimeToAsk(policy: usize, word: u64, left: u64, now: i64): bool {
  return !left
    || (!(word & LEASE_TOLD) && left <= (u64(1) << sizeOf(word)) >> LOW_SHIFT && isLive(word, now + holdNs(policy)));
}

/** What a deposit is beside its tokens: short, */
export const LEASE_SHORT: i32 = 1;
/** or what keeps everybody from asking until its end. */
export const LEASE_PAUSE: i32 = 3;

/**
 * Adds `tokens` to the lane's key (or the global word), all of it to lapse at
 * `endMs`, and gives the flag back, but if it is a LEASE_PAUSE. Without tokens the
 * end of those that are left only moves nearer. Returns how many it added: none if
 * it found no room.
 */
export function deposit(policy: usize, mode: i32, tokens: u32, endMs: f64, as: i32, ms: f64): u32 {
  const now = nanoseconds(ms);
  let tries = -1;
  while (++tries <= PATIENCE) {
    const slot = target(policy, mode);
    const flags = as == LEASE_PAUSE ? LEASE_HELD | LEASE_TOLD : as == LEASE_SHORT ? LEASE_TOLD : 0;
    let end = endAt(i64(endMs * 1e6));
    if (!slot) {
      if (!tokens && !as) return 0;
      const version = atomic.load<u32>(policy, POLICY_VERSION);
      const added = min(u64(tokens), LEASE_MOST);
      const word = end | (added << LEASE_TOKENS_SHIFT) | flags | (sizeFor(added) << LEASE_SIZE_SHIFT);
      const claimed = claim(
        policy,
        version,
        load<u64>(lane, LANE_KEY),
        load<u32>(lane, LANE_SET_A),
        load<u32>(lane, LANE_SET_B),
        word,
        now,
        tries,
      );
      if (claimed == CLAIM_AGAIN) continue;
      return claimed == CLAIM_FULL ? 0 : u32(added);
    }
    const seen = atomic.load<u64>(slot, SLOT_STATE);
    if (!isOurs(slot, mode)) continue;
    if ((seen & TAG_BITS) == BUSY) {
      yieldTo(policy, tries);
      continue;
    }
    const size = sizeOf(seen);
    const kept = min(leftOf(seen, now), u64(1) << size);
    const added = min(u64(tokens), LEASE_MOST - kept);
    if (!added && kept) end = min(end, seen >> LEASE_END_SHIFT << LEASE_END_SHIFT);
    const next = end | ((kept + added) << LEASE_TOKENS_SHIFT) | flags
      | ((added ? sizeFor(added) : size) << LEASE_SIZE_SHIFT) | (seen & LEASE_SIDE);
    if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) return u32(added);
    count(policy, STATS_CONTENDED);
  }
  return 0;
}

/** Empties the lane's key (or the global word): the tokens that were left. */
export function takeBack(policy: usize, mode: i32, ms: f64): u32 {
  const now = nanoseconds(ms);
  let tries = -1;
  while (++tries <= PATIENCE) {
    const slot = target(policy, mode);
    if (!slot) return 0;
    const seen = atomic.load<u64>(slot, SLOT_STATE);
    if (!isOurs(slot, mode)) continue;
    if ((seen & TAG_BITS) == BUSY) {
      yieldTo(policy, tries);
      continue;
    }
    if (atomic.cmpxchg<u64>(slot, seen, seen & LEASE_SIDE, SLOT_STATE) == seen) return u32(leftOf(seen, now));
    count(policy, STATS_CONTENDED);
  }
  return 0;
}

/** Leaves what the lane's key (or the global word) has left, and ns until it lapses: LEASE_ASK if somebody asks for more just now, LEASE_PAUSE if nobody is to. */
export function leased(policy: usize, mode: i32, ms: f64): i32 {
  const now = nanoseconds(ms);
  const slot = target(policy, mode);
  let word: u64 = slot ? atomic.load<u64>(slot, SLOT_STATE) : 0;
  if (!slot || !isOurs(slot, mode) || (word & TAG_BITS) == BUSY || !isLive(word, now)) word = 0;
  leave(word, tokensOf(word), now);
  return word & LEASE_HELD ? (word & LEASE_TOLD ? LEASE_PAUSE : LEASE_ASK) : 0;
}

/** `takeLeased` for the lane's key, or the global word. */
export function takeKey(policy: usize, mode: i32, cost: u32, countsRefusal: i32, now: i64): i32 {
  if (mode & GLOBAL) return takeLeased(policy, 0, 0, 0, cost, countsRefusal, now);
  return takeLeased(
    policy,
    load<u64>(lane, LANE_KEY),
    load<u32>(lane, LANE_SET_A),
    load<u32>(lane, LANE_SET_B),
    cost,
    countsRefusal,
    now,
  );
}

/** The size of a deposit. */
// @ts-ignore: decorator
@inline
function sizeFor(tokens: u64): u64 {
  return tokens ? min(63 - clz(tokens), LEASE_SIZE_BITS) : 0;
}

// @ts-ignore: decorator
@inline
function admitted(policy: usize, asks: i32): i32 {
  count(policy, STATS_ALLOWED);
  return 1 | asks;
}

// @ts-ignore: decorator
@inline
function refused(policy: usize, counts: i32, asks: i32): i32 {
  if (counts) count(policy, STATS_DENIED);
  return asks;
}
