// Scales: how a policy's rate and burst become the numbers of its clock.
//
// A word has 62 bits of virtual time (see assembly/clock.ts). A policy whose
// keys fill a table gets as fine a scale as leaves its clock 30 years; one
// that has only its global bucket may be finer, since its clock can be wound
// back whenever it runs high. All of it is exact: BigInt, and a rate's double
// taken as the fraction it is. This runs when a policy is made or changed,
// never in a decision.

const THIRTY_YEARS_NS = 946_728_000n * 1_000_000_000n;
const WORD_LIMIT = (1n << 64n) - (1n << 60n);
/** Finest scale: 2^-40 tokens. */
const FINEST = 40;
/** Scale of a policy that has only its global bucket: about 1e-9 tokens. */
const GLOBAL_SCALE = 30;

/** Pre-shift of a clock that gains less than 4 units a nanosecond, and the binary places of its multiplier. */
const QUICK_PRE_SHIFT = 4;
const MOST_K = 62;

/** A change of scale, as words across it translate; see `rescaled` in assembly/clock.ts. */
export interface Older {
  from: bigint;
  shift: number;
  isFresh: boolean;
}

export interface Limits {
  /** Tokens per second. */
  rate: number;
  /** Tokens; whole ones, but for Guava's. */
  burst: number;
  /** A window's length in ns, or the tokens that a queue may hold; 0 for other kinds. */
  extra: number;
}

/** One piece of a policy's clock, as its record holds it. */
export interface Piece {
  limits: Limits;
  v0: bigint;
  t0: bigint;
  multiplier: bigint;
  burst: bigint;
  dtLimit: bigint;
  nsAUnit: number;
  preShift: number;
  windowShift: number;
  tokenShift: number;
  burstTokens: number;
  flags: number;
  /** How often the scale changed; the tag of its words is the rest by 3. */
  generation: number;
  older: [Older, Older];
  /** A window in ns, or a queue in units. */
  extra: bigint;
}

/** The numbers of the kernel that scales depend on. */
export interface ScaleLimits {
  vStart: bigint;
  burstLimit: bigint;
  unlimitedFlag: number;
  stepFlag: number;
  slidingFlag: number;
  lineFlag: number;
  warmUpFlag: number;
}

/** A finite double > 0 as mantissa x 2^exponent. */
function fraction(value: number): { mantissa: bigint; exponent: number } {
  const bits = new BigUint64Array(Float64Array.of(value).buffer)[0];
  const biased = Number((bits >> 52n) & 0x7ffn);
  const low = bits & ((1n << 52n) - 1n);
  return biased ? { mantissa: low | (1n << 52n), exponent: biased - 1075 } : { mantissa: low, exponent: -1074 };
}

/** round(mantissa x 2^power / divisor) */
function scaled(mantissa: bigint, power: number, divisor: bigint): bigint {
  const up = power > 0 ? mantissa << BigInt(power) : mantissa;
  const by = power < 0 ? divisor << BigInt(-power) : divisor;
  return (2n * up + by) / (2n * by);
}

/** value x 2^by, rounded down. */
function shifted(value: bigint, by: number): bigint {
  return by >= 0 ? value << BigInt(by) : value >> BigInt(-by);
}

function unitsOf(tokens: number, tokenShift: number): bigint {
  if (tokens === 0) return 0n;
  const { mantissa, exponent } = fraction(tokens);
  // Words count in multiples of 4 units.
  return scaled(mantissa, exponent + tokenShift - 2, 1n) << 2n;
}

/** Fraction bits of a token under the finest scale that fits. */
function idealScale({ rate, burst, extra }: Limits, isGlobalOnly: boolean): number {
  const byBurst = 56 - Math.ceil(Math.log2(Math.max(1, burst, extra)));
  if (isGlobalOnly) return Math.min(GLOBAL_SCALE, byBurst);
  // Below 4 units a nanosecond, so that the clock lasts 30 years and its shifts are constant.
  const byRate = rate === 0 || rate === Infinity ? FINEST : Math.ceil(Math.log2(4e9 / rate)) - 1;
  return Math.min(FINEST, byBurst, byRate);
}

/** The rate's part of a piece, at `scale` fraction bits and from a clock that reads v0. */
function flow(
  rate: number,
  scale: number,
  v0: bigint,
): Pick<Piece, "multiplier" | "dtLimit" | "nsAUnit" | "preShift" | "windowShift"> {
  if (rate === 0 || rate === Infinity) {
    return {
      multiplier: 0n,
      dtLimit: THIRTY_YEARS_NS,
      nsAUnit: rate === 0 ? Infinity : 0,
      preShift: QUICK_PRE_SHIFT,
      windowShift: 0,
    };
  }
  const { mantissa, exponent } = fraction(rate);
  // multiplier x 2^-k multiples of 4 units flow in a nanosecond.
  const flowing = (k: number): bigint => scaled(mantissa, exponent + scale + k, 1_000_000_000n);
  let k = MOST_K;
  while (flowing(k) >> 64n) k--;
  const multiplier = flowing(k);
  const preShift = QUICK_PRE_SHIFT + MOST_K - k;
  const life = shifted(WORD_LIMIT - v0, k - 2) / multiplier;
  const dtLimit = [life, THIRTY_YEARS_NS, (1n << BigInt(64 - preShift)) - 1n].reduce((a, b) => (a < b ? a : b));
  return { multiplier, dtLimit, nsAUnit: 1e9 / rate / 2 ** (scale + 2), preShift, windowShift: 0 };
}

function burstOf(burst: number, scale: number, limits: ScaleLimits): Pick<Piece, "burst" | "burstTokens"> {
  const units = unitsOf(burst, scale + 2);
  return { burst: units < limits.burstLimit ? units : limits.burstLimit, burstTokens: Math.floor(burst) };
}

function flagged(flags: number, rate: number, limits: ScaleLimits): number {
  return rate === Infinity ? flags | limits.unlimitedFlag : flags & ~limits.unlimitedFlag;
}

/** Bits of each count of a sliding window's word, as its window numbers for 30 years leave them. */
export function countBits(windowNs: number): number {
  const windows = THIRTY_YEARS_NS / BigInt(windowNs) + 4n;
  return Math.min(31, Math.floor((62 - windows.toString(2).length) / 2));
}

/** Largest limit of a fixed window whose clock lasts 30 years. */
export function mostAWindow(windowNs: number, limits: ScaleLimits): number {
  const most = (WORD_LIMIT - limits.vStart) / 4n / (THIRTY_YEARS_NS / BigInt(windowNs) + 1n);
  return most < 2n ** 31n - 1n ? Number(most) : 2 ** 31 - 1;
}

/** floor(2^(64 + shift) / window), with as many bits as fit: how the kernel divides by a window. */
function inverse(window: bigint): { multiplier: bigint; windowShift: number } {
  const windowShift = window.toString(2).length - 1;
  const multiplier = (1n << BigInt(64 + windowShift)) / window;
  // Of a power of two it is 2^64 itself.
  return { multiplier: multiplier >> 64n ? multiplier - 1n : multiplier, windowShift };
}

function windowPiece(wanted: Limits, nowNs: bigint, flags: number, limits: ScaleLimits): Piece {
  const nothingOlder: Older = { from: 0n, shift: 0, isFresh: true };
  const burst = BigInt(wanted.burst) << 2n;
  const extra = BigInt(wanted.extra);
  return {
    limits: wanted,
    v0: limits.vStart,
    t0: nowNs,
    ...inverse(extra > 0n ? extra : 1n),
    dtLimit: THIRTY_YEARS_NS,
    nsAUnit: burst ? wanted.extra / Number(burst) : Infinity,
    preShift: QUICK_PRE_SHIFT,
    burst,
    burstTokens: wanted.burst,
    tokenShift: flags & limits.slidingFlag ? countBits(wanted.extra) : 2,
    flags,
    generation: 0,
    older: [nothingOlder, nothingOlder],
    extra,
  };
}

/** A ring of `ring` slots of `extra` ns each, or a policy whose limits are others' (no ring). */
export function linePiece(wanted: Limits, nowNs: bigint, flags: number, ring: number, limits: ScaleLimits): Piece {
  return { ...windowPiece(wanted, nowNs, flags, limits), preShift: ring };
}

const bits = new Float64Array(1);
const bitsOf = (value: number): bigint => {
  bits[0] = value;
  return new BigUint64Array(bits.buffer)[0];
};

/**
 * Guava's warm-up as assembly/warmup.ts takes it. `burst` is the cold factor,
 * `extra` the warm-up in ns; a warm-up of 0 stores nothing.
 */
export function warmUpPiece(wanted: Limits, nowNs: bigint, flags: number, limits: ScaleLimits): Piece {
  const { rate, burst: coldFactor, extra } = wanted;
  const stable = 1e9 / rate;
  const threshold = rate > 0 && rate < Infinity ? (0.5 * extra) / stable : 0;
  const most = rate > 0 && rate < Infinity ? threshold + (2 * extra) / (stable + stable * coldFactor) : 0;
  const slope = most > threshold ? (stable * coldFactor - stable) / (most - threshold) : 0;
  return {
    ...windowPiece(
      { ...wanted, burst: Math.floor(Math.min(most, 2 ** 31 - 1)) },
      nowNs,
      flagged(flags, rate, limits),
      limits,
    ),
    limits: wanted,
    v0: bitsOf(threshold),
    multiplier: bitsOf(most),
    burst: bitsOf(slope),
    nsAUnit: stable,
  };
}

/**
 * The same windows with another limit. A fixed window's words carry the next tag
 * from now on: what was used stays used, in this window and in reserved ones.
 */
function nextWindowPiece(current: Piece, v: bigint, nowNs: bigint, wanted: Limits, limits: ScaleLimits): Piece {
  const next = windowPiece(wanted, current.t0, current.flags, limits);
  if (current.flags & limits.slidingFlag || next.burst === current.burst) {
    return { ...next, v0: current.v0, generation: current.generation, older: current.older };
  }
  const windows = nowNs > current.t0 ? (nowNs - current.t0) / current.extra : 0n;
  const end = v & ~3n;
  const generation = current.generation + 1;
  return {
    ...next,
    t0: current.t0 + windows * current.extra,
    v0: (end - current.burst + next.burst) | BigInt(generation % 3),
    generation,
    older: [{ from: end, shift: current.burstTokens, isFresh: false }, current.older[0]],
  };
}

/** A new policy's first piece, beginning at `nowNs`. */
export function firstPiece(
  wanted: Limits,
  nowNs: bigint,
  flags: number,
  isGlobalOnly: boolean,
  ring: number,
  limits: ScaleLimits,
): Piece {
  if (flags & limits.warmUpFlag) return warmUpPiece(wanted, nowNs, flags, limits);
  if (flags & limits.lineFlag) return linePiece(wanted, nowNs, flags, ring, limits);
  if (flags & (limits.stepFlag | limits.slidingFlag)) return windowPiece(wanted, nowNs, flags, limits);
  const scale = idealScale(wanted, isGlobalOnly);
  const nothingOlder: Older = { from: 0n, shift: 0, isFresh: true };
  return {
    limits: wanted,
    v0: limits.vStart,
    t0: nowNs,
    ...flow(wanted.rate, scale, limits.vStart),
    ...burstOf(wanted.burst, scale, limits),
    tokenShift: scale + 2,
    flags: flagged(flags, wanted.rate, limits),
    generation: 0,
    older: [nothingOlder, nothingOlder],
    extra: unitsOf(wanted.extra, scale + 2),
  };
}

/**
 * The piece that follows `current`, whose clock reads `v` at `nowNs`. It goes
 * on in the same units where these serve the new rate and burst. Else it has
 * the next tag: the clock begins anew in other units, and words of the two
 * older tags translate.
 */
export function nextPiece(
  current: Piece,
  v: bigint,
  nowNs: bigint,
  wanted: Limits,
  isGlobalOnly: boolean,
  limits: ScaleLimits,
): Piece {
  if (current.flags & limits.warmUpFlag) return warmUpPiece(wanted, current.t0, current.flags, limits);
  if (current.flags & limits.lineFlag) return linePiece(wanted, current.t0, current.flags, current.preShift, limits);
  if (current.flags & (limits.stepFlag | limits.slidingFlag)) return nextWindowPiece(current, v, nowNs, wanted, limits);
  const t0 = nowNs > current.t0 ? nowNs : current.t0;
  const scale = current.tokenShift - 2;
  const ideal = idealScale(wanted, isGlobalOnly);
  const leavesInfinity = (current.flags & limits.unlimitedFlag) !== 0 && wanted.rate !== Infinity;
  const going = flow(wanted.rate, scale, v);
  const isHigh = isGlobalOnly ? v > 1n << 62n : going.dtLimit < THIRTY_YEARS_NS;
  const isCoarse = scale < ideal - 8;
  const isTooFine = wanted.burst > 0 && unitsOf(wanted.burst, scale + 2) > limits.burstLimit;
  const flags = flagged(current.flags, wanted.rate, limits);
  if (!leavesInfinity && !isHigh && !isCoarse && !isTooFine) {
    return { ...current, limits: wanted, v0: v, t0, ...going, ...burstOf(wanted.burst, scale, limits), flags };
  }
  const by = ideal - scale;
  const at = v & ~3n;
  const generation = current.generation + 1;
  return {
    limits: wanted,
    v0: limits.vStart | BigInt(generation % 3),
    t0,
    ...flow(wanted.rate, ideal, limits.vStart),
    ...burstOf(wanted.burst, ideal, limits),
    tokenShift: ideal + 2,
    flags,
    generation,
    extra: unitsOf(wanted.extra, ideal + 2),
    older: [{ from: at, shift: by, isFresh: leavesInfinity }, current.older[0]],
  };
}

/** True if a global bucket's clock has run so high that it should begin anew. */
export function isRunDown(piece: Piece, nowNs: bigint): boolean {
  return nowNs - piece.t0 > piece.dtLimit / 2n && piece.dtLimit < THIRTY_YEARS_NS;
}
