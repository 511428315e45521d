// How many tokens to lease, and for how long.
//
// A lease is to last a period and a half, and is renewed when a quarter of it is
// left, before it runs dry. Its tokens are spent within a life, and those
// that are left when the next comes within that one's: two lives are `leaseMs`,
// the time by which a token may be spent later than Redis let it go. See
// docs/leases.md.

/** The period, as a part of a lease's time. */
const PERIODS = 8;
/** A bucket that fills while nobody asks loses tokens; one asker alone leaves it half full. */
const PERIODS_A_BURST = 4;
/** Nobody asks more often than that, however small the burst. */
const LEAST_PERIOD_MS = 5;
/** How long a lease is to last, in periods. */
const STOCK = 1.5;
/** A lease grows by this factor at most. */
const MOST_GROWTH = 32;
/** So large a lease is worth its call: one in a hundred decisions, at most, is a call then. */
const PLENTY = 128;
/** And no more of them than this come from Redis in a second. */
const MOST_CALLS = 500;
/** But a bucket is not to stand at more than an eighth for want of calls: its lessees leave half of it. */
const PLENTIES_A_BURST = 16;

export interface LeasePlan {
  /** For how long a lease's tokens may be spent, from before Redis was asked on, ms. */
  lifeMs: number;
  /** Time from one lease to the next, ms: as a rule while Redis has enough, and at least when it has too little. */
  periodMs: number;
  /** A lease that is less than was asked for is short if it is less than that, too: the next has to wait for a period. */
  plenty: number;
}

export function leasePlan(leaseMs: number, rate: number, burst: number): LeasePlan {
  return {
    lifeMs: leaseMs / 2,
    periodMs: Math.max(LEAST_PERIOD_MS, Math.min(leaseMs / PERIODS, (1000 * burst) / rate / PERIODS_A_BURST)),
    plenty: Math.min(Math.max(PLENTY, rate / MOST_CALLS), burst / PLENTIES_A_BURST),
  };
}

/** True if Redis had so little that it is not to be asked again at once. A bucket that is too small for leases is always asked. */
export function isShort(leased: number, wanted: number, { plenty }: LeasePlan): boolean {
  return leased < wanted && leased < plenty;
}

/** How the last lease of a key went. */
export interface LastLease {
  /** Tokens that it had, as near as is known; 0 if there was none. */
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
  // Nothing is known of those who were refused; they may have been as many.
  if (wasShort && lapsedMs >= 0) return Math.ceil(left > 0 ? Math.max(1, had - left) : 2 * had);
  if (lapsedMs > 0) return Math.max(1, Math.ceil(((had - left) * STOCK * periodMs) / lifeMs));
  return Math.max(1, Math.ceil(had * Math.min(MOST_GROWTH, (STOCK * periodMs) / (lifeMs - untilEndMs))));
}
