// The token bucket in one word.
//
// A key's word z is the virtual time at which its bucket is (or was) empty:
//
//   tokens = min(burst, v(now) - z)
//   admit  : next = max(z, v(now) - burst) + cost ;  ok if next <= v(horizon)
//
// That is GCRA (ITU-T I.371) with time counted in tokens, so that one clock a
// policy serves all its keys and a new rate is a new piece of that clock. An
// integer cost is added exactly; only reading the clock rounds, and that does
// not accumulate. A refusal writes nothing.
//
// The word of a slot is written by one swap by whoever decides; nobody holds
// anything while deciding, so a thread that stops here stops nobody else.

import {
  AHEAD_LIMIT, BUSY, FLAG_CUT_WAIT, FLAG_PAY_LATER, FLAG_UNLIMITED, HEADER_WHEN_FULL, ADMIT, LANE_ACT, LANE_DELAY_NS, LANE_KEY,
  LANE_REMAINING, LANE_RESET_NS, LANE_RETRY_NS, LANE_SET_A, LANE_SET_B, LANE_TOKENS, PIECE_BURST,
  PIECE_BURST_TOKENS, PIECE_FLAGS, PIECE_TOKEN_SHIFT, POLICY_GLOBAL, POLICY_VERSION, SLOT_STATE, STATS_ALLOWED,
  STATS_CONTENDED, STATS_DENIED, STATS_FULL_ALLOWED, STATS_FULL_DENIED, TAG_BITS,
} from "./layout";
import { isCurrent, nanoseconds, nanosecondsUntil, pieceOf, reading, translated, wholeNanosecondsUntil } from "./clock";
import { count, lane, yieldTo } from "./thread";
import { CLAIM_AGAIN, CLAIM_FULL, claim, find } from "./table";

/** Consume what is granted; else only look. */
export const CONSUME: i32 = 1;
/** Charge whatever the bucket holds, into debt if need be. */
export const DEBT: i32 = 2;
/** Grant also what can never act, because the rate is 0. */
export const EVEN_NEVER: i32 = 4;
/** The policy's global bucket instead of the key in the lane. */
export const GLOBAL: i32 = 8;

/**
 * The plain decision for a key, with all that is rare elsewhere: 1 admitted, 0
 * refused. A policy with flags goes the general way.
 */
export function allowKey(policy: usize, key: u64, a: usize, b: usize, cost: u32, ms: f64): i32 {
  const now = nanoseconds(ms);
  let tries = -1;
  while (true) {
    tries++;
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const v = reading(piece, now);
    const floor = v - load<u64>(piece, PIECE_BURST);
    const need = u64(cost) << load<i32>(piece, PIECE_TOKEN_SHIFT);
    const isTooMuch = cost > load<u32>(piece, PIECE_BURST_TOKENS);
    const flags = load<i32>(piece, PIECE_FLAGS);
    if (!isCurrent(policy, version)) continue;
    if (flags) {
      store<u64>(lane, key, LANE_KEY);
      store<u32>(lane, u32(a), LANE_SET_A);
      store<u32>(lane, u32(b), LANE_SET_B);
      return decide(policy, CONSUME, cost, ms, 0);
    }
    if (isTooMuch) break;
    const slot = find(key, a, b);
    if (!slot) {
      if (!cost) {
        count(policy, STATS_ALLOWED);
        return 1;
      }
      const claimed = claim(policy, key, a, b, floor + need, now, tries);
      if (claimed == CLAIM_AGAIN) continue;
      return claimed == CLAIM_FULL ? full(policy) : admitted(policy);
    }
    const seen = atomic.load<u64>(slot, SLOT_STATE);
    if (atomic.load<u64>(slot) != key) continue;
    let z = seen;
    if ((seen & TAG_BITS) != (v & TAG_BITS)) {
      if ((seen & TAG_BITS) == BUSY) {
        yieldTo(policy, tries);
        continue;
      }
      z = translated(piece, seen);
      if (!isCurrent(policy, version)) continue;
    }
    const next = (z > floor ? z : floor) + need;
    if (next > v) break;
    if (!cost) return admitted(policy);
    if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) == seen) return admitted(policy);
    count(policy, STATS_CONTENDED);
  }
  count(policy, STATS_DENIED);
  return 0;
}

/** The plain decision for the policy's global bucket. */
export function allowGlobal(policy: usize, cost: u32, ms: f64): i32 {
  const now = nanoseconds(ms);
  while (true) {
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const v = reading(piece, now);
    const floor = v - load<u64>(piece, PIECE_BURST);
    const need = u64(cost) << load<i32>(piece, PIECE_TOKEN_SHIFT);
    const isTooMuch = cost > load<u32>(piece, PIECE_BURST_TOKENS);
    const flags = load<i32>(piece, PIECE_FLAGS);
    const seen = atomic.load<u64>(policy, POLICY_GLOBAL);
    if (!isCurrent(policy, version)) continue;
    if (flags) return decide(policy, CONSUME | GLOBAL, cost, ms, 0);
    if (isTooMuch) break;
    let z = seen;
    if ((seen & TAG_BITS) != (v & TAG_BITS)) {
      z = translated(piece, seen);
      if (!isCurrent(policy, version)) continue;
    }
    const next = (z > floor ? z : floor) + need;
    if (next > v) break;
    if (!cost) return admitted(policy);
    if (atomic.cmpxchg<u64>(policy, seen, next, POLICY_GLOBAL) == seen) return admitted(policy);
    count(policy, STATS_CONTENDED);
  }
  count(policy, STATS_DENIED);
  return 0;
}

// @ts-ignore: decorator
@inline
function admitted(policy: usize): i32 {
  count(policy, STATS_ALLOWED);
  return 1;
}

/** A newcomer that found no room. */
function full(policy: usize): i32 {
  if (load<i32>(0, HEADER_WHEN_FULL) == ADMIT) {
    count(policy, STATS_FULL_ALLOWED);
    return admitted(policy);
  }
  count(policy, STATS_FULL_DENIED);
  count(policy, STATS_DENIED);
  return 0;
}

/** The slot that a general call works on: a global bucket's word looks like a slot's. */
// @ts-ignore: decorator
@inline
function target(policy: usize, mode: i32): usize {
  if (mode & GLOBAL) return policy + POLICY_GLOBAL - SLOT_STATE;
  return find(load<u64>(lane, LANE_KEY), load<u32>(lane, LANE_SET_A), load<u32>(lane, LANE_SET_B));
}

/** True if `slot` still belongs to the key in the lane. */
// @ts-ignore: decorator
@inline
function isOurs(slot: usize, mode: i32): bool {
  return (mode & GLOBAL) != 0 || atomic.load<u64>(slot) == load<u64>(lane, LANE_KEY);
}

/**
 * The general decision: 1 granted, 0 not. Works on the key in the lane or on
 * the global bucket, allows a wait of up to `maxWaitMs`, and leaves in the
 * lane: tokens and remaining after it, ns until a refused cost would conform
 * (0 if it does, Infinity never), ns until the bucket is full, ns until a
 * granted cost may act, and the virtual time at which it may (0 if nothing was
 * charged, so that there is nothing to cancel).
 */
export function decide(policy: usize, mode: i32, cost: u32, ms: f64, maxWaitMs: f64): i32 {
  const now = nanoseconds(ms);
  let tries = -1;
  while (true) {
    tries++;
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const v = reading(piece, now);
    const burst = load<u64>(piece, PIECE_BURST);
    const burstTokens = load<u32>(piece, PIECE_BURST_TOKENS);
    const shift = load<i32>(piece, PIECE_TOKEN_SHIFT);
    const flags = load<i32>(piece, PIECE_FLAGS);
    const wait = nanoseconds(maxWaitMs);
    const end = now > 0 && wait > i64.MAX_VALUE - 1 - now ? i64.MAX_VALUE - 1 : now + wait;
    let horizon = wait > 0 ? reading(piece, end) : v;
    if (flags & FLAG_CUT_WAIT) horizon = max(horizon, reading(piece, end + 1) - (TAG_BITS + 1));
    if (!isCurrent(policy, version)) continue;

    if (flags & FLAG_UNLIMITED) {
      if (mode & CONSUME) count(policy, STATS_ALLOWED);
      answer(f64(burst) / f64(u64(1) << shift), 0, 0, 0, 0);
      return 1;
    }

    const slot = target(policy, mode);
    let seen: u64 = 0;
    let z = v - burst;
    if (slot) {
      seen = atomic.load<u64>(slot, SLOT_STATE);
      if (!isOurs(slot, mode)) continue;
      if ((seen & TAG_BITS) == BUSY) {
        yieldTo(policy, tries);
        continue;
      }
      const word = (seen & TAG_BITS) == (v & TAG_BITS) ? seen : translated(piece, seen);
      if (!isCurrent(policy, version)) continue;
      if (word > z) z = word;
    }

    const most = AHEAD_LIMIT >> shift;
    let need = u64(cost) << shift;
    if (u64(cost) > most) need = AHEAD_LIMIT;
    let next = z + need;
    // Paying later, a cost waits for what others took, not for its own.
    const act = flags & FLAG_PAY_LATER ? z : next;
    let isGranted = act <= horizon || (maxWaitMs == Infinity && (mode & EVEN_NEVER) != 0);
    const isNever = !(flags & FLAG_PAY_LATER) && cost > burstTokens;
    if (isNever || next - v > AHEAD_LIMIT && next > v) isGranted = false;
    if (mode & DEBT) {
      isGranted = true;
      if (next > v && next - v > AHEAD_LIMIT) next = (v + AHEAD_LIMIT) & ~TAG_BITS | (v & TAG_BITS);
    }

    if (isGranted && mode & CONSUME && cost) {
      if (!slot) {
        const claimed = claim(policy, load<u64>(lane, LANE_KEY), load<u32>(lane, LANE_SET_A), load<u32>(lane, LANE_SET_B), next, now, tries);
        if (claimed == CLAIM_AGAIN) continue;
        if (claimed == CLAIM_FULL) {
          const answered = full(policy);
          answer(f64(burst) / f64(u64(1) << shift), answered ? 0 : nanosecondsUntil(piece, now, i64(burst)), 0, 0, 0);
          return answered;
        }
      } else if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) != seen) {
        count(policy, STATS_CONTENDED);
        continue;
      }
    }
    const after = isGranted && mode & CONSUME ? next : z;
    if (mode & CONSUME) count(policy, isGranted ? STATS_ALLOWED : STATS_DENIED);
    answer(
      f64(i64(v - after)) / f64(u64(1) << shift),
      isGranted && act <= v ? 0 : isNever ? Infinity : wholeNanosecondsUntil(piece, now, act),
      wholeNanosecondsUntil(piece, now, after + burst),
      nanosecondsUntil(piece, now, i64(act - v)),
      act > v ? act : v,
    );
    return i32(isGranted);
  }
}

function answer(tokens: f64, retryNs: f64, resetNs: f64, delayNs: f64, act: u64): void {
  store<f64>(lane, tokens, LANE_TOKENS);
  store<f64>(lane, max(0, floor(tokens)), LANE_REMAINING);
  store<f64>(lane, retryNs, LANE_RETRY_NS);
  store<f64>(lane, resetNs, LANE_RESET_NS);
  store<f64>(lane, delayNs, LANE_DELAY_NS);
  store<u64>(lane, act, LANE_ACT);
}

/**
 * Gives tokens back: 1 if some were. With `act` 0 it is a plain refund, which
 * fills the bucket at most. With the virtual time at which a reservation was
 * to act it is a cancel, which gives back what nobody has reserved behind it.
 */
export function restore(policy: usize, mode: i32, cost: f64, act: u64, ms: f64): i32 {
  const now = nanoseconds(ms);
  let tries = -1;
  while (true) {
    tries++;
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const v = reading(piece, now);
    const burst = load<u64>(piece, PIECE_BURST);
    const shift = load<i32>(piece, PIECE_TOKEN_SHIFT);
    const flags = load<i32>(piece, PIECE_FLAGS);
    const slot = target(policy, mode);
    if (!slot || flags & FLAG_UNLIMITED) return 0;
    const seen = atomic.load<u64>(slot, SLOT_STATE);
    if (!isOurs(slot, mode)) continue;
    if ((seen & TAG_BITS) == BUSY) {
      yieldTo(policy, tries);
      continue;
    }
    const word = (seen & TAG_BITS) == (v & TAG_BITS) ? seen : translated(piece, seen);
    const acted = !act || (act & TAG_BITS) == (v & TAG_BITS) ? act : translated(piece, act);
    if (!isCurrent(policy, version)) continue;
    const floor = v - burst;
    const z = word > floor ? word : floor;
    let back = cost * f64(u64(1) << shift) < f64(AHEAD_LIMIT) ? u64(cost) << shift : AHEAD_LIMIT;
    if (act && z > acted) back = z - acted < back ? back - (z - acted) : 0;
    if (back > z - floor) back = z - floor;
    if (!back) return 0;
    if (atomic.cmpxchg<u64>(slot, seen, z - back, SLOT_STATE) == seen) return 1;
    count(policy, STATS_CONTENDED);
  }
}

/** Makes the bucket hold `tokens` (fractions and debts too), at most its burst. */
export function setTokens(policy: usize, mode: i32, tokens: f64, ms: f64): void {
  const now = nanoseconds(ms);
  let tries = -1;
  while (true) {
    tries++;
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const v = reading(piece, now);
    const burst = load<u64>(piece, PIECE_BURST);
    const shift = load<i32>(piece, PIECE_TOKEN_SHIFT);
    const slot = target(policy, mode);
    if (!slot) return;
    const seen = atomic.load<u64>(slot, SLOT_STATE);
    if (!isOurs(slot, mode) || !isCurrent(policy, version)) continue;
    if ((seen & TAG_BITS) == BUSY) {
      yieldTo(policy, tries);
      continue;
    }
    let units: i64 = i64(nearest(tokens * f64(u64(1) << (shift - 2)))) << 2;
    if (tokens * f64(u64(1) << shift) >= f64(burst)) units = i64(burst);
    if (units < -i64(AHEAD_LIMIT)) units = -i64(AHEAD_LIMIT);
    if (atomic.cmpxchg<u64>(slot, seen, v - units, SLOT_STATE) == seen) return;
    count(policy, STATS_CONTENDED);
  }
}

/** Whole ns until a reservation with this virtual time may act under the present rate: 0 now, Infinity never. */
export function untilAct(policy: usize, actLow: u32, actHigh: u32, ms: f64): f64 {
  const act = (u64(actHigh) << 32) | u64(actLow);
  const now = nanoseconds(ms);
  while (true) {
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const isUnlimited = load<i32>(piece, PIECE_FLAGS) & FLAG_UNLIMITED;
    const tag = reading(piece, now) & TAG_BITS;
    const word = (act & TAG_BITS) == tag ? act : translated(piece, act);
    const ns = isUnlimited ? 0 : wholeNanosecondsUntil(piece, now, word);
    if (isCurrent(policy, version)) return ns;
  }
}
