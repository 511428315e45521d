// How many tokens to lease, and for how long.
//
// A lease should last a period and a half. It is renewed when a quarter of it is left,
// before it runs out. Its tokens are spent within a life; those that are left when the
// next lease comes are spent within the next one's life. Two lives are `leaseMs`: a
// token may be spent that much later than Redis let it go. See docs/leases.md.

/** Periods in `leaseMs`. */
const PERIODS = 8;
/**
 * Periods in the time to refill a burst: a bucket that is full between two leases loses tokens, and
 * one process leaves it half full.
 */
const PERIODS_A_BURST = 4;
/** Shortest period, however small the burst. */
const MIN_PERIOD_MS = 5;
/** How long a lease should last, in periods. */
const STOCK = 1.5;
/** Largest ratio of a lease to the last one. */
const MAX_GROWTH = 32;
/** A lease of this many tokens is worth its call: then at most one decision in a hundred is a call. */
const PLENTY = 128;
/** Most leases a second that are worth their call. */
const MAX_CALLS = 500;
/**
 * Leases worth their call in a burst: processes lease half of what is there, so a bucket is not left
 * more than an eighth full for want of calls.
 */
const PLENTIES_A_BURST = 16;

export interface LeasePlan {
  /** For how long a lease's tokens may be spent, from before Redis was asked, ms. */
  lifeMs: number;
  /** Time from one lease to the next, ms: usual while Redis has enough, least when it has too little. */
  periodMs: number;
  /** A lease of less than was asked for is short if it is also less than this: the next has to wait for a period. */
  plenty: number;
}

export function leasePlan(leaseMs: number, rate: number, burst: number): LeasePlan {
  return {
    lifeMs: leaseMs / 2,
    periodMs: Math.max(MIN_PERIOD_MS, Math.min(leaseMs / PERIODS, (1000 * burst) / rate / PERIODS_A_BURST)),
    plenty: Math.min(Math.max(PLENTY, rate / MAX_CALLS), burst / PLENTIES_A_BURST),
  };
}

/**
 * True if Redis had so little that it should not be asked again at once. A bucket that is too small
 * for leases is always asked.
 */
export function isShort(leased: number, wanted: number, { plenty }: LeasePlan): boolean {
  return leased < wanted && leased < plenty;
}

/** How the last lease of a key went. */
export interface LastLease {
  /** Tokens that it had, approximately; 0 if there was none. */
  had: number;
  /** Tokens that are left of it, or were when they lapsed. */
  left: number;
  /** ms until its end; less than 0 if that is past. */
  untilEndMs: number;
  /** It was short, or there was nothing, and then a pause. */
  wasShort: boolean;
}

/** ms until Redis may be asked again after a short lease that is used up; 0 or less is now. */
export function leasePause({ had, untilEndMs, wasShort }: LastLease, { lifeMs, periodMs }: LeasePlan): number {
  return wasShort && had > 0 && untilEndMs > 0 ? periodMs - (lifeMs - untilEndMs) : 0;
}

/** Tokens to ask for, by the pace at which the last lease was spent. */
export function leaseSize({ had, left, untilEndMs, wasShort }: LastLease, { lifeMs, periodMs }: LeasePlan): number {
  const lapsedMs = -untilEndMs;
  if (had === 0 || lapsedMs > lifeMs) return 1;
  // How many were refused is unknown; assume as many.
  if (wasShort && lapsedMs >= 0) return Math.ceil(left > 0 ? Math.max(1, had - left) : 2 * had);
  if (lapsedMs > 0) return Math.max(1, Math.ceil(((had - left) * STOCK * periodMs) / lifeMs));
  return Math.max(1, Math.ceil(had * Math.min(MAX_GROWTH, (STOCK * periodMs) / (lifeMs - untilEndMs))));
}
