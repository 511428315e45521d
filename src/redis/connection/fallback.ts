// Decisions while Redis cannot be asked.

import type { Decision } from "../../engine/bucket/decision.js";
import type { Key } from "../../engine/table/key.js";
import { mostAtOnce } from "../kinds.js";
import type { RedisPolicy } from "../policy.js";

export interface RedisDecision extends Decision {
  /** Redis could not be asked: see `onFailure`. */
  readonly degraded: boolean;
  /** Nobody could decide, so it is refused (`onFailure: 'closed'`): over HTTP a 503, not a 429. */
  readonly unavailable?: true;
}

/** What the failure policy says of `cost`; takes it from the limiter that stands in, if one does and `takes`. */
export function decisionWithout(
  { kind, failure, standIn }: RedisPolicy,
  key: Key | undefined,
  cost: number,
  takes: boolean,
): RedisDecision {
  if (standIn) return { ...(takes ? standIn.consume(key, cost) : standIn.peek(key, cost)), degraded: true };
  const limit = mostAtOnce(kind);
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
