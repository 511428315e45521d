// Rates in tokens per second, and the checks of rates and bursts.

import { MAX_COST, unexpected } from "../errors.js";

/** Slowest and fastest finite rate, tokens per second. */
export const MIN_RATE = 1e-9;
export const MAX_RATE = 3e9;

function per(seconds: number, tokens: number): number {
  if (typeof tokens !== "number" || !(tokens >= 0)) throw unexpected("tokens", "a number >= 0", tokens);
  return tokens / seconds;
}

/**
 * `tokens` per second: the number itself, for symmetry.
 * @throws RangeError if it is negative or NaN, TypeError if it is not a number.
 */
export function perSecond(tokens: number): number {
  return per(1, tokens);
}

/**
 * `tokens` per minute, in tokens per second.
 * @throws RangeError if it is negative or NaN, TypeError if it is not a number.
 */
export function perMinute(tokens: number): number {
  return per(60, tokens);
}

/**
 * `tokens` per hour, in tokens per second.
 * @throws RangeError if it is negative or NaN, TypeError if it is not a number.
 */
export function perHour(tokens: number): number {
  return per(3600, tokens);
}

/**
 * `tokens` per day, in tokens per second.
 * @throws RangeError if it is negative or NaN, TypeError if it is not a number.
 */
export function perDay(tokens: number): number {
  return per(86400, tokens);
}

/**
 * One token every `intervalMs`, in tokens per second; an interval of 0 is an infinite rate.
 * @throws RangeError if it is negative or NaN, TypeError if it is not a number.
 */
export function every(intervalMs: number): number {
  if (typeof intervalMs !== "number" || !(intervalMs >= 0)) {
    throw unexpected("intervalMs", "a number of milliseconds >= 0", intervalMs);
  }
  return intervalMs === 0 ? Infinity : 1000 / intervalMs;
}

/**
 * Checks a rate, tokens per second.
 * @throws RangeError unless it is 0, Infinity or from MIN_RATE to MAX_RATE, TypeError if it is not a number.
 */
export function checkRate(rate: unknown, name = "rate"): asserts rate is number {
  if (rate === 0 || rate === Infinity) return;
  if (typeof rate !== "number" || !(rate >= MIN_RATE && rate <= MAX_RATE)) {
    throw unexpected(name, `tokens per second: 0, ${MIN_RATE} to ${MAX_RATE}, or Infinity`, rate);
  }
}

/**
 * Checks a burst, tokens.
 * @throws RangeError unless it is an integer from 0 to 2^31-1, TypeError if it is not a number.
 */
export function checkBurst(burst: unknown): asserts burst is number {
  if (!Number.isSafeInteger(burst) || (burst as number) < 0 || (burst as number) > MAX_COST) {
    throw unexpected("burst", `an integer number of tokens from 0 to ${MAX_COST}`, burst);
  }
}
