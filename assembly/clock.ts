// The virtual clock of a policy: how many tokens have flowed until now.
//
//   v(now) = v0 + round((now - t0) x rate)
//
// It counts in units of 2^-TOKEN_SHIFT tokens, four at a time: the low two bits
// of a reading are the policy's tag, so that readings, words and differences
// need no masking. A burst or a cost is a multiple of 4 units.
//
// A piece is read with plain loads between two atomic loads of the version. An
// atomic one costs bounds and alignment checks in V8, and would not help: the
// piece in force is written again only after the version has moved on and a
// whole further piece has been computed, ages after any load in flight is done.
//
// The product has up to 128 bits: (dt << PRE_SHIFT) x MULTIPLIER, whose high
// half, rounded to the nearest multiple of 4, is what has flowed. MULTIPLIER is
// exact to an eighth of a multiple over 30 years, so that exact boundaries (0.1 s
// at 10/s = 1 token) come out exact. PRE_SHIFT is the same for every policy
// without flags: a constant is quick.

import {
  AHEAD_LIMIT,
  FLAG_STEP,
  HEADER_CLOCK_NS,
  OLDER_BYTES,
  OLDER_FRESH,
  OLDER_FROM,
  OLDER_SHIFT,
  PIECE_BURST,
  PIECE_BYTES,
  PIECE_DT_LIMIT,
  PIECE_EXTRA,
  PIECE_FLAGS,
  PIECE_GENERATION,
  PIECE_MULTIPLIER,
  PIECE_NS_A_UNIT,
  PIECE_OLDER,
  PIECE_PRE_SHIFT,
  PIECE_T0,
  PIECE_V0,
  PIECE_WINDOW_SHIFT,
  POLICY_BYTES,
  POLICY_PIECE,
  POLICY_VERSION,
  QUICK_FLAGS,
  QUICK_PRE_SHIFT,
  STEP_SHIFT,
  TAG_BITS,
  V_START,
} from "./layout";

/**
 * Whole nanoseconds of a time in milliseconds since the table's epoch, which is
 * not before it; saturates. Adding a half is 8 cycles shorter than `nearest`;
 * from 2^52 ns (52 days) on a double has no halves and the sum would round up.
 */
// @ts-ignore: decorator
@inline
export function nanoseconds(ms: f64): i64 {
  return i64(ms * 1e6 + (ms < 4503599627.0 ? 0.5 : 0.0));
}

/** A hot call's time: that of the table's clock cell if it is negative. */
// @ts-ignore: decorator
@inline
export function moment(ms: f64): i64 {
  return ms < 0 ? load<i64>(0, HEADER_CLOCK_NS) : nanoseconds(ms);
}

/** The piece that is in force under `version`. */
// @ts-ignore: decorator
@inline
export function pieceOf(policy: usize, version: u32): usize {
  return policy + POLICY_PIECE + usize(version & 1) * PIECE_BYTES;
}

/** The policy whose record holds a piece. */
// @ts-ignore: decorator
@inline
export function policyOf(piece: usize): usize {
  return piece & ~(POLICY_BYTES - 1);
}

// @ts-ignore: decorator
@inline
export function isCurrent(policy: usize, version: u32): bool {
  return atomic.load<u32>(policy, POLICY_VERSION) == version;
}

/** The high half of a x b. */
// @ts-ignore: decorator
@inline
export function highProduct(a: u64, b: u64): u64 {
  const a0 = a & 0xffffffff, a1 = a >> 32;
  const b0 = b & 0xffffffff, b1 = b >> 32;
  const middle = a1 * b0 + ((a0 * b0) >> 32);
  return a1 * b1 + (middle >> 32) + ((a0 * b1 + (middle & 0xffffffff)) >> 32);
}

/** Nanoseconds since t0: none before it, no more than the clock's life. */
// @ts-ignore: decorator
@inline
export function sinceStart(piece: usize, now: i64): i64 {
  const limit = load<i64>(piece, PIECE_DT_LIMIT);
  let dt = now - load<i64>(piece, PIECE_T0);
  dt = dt < 0 ? 0 : dt;
  return dt > limit ? limit : dt;
}

/** The reading v(now) of a clock that flows steadily, as one without flags does. */
function flowing(piece: usize, now: i64): u64 {
  const high = highProduct(
    u64(sinceStart(piece, now)) << load<i32>(piece, PIECE_PRE_SHIFT),
    load<u64>(piece, PIECE_MULTIPLIER),
  );
  return load<u64>(piece, PIECE_V0) + ((high + 2) & ~TAG_BITS);
}

/** True from t0 on, for as long as the clock lasts: one comparison sees both ends. */
// @ts-ignore: decorator
@inline
export function isWithinLife(piece: usize, now: i64): bool {
  return u64(now - load<i64>(piece, PIECE_T0)) <= load<u64>(piece, PIECE_DT_LIMIT);
}

/**
 * True if a hot call may use `quickReading`: no flags that matter to it, and a
 * time within the clock's life. What is rare goes the general way.
 */
// @ts-ignore: decorator
@inline
export function isQuick(piece: usize, now: i64): bool {
  return isWithinLife(piece, now) && !(load<i32>(piece, PIECE_FLAGS) & ~QUICK_FLAGS);
}

/** As `reading`, when `isQuick`. */
// @ts-ignore: decorator
@inline
export function quickReading(piece: usize, now: i64): u64 {
  const dt = u64(now - load<i64>(piece, PIECE_T0));
  if (load<i32>(piece, PIECE_FLAGS) & FLAG_STEP) {
    return load<u64>(piece, PIECE_V0) + windowsIn(piece, dt) * load<u64>(piece, PIECE_BURST);
  }
  const high = highProduct(dt << QUICK_PRE_SHIFT, load<u64>(piece, PIECE_MULTIPLIER));
  return load<u64>(piece, PIECE_V0) + ((high + 2) & ~TAG_BITS);
}

/**
 * Whole windows in `dt` ns. A 64-bit division takes longer than all the rest of
 * a decision; the multiplier, 2^(64 + shift) / window rounded down, gives a
 * quotient that is exact or 1 too small.
 */
// @ts-ignore: decorator
@inline
export function windowsIn(piece: usize, dt: u64): u64 {
  const windows = highProduct(dt, load<u64>(piece, PIECE_MULTIPLIER)) >> load<i32>(piece, PIECE_WINDOW_SHIFT);
  const window = load<u64>(piece, PIECE_EXTRA);
  return dt - windows * window >= window ? windows + 1 : windows;
}

/** The reading v(now) of any clock. One that flows in steps gains a burst a window. */
export function reading(piece: usize, now: i64): u64 {
  if (load<i32>(piece, PIECE_FLAGS) & FLAG_STEP) {
    return load<u64>(piece, PIECE_V0) + windowsIn(piece, u64(sinceStart(piece, now))) * load<u64>(piece, PIECE_BURST);
  }
  return flowing(piece, now);
}

/** Nanoseconds until the clock, which reads v, reads `target`: 0 at once, Infinity never. */
export function nanosecondsUntil(piece: usize, now: i64, v: u64, target: u64): f64 {
  if (target <= v) return 0;
  // A clock that has not begun yet waits for its beginning first.
  return f64(target - v) * load<f64>(piece, PIECE_NS_A_UNIT) + f64(max(0, load<i64>(piece, PIECE_T0) - now));
}

/**
 * Whole nanoseconds until the clock reads `target` or more. The estimate is
 * good to a part in 2^52; the clock itself decides about the last nanosecond,
 * so that whoever waits exactly so long does conform.
 */
export function wholeNanosecondsUntil(piece: usize, now: i64, target: u64): f64 {
  const v = reading(piece, now);
  if (v >= target) return 0;
  if (load<i32>(piece, PIECE_FLAGS) & FLAG_STEP) {
    const step = load<u64>(piece, PIECE_BURST);
    if (!step) return Infinity;
    const windows = (v - load<u64>(piece, PIECE_V0)) / step + (target - v + step - 1) / step;
    return f64(load<i64>(piece, PIECE_T0) + i64(windows * load<u64>(piece, PIECE_EXTRA)) - now);
  }
  let wait = ceil(nanosecondsUntil(piece, now, v, target));
  if (wait > 9e18) return Infinity;
  let back = wait - 1;
  if (back >= 0 && reading(piece, now + i64(back)) >= target) wait = back;
  for (let i = 0; i < 4 && reading(piece, now + i64(wait)) < target; i++) wait += 1 + floor(wait * 2.3e-16);
  return wait;
}

/** The tag of a piece: which of three scales its words are in. */
export function tagOf(piece: usize): u64 {
  return u64(load<u32>(piece, PIECE_GENERATION) % 3);
}

/**
 * A word written under an older tag, in the units of this piece: by one change of
 * scale or by two. 0 is fresh under every tag.
 */
export function translated(piece: usize, word: u64): u64 {
  const tag = tagOf(piece);
  const z = word & ~TAG_BITS;
  if (!z) return tag;
  const turns = (i32(tag) - i32(word & TAG_BITS) + 3) % 3;
  if (!turns) return word;
  const newer = piece + PIECE_OLDER;
  if (load<i32>(piece, PIECE_FLAGS) & FLAG_STEP) {
    const limit = u64(load<u32>(newer, OLDER_SHIFT)) << STEP_SHIFT;
    const between = turns == 2 ? relimited(newer + OLDER_BYTES, z, limit) : z;
    return relimited(newer, between, load<u64>(piece, PIECE_BURST)) | tag;
  }
  return rescaled(newer, turns == 2 ? rescaled(newer + OLDER_BYTES, z) : z) | tag;
}

/**
 * A word of a fixed window, without its tag, across one change of its limit, when
 * the window's end stood at `from`. What was used stays used, in this window and in
 * those that are reserved, up to the new limit: a window neither passes it nor
 * leaves a debt to the next.
 */
function relimited(older: usize, z: u64, limit: u64): u64 {
  const from = load<u64>(older, OLDER_FROM);
  const former = u64(load<u32>(older, OLDER_SHIFT)) << STEP_SHIFT;
  // This window's end moves with its limit.
  const end = from + limit - former;
  if (z <= from || !former) return min(z, end);
  const windows = (z - from - 1) / former;
  return end + windows * limit + min(z - from - windows * former, limit);
}

/**
 * A word without its tag across one change of scale, at which the clock read
 * `from` in the older units and V_START in the newer ones. Rounded so that a key
 * never gains.
 */
function rescaled(older: usize, z: u64): u64 {
  if (!z || load<i32>(older, OLDER_FRESH)) return 0;
  const from = load<u64>(older, OLDER_FROM);
  const shift = load<i32>(older, OLDER_SHIFT);
  const isAhead = z > from;
  let distance = isAhead ? z - from : from - z;
  if (shift >= 0) distance = distance > AHEAD_LIMIT >> shift ? AHEAD_LIMIT : distance << shift;
  else distance = (distance + (isAhead ? (1 << u64(-shift)) - 1 : 0)) >> u64(-shift);
  if (isAhead) return V_START + ((distance + TAG_BITS) & ~TAG_BITS);
  // As long ago as a word can say: full, but not as one never seen.
  return distance >= V_START ? TAG_BITS + 1 : V_START - (distance & ~TAG_BITS);
}
