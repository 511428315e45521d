// The fixed point of a bucket in Redis. Lua counts in doubles, exact up to 2^53.
//
// A word is a moment in decimal: whole microseconds since 1970 in 16 digits,
// and then `digits` more of them. One token is `interval` of the last digit's
// units. All that a script adds are distances from now in these units, at most
// 2^50 to either side, so all of its sums are exact.

import { unexpected } from "../../engine/errors.js";

/** Units that a full bucket may be away from an empty one, and that debts and reservations may reach ahead. */
export const MAX_UNITS = 2 ** 50;
const MAX_DIGITS = 12;
/** With an interval of at least this many units, the rate is kept to within a millionth. */
const FINE_UNITS = 1e6;
/** A longer refill would put words before 2006: they must stay positive and have 16 digits. */
const MAX_REFILL_US = 20 * 366 * 86_400 * 1e6;

export interface FixedPoint {
  /**
   * Units a token. Rounded up, so that no more than the rate is ever admitted, unless the double nearest
   * to it is whole.
   */
  interval: number;
  /** Decimal places of a microsecond. */
  digits: number;
}

/**
 * How a bucket counts. Throws RangeError for a rate of 0 or Infinity, or one at which the burst would
 * take more than 20 years to refill.
 */
export function fixedPoint(rate: number, burst: number): FixedPoint {
  const microseconds = 1e6 / rate;
  const tokens = Math.max(1, burst);
  if (!(rate > 0 && rate < Infinity && microseconds * tokens <= MAX_REFILL_US)) {
    throw unexpected(
      "rate",
      `a finite number of tokens per second that refills the burst of ${burst} within 20 years, since every key in Redis expires`,
      rate,
    );
  }
  let digits = 0;
  for (;;) {
    const units = microseconds * 10 ** digits;
    const whole = Math.round(units);
    const isWhole = Math.abs(units - whole) <= units * 2 ** -50;
    const isFine = units >= FINE_UNITS || digits === MAX_DIGITS;
    if (isWhole || isFine || Math.ceil(units * 10) * tokens > MAX_UNITS) {
      return { interval: isWhole ? whole : Math.ceil(units), digits };
    }
    digits++;
  }
}
