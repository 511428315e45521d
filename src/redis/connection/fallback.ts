// Decisions while Redis cannot be asked.

import type { Decision } from "../../engine/bucket/decision.js";
import type { KeyedLimiter } from "../../engine/limiter/keyed-limiter.js";
import type { RedisPolicy } from "../policy.js";

export interface RedisDecision extends Decision {
  /** Redis could not be asked: see `onFailure`. */
  readonly degraded: boolean;
  /** There was nothing to decide by, so it is refused (`onFailure: 'closed'`): over HTTP a 503, not a 429. */
  readonly unavailable?: true;
}

/**
 * What the failure policy says of `cost`. If a limiter of this process stands in, it decides, and
 * takes the cost if `takes`.
 * @internal
 */
export function decisionWithout(
  { kind, failure }: RedisPolicy,
  standIn: KeyedLimiter | undefined,
  cost: number,
  takes: boolean,
): RedisDecision {
  if (standIn) return { ...(takes ? standIn.consume(cost) : standIn.peek(cost)), degraded: true };
  const limit = kind.maxCost;
  if (cost > limit) return { allowed: false, limit, remaining: 0, retryAfterMs: Infinity, resetMs: 0, degraded: true };
  if (failure.policy === "open") {
    return { allowed: true, limit, remaining: limit, retryAfterMs: 0, resetMs: 0, degraded: true };
  }
  return {
    allowed: false,
    limit,
    remaining: 0,
    retryAfterMs: failure.probeMs,
    resetMs: failure.probeMs,
    degraded: true,
    unavailable: true,
  };
}
