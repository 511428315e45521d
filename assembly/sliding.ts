// The sliding window counter: two windows' counts in one word.
//
//   word   window number | count of the window before | count of this window | tag 0 (2 bits)
//
// Both counts have COUNT bits (the piece's token shift), the number the rest.
// What the last window's length has seen is estimated as the present count and
// the share of the former one that still overlaps:
//
//   estimate = before x (W - elapsed) / W + present
//
// compared in whole numbers, 128 bits wide, so that boundaries are exact. (As
// Cloudflare describes, "How we built rate limiting capable of scaling to
// millions of domains", 2017.) It assumes that the former window's calls came
// evenly; docs/algorithms.md has the worst case.
//
// A reservation moves the word on to the window in which it acts; until then
// the word is ahead of the clock, and nobody else acts before.

import { highProduct, isCurrent, pieceOf, sinceStart, windowsIn } from "./clock";
import { ANSWER, answer, CONSUME, DEBT, full, giveUp, isOurs, LOOK_UP, LOST, target } from "./decide";
import {
  BUSY,
  FLAG_SHADOW,
  LANE_KEY,
  LANE_SET_A,
  LANE_SET_B,
  PIECE_BURST_TOKENS,
  PIECE_EXTRA,
  PIECE_FLAGS,
  PIECE_T0,
  PIECE_TOKEN_SHIFT,
  POLICY_VERSION,
  SLOT_STATE,
  STATS_ALLOWED,
  STATS_CONTENDED,
  STATS_DENIED,
  STATS_SHADOWED,
  TAG_BITS,
} from "./layout";
import { claim, CLAIM_AGAIN, CLAIM_FULL } from "./table";
import { count, lane, PATIENCE, yieldTo } from "./thread";

/** Windows are numbered from 1, so that a zero word is older than all. */
const FIRST_WINDOW: u64 = 1;

/** a x b <= c x d, 128 bits wide. */
function isProductAtMost(a: u64, b: u64, c: u64, d: u64): bool {
  const left = highProduct(a, b);
  const right = highProduct(c, d);
  return left < right || (left == right && a * b <= c * d);
}

/** Least elapsed ns at which `before` weighs no more than `room`; `window` if only the next window's start. */
function lightAt(before: u64, room: u64, window: u64): u64 {
  if (before <= room) return 0;
  // before x (W - e) <= room x W: the estimate by doubles is mended by one either way.
  let spent = u64(f64(room) * f64(window) / f64(before));
  if (spent > window) spent = window;
  while (spent && !isProductAtMost(before, spent, room, window)) spent--;
  while (spent < window && isProductAtMost(before, spent + 1, room, window)) spent++;
  return window - spent;
}

/** How much of its limit a word lacks at `now`: 0 is fresh. */
export function slidingLack(piece: usize, word: u64, now: i64): f64 {
  const bits = u64(load<u32>(piece, PIECE_TOKEN_SHIFT));
  const mask: u64 = (1 << bits) - 1;
  const window = load<u64>(piece, PIECE_EXTRA);
  const dt = u64(sinceStart(piece, now));
  const at = windowsIn(piece, dt) + FIRST_WINDOW;
  const number = word >> (2 * bits + 2);
  const present = (word >> 2) & mask;
  const limit = f64(max(1, load<u32>(piece, PIECE_BURST_TOKENS)));
  if (number + 1 < at) return 0;
  if (number + 1 == at) return f64(present) * f64(window - dt % window) / f64(window) / limit;
  const weight = number == at ? f64(window - dt % window) / f64(window) : 1;
  return (f64((word >> (bits + 2)) & mask) * weight + f64(present)) / limit;
}

/** Answers of `quickSliding` that are no word. */
export const SLIDING_REFUSED: u64 = 0;
export const SLIDING_RARE: u64 = 1;

/**
 * What a word becomes when `cost` is charged at `now`, for a call that will not
 * wait: SLIDING_REFUSED if it has no room, SLIDING_RARE if it is ahead of the
 * clock or not a plain word.
 */
export function quickSliding(piece: usize, word: u64, cost: u32, now: i64): u64 {
  const bits = u64(load<u32>(piece, PIECE_TOKEN_SHIFT));
  const mask: u64 = (1 << bits) - 1;
  const window = load<u64>(piece, PIECE_EXTRA);
  const dt = u64(now - load<i64>(piece, PIECE_T0));
  const windows = windowsIn(piece, dt);
  const present = windows + FIRST_WINDOW;
  const number = word >> (2 * bits + 2);
  if (number > present || word & TAG_BITS) return SLIDING_RARE;
  let former = (word >> (bits + 2)) & mask;
  let counted = (word >> 2) & mask;
  if (number != present) {
    former = number + 1 == present ? counted : 0;
    counted = 0;
  }
  const sum = counted + cost;
  const limit = u64(load<u32>(piece, PIECE_BURST_TOKENS));
  if (sum > limit) return SLIDING_REFUSED;
  if (former && !isProductAtMost(former, window - (dt - windows * window), limit - sum, window)) return SLIDING_REFUSED;
  return (present << (2 * bits + 2)) | (former << (bits + 2)) | (sum << 2);
}

export function decideSliding(policy: usize, mode: i32, cost: u32, now: i64, wait: i64): i32 {
  let tries = -1;
  while (true) {
    if (++tries > PATIENCE) return giveUp(policy);
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const bits = u64(load<u32>(piece, PIECE_TOKEN_SHIFT));
    const mask: u64 = (1 << bits) - 1;
    const window = load<u64>(piece, PIECE_EXTRA);
    const limit = u64(load<u32>(piece, PIECE_BURST_TOKENS));
    const flags = load<i32>(piece, PIECE_FLAGS);
    const dt = u64(sinceStart(piece, now));
    if (!isCurrent(policy, version)) continue;
    const present = windowsIn(piece, dt) + FIRST_WINDOW;
    const elapsed = dt - (present - FIRST_WINDOW) * window;

    const slot = target(policy, mode);
    if (slot == LOST) return LOOK_UP;
    let seen: u64 = 0;
    if (slot) {
      seen = atomic.load<u64>(slot, SLOT_STATE);
      if (!isOurs(slot, mode)) continue;
      if ((seen & TAG_BITS) == BUSY) {
        yieldTo(policy, tries);
        continue;
      }
    }
    // The word as it stands now, or at the start of the window that it is ahead in.
    let at = seen >> (2 * bits + 2);
    let former = (seen >> (bits + 2)) & mask;
    let counted = (seen >> 2) & mask;
    let from: u64 = 0;
    if (at <= present) {
      if (at != present) former = at + 1 == present ? counted : 0;
      if (at != present) counted = 0;
      at = present;
      from = elapsed;
    }

    // The first moment that has room: in this window, in the next, or in the one after.
    let act = at;
    let actElapsed = from;
    let actFormer = former;
    let actCounted = counted;
    const isNever = u64(cost) > limit;
    if (!isNever && !(mode & DEBT)) {
      let light = counted + cost <= limit ? lightAt(former, limit - counted - cost, window) : window;
      if (light == window) {
        act++;
        actFormer = counted;
        actCounted = 0;
        light = lightAt(counted, limit - cost, window);
        actElapsed = 0;
        if (light == window) {
          act++;
          actFormer = 0;
          light = 0;
        }
      }
      if (light > actElapsed) actElapsed = light;
    }
    const delay = i64((act - present) * window + actElapsed) - i64(elapsed);
    const isGranted = (mode & DEBT) != 0 || (!isNever && delay <= wait);

    if (isGranted && mode & CONSUME && cost) {
      const sum = actCounted + cost > mask ? mask : actCounted + cost;
      const next = (act << (2 * bits + 2)) | (actFormer << (bits + 2)) | (sum << 2);
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
          if (mode & ANSWER) answer(f64(limit), answered ? 0 : f64(window), 0, 0, 0);
          return answered;
        }
      } else if (atomic.cmpxchg<u64>(slot, seen, next, SLOT_STATE) != seen) {
        count(policy, STATS_CONTENDED);
        continue;
      }
      at = act;
      former = actFormer;
      counted = sum;
    }
    const isShadowed = !isGranted && (flags & FLAG_SHADOW) != 0;
    if (mode & CONSUME) {
      count(policy, isGranted || isShadowed ? STATS_ALLOWED : STATS_DENIED);
      if (isShadowed) count(policy, STATS_SHADOWED);
    }
    if (mode & ANSWER) {
      const weight = f64(at > present ? window : window - elapsed) / f64(window);
      const end = f64((at - present) * window) + f64(window - elapsed);
      answer(
        f64(i64(limit) - i64(counted)) - f64(former) * weight,
        isShadowed ? 0 : isNever ? Infinity : f64(delay),
        counted ? end + f64(window) : former ? end : 0,
        isShadowed ? 0 : f64(delay),
        isShadowed ? 0 : (((act - FIRST_WINDOW) * window + actElapsed) << 2) | 1,
      );
    }
    return i32(isGranted || isShadowed);
  }
}

/**
 * A word with `cost` taken out of the window in which it was counted: the one
 * of `act` if it is a cancel, else the present one and then the one before.
 */
export function restored(piece: usize, word: u64, cost: f64, act: u64): u64 {
  const bits = u64(load<u32>(piece, PIECE_TOKEN_SHIFT));
  const mask: u64 = (1 << bits) - 1;
  const number = word >> (2 * bits + 2);
  let former = (word >> (bits + 2)) & mask;
  let present = (word >> 2) & mask;
  let back = cost < f64(mask) * 2 ? u64(cost) : mask * 2;
  const from = act ? (act >> 2) / load<u64>(piece, PIECE_EXTRA) + FIRST_WINDOW : number;
  if (from == number) {
    const some = min(back, present);
    present -= some;
    back = act ? 0 : back - some;
  }
  if (!act || from + 1 == number) former -= min(back, former);
  return (number << (2 * bits + 2)) | (former << (bits + 2)) | (present << 2);
}

/** Whole ns until a reservation of a sliding window may act. */
export function untilSlidingAct(piece: usize, act: u64, now: i64): f64 {
  const left = load<i64>(piece, PIECE_T0) + i64(act >> 2) - now;
  return left > 0 ? f64(left) : 0;
}
