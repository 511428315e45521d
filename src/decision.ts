// The plain answer to "may this go ahead?".

import type { Table } from './table.js'

export interface Decision {
  readonly allowed: boolean
  /** The burst, tokens. */
  readonly limit: number
  /** Whole tokens left after this decision, >= 0. */
  readonly remaining: number
  /** ms until the same call would be allowed if nobody else came: 0 if it was, Infinity if it never can be. */
  readonly retryAfterMs: number
  /** ms until the bucket is full again. */
  readonly resetMs: number
}

/** The decision that the kernel just left in the lane. */
export function decisionIn(table: Table, allowed: boolean, limit: number): Decision {
  const { at, doubles, lane } = table
  return {
    allowed,
    limit,
    remaining: doubles[(lane + at.LANE_REMAINING) / 8],
    retryAfterMs: allowed ? 0 : doubles[(lane + at.LANE_RETRY_NS) / 8] / 1e6,
    resetMs: doubles[(lane + at.LANE_RESET_NS) / 8] / 1e6,
  }
}
