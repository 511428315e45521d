// A bucket's policy for rivals that count in windows.

/** 24.8 days: a timer cannot wait for more. */
const LONGEST_MS = 2_147_000_000;

/**
 * The window in which a bucket of this policy would refill: a limit of `burst`
 * in each admits at the bucket's rate. Rivals keep it with timers, so it ends
 * at the longest that there is, beyond any measurement.
 */
export function windowMsOf({ rate, burst }) {
  return Math.min(LONGEST_MS, Math.ceil((1000 * burst) / rate));
}
