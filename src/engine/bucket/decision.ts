// The plain answer to "may this go ahead?".

import type { Policy } from "../policy/policy.js";

export interface Decision {
  readonly allowed: boolean;
  /** The burst, tokens. */
  readonly limit: number;
  /** Whole tokens left after this decision, >= 0. */
  readonly remaining: number;
  /** ms until the same call would be allowed if no other came before it: 0 if it was, Infinity if it never can be. */
  readonly retryAfterMs: number;
  /** ms until the bucket is full again. */
  readonly resetMs: number;
  /** Of a limiter with several limits: the one that refused, or has the fewest tokens. */
  readonly limitIndex?: number;
}

/** @internal The decision about `policy` that the kernel just left in the scratch. */
export function decisionIn(policy: Policy, allowed: boolean): Decision {
  const { limits, table: { scratch } } = policy;
  const retryAfterMs = allowed ? 0 : scratch.retryNs / 1e6;
  const resetMs = scratch.resetNs / 1e6;
  if (limits.length === 0) {
    const limit = policy.burst;
    return { allowed, limit, remaining: Math.min(limit, scratch.remaining), retryAfterMs, resetMs };
  }
  const { limitIndex } = scratch;
  const limit = limits[limitIndex].burst;
  return { allowed, limit, remaining: Math.min(limit, scratch.remaining), retryAfterMs, resetMs, limitIndex };
}
