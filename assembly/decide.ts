// The general decision: every kind of policy, every kind of question.

import { isCurrent, nanoseconds, nanosecondsUntil, pieceOf, reading, translated, wholeNanosecondsUntil } from "./clock";
import { decideLine } from "./decide-line";
import {
  ADMIT,
  AHEAD_LIMIT,
  BUSY,
  FLAG_CUT_WAIT,
  FLAG_LINE,
  FLAG_PAY_LATER,
  FLAG_QUEUE,
  FLAG_SHADOW,
  FLAG_SLIDING,
  FLAG_STEP,
  FLAG_UNLIMITED,
  HEADER_WHEN_FULL,
  LANE_ACT,
  LANE_DELAY_NS,
  LANE_KEY,
  LANE_REAL_MS,
  LANE_REMAINING,
  LANE_RESET_NS,
  LANE_RETRY_NS,
  LANE_SET_A,
  LANE_SET_B,
  LANE_SLOT,
  LANE_TAKEN,
  LANE_TOKENS,
  PIECE_BURST,
  PIECE_BURST_TOKENS,
  PIECE_EXTRA,
  PIECE_FLAGS,
  PIECE_TOKEN_SHIFT,
  POLICY_FLAGS,
  POLICY_GLOBAL,
  POLICY_VERSION,
  SLOT_STATE,
  STATS_ALLOWED,
  STATS_CONTENDED,
  STATS_DENIED,
  STATS_FULL_ALLOWED,
  STATS_FULL_DENIED,
  STATS_SHADOWED,
  TAG_BITS,
} from "./layout";
import { decideSliding } from "./sliding";
import { claim, CLAIM_AGAIN, CLAIM_FULL, find } from "./table";
import { count, lane, PATIENCE, yieldTo } from "./thread";

/** Consume what is granted; else only look. */
export const CONSUME: i32 = 1;
/** Charge whatever the bucket holds, into debt if need be. */
export const DEBT: i32 = 2;
/** Grant also what can never act, because the rate is 0. */
export const EVEN_NEVER: i32 = 4;
/** The policy's global bucket instead of the key in the lane. */
export const GLOBAL: i32 = 8;
/** Leave the whole answer in the lane, not only yes or no. */
export const ANSWER: i32 = 16;
/** Decide as of a time that is still to come; the lane has the present one. */
export const AS_OF: i32 = 64;
/** The lane's slot is where the key's was the last time. */
export const HINTED: i32 = 32;

/** A newcomer that found no room. */
export function full(policy: usize): i32 {
  if (load<i32>(0, HEADER_WHEN_FULL) == ADMIT) {
    count(policy, STATS_FULL_ALLOWED);
    count(policy, STATS_ALLOWED);
    return 1;
  }
  count(policy, STATS_FULL_DENIED);
  count(policy, STATS_DENIED);
  return 0;
}

/** A hinted slot that is another key's by now: the lane has no sets to look in. */
export const LOST: usize = 1;
/** The answer then. */
export const LOOK_UP: i32 = 2;

/** The slot that a general call works on, left in the lane: a global bucket's word looks like a slot's. */
// @ts-ignore: decorator
@inline
export function target(policy: usize, mode: i32): usize {
  if (mode & GLOBAL) return policy + POLICY_GLOBAL - SLOT_STATE;
  const key = load<u64>(lane, LANE_KEY);
  if (mode & HINTED) {
    const hint = usize(load<u32>(lane, LANE_SLOT));
    return atomic.load<u64>(hint) == key ? hint : LOST;
  }
  const slot = find(key, load<u32>(lane, LANE_SET_A), load<u32>(lane, LANE_SET_B));
  store<u32>(lane, u32(slot), LANE_SLOT);
  return slot;
}

/** True if `slot` still belongs to the key in the lane. */
// @ts-ignore: decorator
@inline
export function isOurs(slot: usize, mode: i32): bool {
  return (mode & GLOBAL) != 0 || atomic.load<u64>(slot) == load<u64>(lane, LANE_KEY);
}

/**
 * The general decision: 1 granted, 0 not. Works on the key in the lane or on
 * the global bucket, allows a wait of up to `maxWaitMs`, and leaves in the
 * lane, if it is to ANSWER: tokens and remaining after it, ns until a refused cost would conform
 * (0 if it does, Infinity never), ns until the bucket is full, ns until a
 * granted cost may act, the virtual time at which it may (0 if nothing was
 * charged, so that there is nothing to cancel), and what it took beside its
 * cost: tokens that would have overflowed until then.
 */
export function decide(policy: usize, mode: i32, cost: u32, ms: f64, maxWaitMs: f64): i32 {
  return decideAt(policy, mode, cost, nanoseconds(ms), nanoseconds(maxWaitMs));
}

/** The same in ns; a wait of i64.MAX_VALUE has no end. */
export function decideAt(policy: usize, mode: i32, cost: u32, now: i64, maxWait: i64): i32 {
  const kind = load<i32>(policy, POLICY_FLAGS);
  if (kind & FLAG_LINE) return decideLine(policy, mode, cost, now, maxWait);
  if (kind & FLAG_SLIDING) return decideSliding(policy, mode, cost, now, kind & FLAG_SHADOW ? 0 : maxWait);
  let tries = -1;
  while (true) {
    if (++tries > PATIENCE) return giveUp(policy);
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const v = reading(piece, now);
    const burst = load<u64>(piece, PIECE_BURST);
    const burstTokens = load<u32>(piece, PIECE_BURST_TOKENS);
    const shift = load<i32>(piece, PIECE_TOKEN_SHIFT);
    const flags = load<i32>(piece, PIECE_FLAGS);
    // A shadow never makes anybody wait.
    const wait = flags & FLAG_SHADOW ? 0 : maxWait;
    const end = now > 0 && wait > i64.MAX_VALUE - 1 - now ? i64.MAX_VALUE - 1 : now + wait;
    let horizon = wait > 0 ? reading(piece, end) : v;
    if (flags & FLAG_CUT_WAIT) horizon = max(horizon, reading(piece, end + 1) - (TAG_BITS + 1));
    if (flags & FLAG_QUEUE) horizon = min(horizon, v + load<u64>(piece, PIECE_EXTRA));
    if (!isCurrent(policy, version)) continue;

    if (flags & FLAG_UNLIMITED) {
      if (mode & CONSUME) count(policy, STATS_ALLOWED);
      if (mode & ANSWER) answer(f64(burst) / f64(u64(1) << shift), 0, 0, 0, 0);
      return 1;
    }

    const slot = target(policy, mode);
    if (slot == LOST) return LOOK_UP;
    let seen: u64 = 0;
    let z = v - burst;
    // Where the bucket stood in truth, if this is decided as of a later moment.
    const floor = mode & AS_OF ? reading(piece, nanoseconds(load<f64>(lane, LANE_REAL_MS))) - burst : z;
    let before = floor;
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
      before = max(word, floor);
    }

    const most = AHEAD_LIMIT >> shift;
    let need = u64(cost) << shift;
    if (u64(cost) > most) need = AHEAD_LIMIT;
    // A fixed window's cost never straddles two: what is left of one lapses.
    if (flags & FLAG_STEP && !(mode & DEBT) && z + need > v && need && need <= burst) {
      z = windowStart(z, need, v, burst);
    }
    let next = z + need;
    // Paying later, a cost waits for what others took, not for its own.
    const act = flags & FLAG_PAY_LATER ? z : next;
    let isGranted = act <= horizon || (maxWait == i64.MAX_VALUE && (mode & EVEN_NEVER) != 0);
    const isNever = !(flags & FLAG_PAY_LATER) && cost > burstTokens;
    if (isNever || next - v > AHEAD_LIMIT && next > v) isGranted = false;
    if (mode & DEBT) {
      isGranted = true;
      // A debt has a bound; a word that is beyond it already stays where it is.
      if (next > v && next - v > AHEAD_LIMIT) next = max(z, (v + AHEAD_LIMIT) & ~TAG_BITS | (v & TAG_BITS));
    }

    if (isGranted && mode & CONSUME && cost) {
      if (!slot) {
        const claimed = claim(
          policy,
          version,
          load<u64>(lane, LANE_KEY),
          load<u32>(lane, LANE_SET_A),
          load<u32>(lane, LANE_SET_B),
          next,
          now,
          tries,
        );
        if (claimed == CLAIM_AGAIN) continue;
        if (claimed == CLAIM_FULL) {
          const answered = full(policy);
          if (mode & ANSWER) {
            answer(
              f64(burst) / f64(u64(1) << shift),
              answered ? 0 : nanosecondsUntil(piece, now, v, v + burst),
              0,
              0,
              0,
            );
          }
          return answered;
        }
      } else if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) != seen) {
        count(policy, STATS_CONTENDED);
        continue;
      }
    }
    const after = isGranted && mode & CONSUME ? next : z;
    const isShadowed = !isGranted && (flags & FLAG_SHADOW) != 0;
    if (mode & CONSUME) {
      count(policy, isGranted || isShadowed ? STATS_ALLOWED : STATS_DENIED);
      if (isShadowed) count(policy, STATS_SHADOWED);
    }
    if (mode & ANSWER) {
      store<f64>(lane, f64(i64(next - before)) / f64(u64(1) << shift), LANE_TAKEN);
      const isPast = isShadowed || isGranted && act <= v;
      answer(
        (v >= after ? f64(v - after) : -f64(after - v)) / f64(u64(1) << shift),
        isPast ? 0 : isNever ? Infinity : wholeNanosecondsUntil(piece, now, act),
        wholeNanosecondsUntil(piece, now, after + burst),
        isPast ? 0 : flags & FLAG_STEP ? wholeNanosecondsUntil(piece, now, act) : nanosecondsUntil(piece, now, v, act),
        isShadowed ? 0 : act > v ? act : v,
      );
    }
    return i32(isGranted || isShadowed);
  }
}

/** The answer of a call that has lost its patience: not now. */
export function giveUp(policy: usize): i32 {
  count(policy, STATS_DENIED);
  answer(0, 1e6, 0, 1e6, 0);
  return 0;
}

/** Where a cost of `need` may begin at or after z: in z's own window if it fits, else in the next. */
function windowStart(z: u64, need: u64, v: u64, burst: u64): u64 {
  const end = z > v ? v + (z - v + burst - 1) / burst * burst : v;
  return z + need <= end ? z : end;
}

/** Leaves an answer in the lane. */
export function answer(tokens: f64, retryNs: f64, resetNs: f64, delayNs: f64, act: u64): void {
  store<f64>(lane, tokens, LANE_TOKENS);
  store<f64>(lane, max(0, floor(tokens)), LANE_REMAINING);
  store<f64>(lane, retryNs, LANE_RETRY_NS);
  store<f64>(lane, resetNs, LANE_RESET_NS);
  store<f64>(lane, delayNs, LANE_DELAY_NS);
  store<u64>(lane, act, LANE_ACT);
}
