// Leased tokens: taken, deposited, taken back (words/lease.ts has the word).
//
// A thread that decides writes the word by one swap, and a refusal writes nothing
// but the flag, by the thread that is to ask: an answer with LEASE_ASK in it.

import { Declaration, Policy, POLICY_DECLARATION, POLICY_GLOBAL, versionOf } from "../layout/policy";
import { BUSY, SIDE_BITS, SLOT_STATE } from "../layout/slots";
import { ADMIT, header } from "../layout/table";
import { Counters } from "../layout/thread";
import { admitted, full, GLOBAL, refused } from "../question";
import { claim, CLAIM_AGAIN, CLAIM_FULL } from "../table/claim";
import { find, keyIn, see, target } from "../table/slots";
import { count, PATIENCE, scratch } from "../thread";
import { nanoseconds } from "../words/clock";
import { addedTo, asking, depositIn, endIn, isLive, isTimeToAsk, LEASE_HELD, LEASE_IS_SHORT } from "../words/lease";
import { LEASE_SIDE, leaseAfterDeposit, leasedTokens, leaseWithout, leftIn } from "../words/lease";

/** In an answer of `takeLeased`: the caller is the one who asks now, and is to ask for more. */
export const LEASE_ASK: i32 = 2;
/** What a deposit is besides its tokens: short, */
export const LEASE_SHORT: i32 = 1;
/** or what keeps every thread from asking until its end. */
export const LEASE_PAUSE: i32 = 3;

/** Nanoseconds for which the thread that asks holds the flag. */
@inline
function holdNsOf(policy: Policy): i64 {
  return i64(changetype<Declaration>(changetype<usize>(policy) + POLICY_DECLARATION).extra);
}

/**
 * Leaves for the thread that asks how the last deposit went: its size (0 if there
 * was none), the tokens that are left of it or lapsed with it, ns until its end
 * (less than 0 if that is past), and 1 if it was short or a pause.
 */
function leaveLease(word: u64, tokens: u64, now: i64): void {
  const answer = scratch();
  answer.remaining = f64(tokens);
  answer.tokens = f64(depositIn(word));
  answer.retryNs = word & LEASE_IS_SHORT ? 1 : 0;
  answer.resetNs = f64(endIn(word) - now);
}

@inline
function refusedIf(policy: Policy, counts: i32, answer: i32): i32 {
  if (counts) refused(policy);
  return answer;
}

/**
 * Takes `cost` tokens of a key that are leased, or of the policy's global word if
 * `key` is 0: 1 if they were there, else 0; and LEASE_ASK is added if the caller
 * is to ask for more. Counts refusals only if `countsRefusal`.
 */
export function takeLeased(policy: Policy, key: u64, a: usize, b: usize, cost: u32, countsRefusal: i32, now: i64): i32 {
  const holdNs = holdNsOf(policy);
  for (let tries = 0; tries <= PATIENCE; tries++) {
    const slot = key ? find(key, a, b) : changetype<usize>(policy) + POLICY_GLOBAL - SLOT_STATE;
    if (!cost) return admitted(policy);
    if (!slot) {
      const claimed = claim(policy, versionOf(policy), key, a, b, asking(0, 0, holdNs, now), now, tries);
      if (claimed == CLAIM_AGAIN) continue;
      if (claimed == CLAIM_FULL) return countsRefusal || header().whenFull == ADMIT ? full(policy) : 0;
      leaveLease(0, 0, now);
      return refusedIf(policy, countsRefusal, LEASE_ASK);
    }
    const seen = see(policy, slot, key, tries);
    if ((seen & SIDE_BITS) == BUSY) continue;
    const had = leftIn(seen, now);
    const isHeld = (seen & LEASE_HELD) != 0 && isLive(seen, now);
    const isThere = u64(cost) <= had;
    if (!isThere && isHeld) return refusedIf(policy, countsRefusal, 0);
    const left = isThere ? had - cost : had;
    const asks = !isThere || (!isHeld && isTimeToAsk(seen, left, holdNs, now));
    const next = asks ? asking(seen, left, holdNs, now) : leaseWithout(seen, cost);
    if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) {
      if (asks) leaveLease(seen, isLive(seen, now) ? left : leasedTokens(seen), now);
      const answer = asks ? LEASE_ASK : 0;
      return isThere ? admitted(policy) | answer : refusedIf(policy, countsRefusal, answer);
    }
    count(policy, offsetof<Counters>("contended"));
  }
  return refusedIf(policy, countsRefusal, 0);
}

/** `takeLeased` for the scratch's key, or the global word. */
export function takeKey(policy: Policy, mode: i32, cost: u32, countsRefusal: i32, now: i64): i32 {
  if (mode & GLOBAL) return takeLeased(policy, 0, 0, 0, cost, countsRefusal, now);
  const own = scratch();
  return takeLeased(policy, own.key, own.setA, own.setB, cost, countsRefusal, now);
}

/**
 * Adds `tokens` to the scratch's key (or the global word), all of it to lapse at
 * `endMs`, and gives the flag back, unless it is a LEASE_PAUSE. Without tokens the
 * end of those that are left only moves nearer. Returns how many it added: none if
 * it found no room.
 */
export function deposit(policy: Policy, mode: i32, tokens: u32, endMs: f64, as: i32, ms: f64): u32 {
  const now = nanoseconds(ms);
  const endNs = i64(endMs * 1e6);
  const flags = as == LEASE_PAUSE ? LEASE_HELD | LEASE_IS_SHORT : as == LEASE_SHORT ? LEASE_IS_SHORT : 0;
  for (let tries = 0; tries <= PATIENCE; tries++) {
    const slot = target(policy, mode);
    if (!slot && !tokens && !as) return 0;
    const seen = see(policy, slot, keyIn(mode), tries);
    if ((seen & SIDE_BITS) == BUSY) continue;
    const next = leaseAfterDeposit(seen, tokens, endNs, flags, now);
    const added = u32(addedTo(seen, tokens, now));
    if (!slot) {
      const own = scratch();
      const claimed = claim(policy, versionOf(policy), own.key, own.setA, own.setB, next, now, tries);
      if (claimed == CLAIM_AGAIN) continue;
      return claimed == CLAIM_FULL ? 0 : added;
    }
    if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) return added;
    count(policy, offsetof<Counters>("contended"));
  }
  return 0;
}

/** Empties the scratch's key (or the global word): the tokens that were left. */
export function takeBack(policy: Policy, mode: i32, ms: f64): u32 {
  const now = nanoseconds(ms);
  for (let tries = 0; tries <= PATIENCE; tries++) {
    const slot = target(policy, mode);
    if (!slot) return 0;
    const seen = see(policy, slot, keyIn(mode), tries);
    if ((seen & SIDE_BITS) == BUSY) continue;
    if (atomic.cmpxchg<u64>(slot, seen, seen & LEASE_SIDE, SLOT_STATE) == seen) return u32(leftIn(seen, now));
    count(policy, offsetof<Counters>("contended"));
  }
  return 0;
}

/**
 * Leaves what the scratch's key (or the global word) has left, and ns until it lapses: LEASE_ASK if a
 * thread asks for more just now, LEASE_PAUSE if none is to.
 */
export function leased(policy: Policy, mode: i32, ms: f64): i32 {
  const now = nanoseconds(ms);
  const slot = target(policy, mode);
  let word: u64 = slot ? see(policy, slot, keyIn(mode), 0) : 0;
  if ((word & SIDE_BITS) == BUSY || !isLive(word, now)) word = 0;
  leaveLease(word, leasedTokens(word), now);
  return word & LEASE_HELD ? (word & LEASE_IS_SHORT ? LEASE_PAUSE : LEASE_ASK) : 0;
}
