// The plain answer to "may this go ahead?".

import type { Policy } from "../policy/policy.js";

export interface Decision {
  readonly allowed: boolean;
  /** The burst, tokens. */
  readonly limit: number;
  /** Whole tokens left after this decision, >= 0. */
  readonly remaining: number;
  /** ms until the same call would be allowed if nobody else came: 0 if it was, Infinity if it never can be. */
  readonly retryAfterMs: number;
  /** ms until the bucket is full again. */
  readonly resetMs: number;
  /** Of a limiter with several limits: the one that refused, or has the fewest tokens. */
  readonly limitIndex?: number;
}

/** The decision about `policy` that the kernel just left in the lane. */
export function decisionIn(policy: Policy, allowed: boolean): Decision {
  const { at, doubles, words, lane } = policy.table;
  const { parts } = policy;
  const limitIndex = words[(lane + at.LANE_LIMIT) / 4];
  const limit = parts.length ? parts[limitIndex].burst : policy.burst;
  return {
    allowed,
    limit,
    remaining: Math.min(limit, doubles[(lane + at.LANE_REMAINING) / 8]),
    retryAfterMs: allowed ? 0 : doubles[(lane + at.LANE_RETRY_NS) / 8] / 1e6,
    resetMs: doubles[(lane + at.LANE_RESET_NS) / 8] / 1e6,
    ...(parts.length && { limitIndex }),
  };
}
