// Decisions of the kinds whose keys live in lines.

import { isCurrent, pieceOf } from "./clock";
import { ANSWER, answer, CONSUME, full, giveUp, GLOBAL, HINTED, LOOK_UP } from "./decide";
import {
  FLAG_PARTS,
  FLAG_RING,
  FLAG_SHADOW,
  FLAG_UNLIMITED,
  LANE_KEY,
  LANE_LINE,
  LANE_SET_A,
  LANE_SLOT,
  PIECE_BURST_TOKENS,
  PIECE_FLAGS,
  POLICY_GLOBAL,
  POLICY_VERSION,
  STATS_ALLOWED,
  STATS_CONTENDED,
  STATS_DENIED,
  STATS_SHADOWED,
} from "./layout";
import { claimLine, clearLine, copyLine, findLine, lineOf, otherLineSet, swapLine } from "./line";
import { outAct, outDelayNs, outResetNs, outRetryNs, outTokens } from "./outcome";
import { decideParts, restoreParts } from "./parts";
import { decideRing, restoreRing } from "./ring";
import { CLAIM_AGAIN, CLAIM_FULL } from "./table";
import { count, lane, PATIENCE, yieldTo } from "./thread";
import { decideWarmUp, restoreWarmUp } from "./warmup";

const LINE_AGAIN: usize = 1;
const LINE_LOST: usize = 2;

/** Brings the line of the lane's key (or the global one) into the lane: its address, 0 if the key has none, or one of these. */
function fetch(policy: usize, mode: i32, tries: i32): usize {
  if (mode & GLOBAL) {
    const line = policy + POLICY_GLOBAL;
    if (copyLine(line)) return line;
    yieldTo(policy, tries);
    return LINE_AGAIN;
  }
  const key = load<u64>(lane, LANE_KEY);
  let slot = usize(load<u32>(lane, LANE_SLOT));
  if (!(mode & HINTED)) {
    const a = usize(load<u32>(lane, LANE_SET_A));
    slot = findLine(key, a, otherLineSet(a, key));
    store<u32>(lane, u32(slot), LANE_SLOT);
  } else if (atomic.load<u64>(slot) != key) {
    return LINE_LOST;
  }
  if (!slot) {
    clearLine();
    return 0;
  }
  const line = lineOf(slot);
  if (!copyLine(line)) {
    yieldTo(policy, tries);
    return LINE_AGAIN;
  }
  return atomic.load<u64>(slot) == key ? line : LINE_AGAIN;
}

export function decideLine(policy: usize, mode: i32, cost: u32, now: i64, wait: i64): i32 {
  let tries = -1;
  while (true) {
    if (++tries > PATIENCE) return giveUp(policy);
    const version = atomic.load<u32>(policy, POLICY_VERSION);
    const piece = pieceOf(policy, version);
    const flags = load<i32>(piece, PIECE_FLAGS);
    if (flags & FLAG_UNLIMITED) {
      if (mode & CONSUME) count(policy, STATS_ALLOWED);
      if (mode & ANSWER) answer(f64(load<u32>(piece, PIECE_BURST_TOKENS)), 0, 0, 0, 0);
      return 1;
    }
    const line = fetch(policy, mode, tries);
    if (line == LINE_AGAIN) continue;
    if (line == LINE_LOST) return LOOK_UP;
    const patience = flags & FLAG_SHADOW ? 0 : wait;
    const isGranted = flags & FLAG_RING
      ? decideRing(piece, mode, cost, now, patience)
      : flags & FLAG_PARTS
      ? decideParts(policy, mode, cost, now, patience)
      : decideWarmUp(piece, mode, cost, now, patience);
    if (!isCurrent(policy, version)) continue;
    if (isGranted && mode & CONSUME && cost) {
      if (line) {
        if (!swapLine(line)) {
          count(policy, STATS_CONTENDED);
          continue;
        }
      } else {
        const key = load<u64>(lane, LANE_KEY);
        const a = usize(load<u32>(lane, LANE_SET_A));
        const claimed = claimLine(policy, key, a, otherLineSet(a, key), now, tries);
        if (claimed == CLAIM_AGAIN) continue;
        if (claimed == CLAIM_FULL) {
          const answered = full(policy);
          if (mode & ANSWER) answer(f64(load<u32>(piece, PIECE_BURST_TOKENS)), answered ? 0 : 1e6, 0, 0, 0);
          return answered;
        }
      }
    }
    const isShadowed = !isGranted && (flags & FLAG_SHADOW) != 0;
    if (mode & CONSUME) {
      count(policy, isGranted || isShadowed ? STATS_ALLOWED : STATS_DENIED);
      if (isShadowed) count(policy, STATS_SHADOWED);
    }
    if (mode & ANSWER) {
      answer(outTokens, isShadowed ? 0 : outRetryNs, outResetNs, isShadowed ? 0 : outDelayNs, isShadowed ? 0 : outAct);
    }
    return i32(isGranted || isShadowed);
  }
}

/** As `restore`, for lines. */
export function restoreLine(policy: usize, mode: i32, cost: f64, act: u64, now: i64): i32 {
  let tries = -1;
  while (++tries <= PATIENCE) {
    const piece = pieceOf(policy, atomic.load<u32>(policy, POLICY_VERSION));
    const flags = load<i32>(piece, PIECE_FLAGS);
    const line = fetch(policy, mode, tries);
    if (line == LINE_AGAIN) continue;
    if (!line) return 0;
    const isAny = flags & FLAG_RING
      ? restoreRing(piece, cost, act)
      : flags & FLAG_PARTS
      ? restoreParts(policy, cost, act, now)
      : restoreWarmUp(piece, cost, act, now);
    if (!isAny) return 0;
    if (swapLine(line)) return 1;
    count(policy, STATS_CONTENDED);
  }
  return 0;
}

/** Makes the line that of a key never seen. */
export function resetLine(policy: usize, mode: i32): void {
  let tries = -1;
  while (++tries <= PATIENCE) {
    const line = fetch(policy, mode, tries);
    if (line == LINE_AGAIN) continue;
    if (!line) return;
    const word = load<i32>(lane, LANE_LINE);
    clearLine();
    store<i32>(lane, word, LANE_LINE);
    if (swapLine(line)) return;
    count(policy, STATS_CONTENDED);
  }
}
