// A token bucket's policy for rivals that count in windows.

import type { Policy } from "./rival.js";

/** 24.8 days: the longest time a timer can wait. */
const MAX_TIMER_MS = 2_147_000_000;

/**
 * The window in which a bucket of this policy would refill: a limit of `burst` in
 * each window admits at the bucket's rate. Rivals end it by a timer, so it is at
 * most as long as a timer, which is far longer than any measurement.
 */
export function windowMsOf({ rate, burst }: Policy): number {
  return Math.min(MAX_TIMER_MS, Math.ceil((1000 * burst) / rate));
}
