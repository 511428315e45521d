// Limiters that answer in promises, as those of `sluice/redis`, and how several
// are charged: one after the other, since no one call charges them all. Those
// before the one that refuses get back what they gave.
//
// Nobody is told that he was charged and is not. But until a token is back,
// others go without it, and its bucket refills meanwhile: what goes to and fro
// at any one time may later be admitted beyond burst + rate x W.

import type { Decision } from "../../engine/bucket/decision.js";
import type { GroupDecision } from "../../engine/limiter/all.js";
import { type Limiter, policyOf } from "../../engine/limiter/limiter.js";
import { kinds } from "../../engine/policy/kinds.js";
import type { Policy } from "../../engine/policy/policy.js";
import type { Key } from "../../engine/table/key.js";

export interface AsyncDecision extends Decision {
  /** Made in place of whatever should have decided. */
  readonly degraded?: boolean;
  /** Nobody could decide, and it is refused for that alone: it is answered 503, as 'temporary-reduced-capacity'. */
  readonly unavailable?: boolean;
}

/** A limiter whose decisions come later: a `RedisLimiter`, a `LeasedLimiter`, or one of the user's own. */
export interface AsyncLimiter {
  readonly name: string;
  /** What header fields tell of it: its rate, tokens per second, and its burst; several if a decision's `limitIndex` says which. */
  readonly limits: readonly { readonly rate: number; readonly burst: number }[];
  /** Takes `cost` tokens of `key` if they are there. */
  consume(key: Key | undefined, cost: number): Promise<AsyncDecision>;
  /** Gives back what the decision `taken` took, because another limit refused. */
  refund(key: Key | undefined, cost: number, taken: AsyncDecision): unknown;
}

export type AnyLimiter = Limiter | AsyncLimiter;
export type AnyPart = readonly [limiter: AnyLimiter, key: Key | undefined, cost: number];

/** What header fields tell of one limit. */
export type ToldLimit = Pick<Policy, "name" | "rate" | "burst" | "kind" | "version">;

export function isLimiter(value: unknown): value is AnyLimiter {
  if (policyOf(value as Limiter)) return true;
  if (typeof value !== "object" || value === null) return false;
  const { name, limits, consume, refund } = value as Partial<AsyncLimiter>;
  return typeof name === "string" && Array.isArray(limits) && limits.length > 0 && typeof consume === "function"
    && typeof refund === "function";
}

/** Whether all of them are of a table, and can be asked in one go. */
export function areOfTable(
  parts: readonly AnyPart[],
): parts is readonly (readonly [Limiter, Key | undefined, number])[] {
  for (let i = 0; i < parts.length; i++) if (!policyOf(parts[i][0] as Limiter)) return false;
  return true;
}

export function toldLimits(limiter: AnyLimiter): readonly ToldLimit[] {
  const policy = policyOf(limiter as Limiter);
  if (policy) return policy.limits.length > 0 ? policy.limits : [policy];
  const { name, limits } = limiter as AsyncLimiter;
  return limits.map(({ rate, burst }, i) => ({
    name: limits.length > 1 ? `${name}#${i}` : name,
    rate,
    burst,
    kind: kinds.limit,
    version: 0,
  }));
}

/** Charges the parts one after the other, or none: the first that refuses is the last that is asked. */
export async function chargeInTurn(parts: readonly AnyPart[]): Promise<GroupDecision & AsyncDecision> {
  const taken: AsyncDecision[] = [];
  let partIndex = 0;
  try {
    for (const [limiter, key, cost] of parts) {
      const decision: AsyncDecision = await limiter.consume(key, cost);
      if (!decision.allowed) return { ...decision, refusedBy: limiter.name, partIndex: taken.length };
      if (taken.length > 0 && decision.remaining < taken[partIndex].remaining) partIndex = taken.length;
      taken.push(decision);
    }
    return { ...taken[partIndex], partIndex };
  } finally {
    if (taken.length < parts.length) await Promise.all(taken.map(async (decision, i) => giveBack(parts[i], decision)));
  }
}

async function giveBack([limiter, key, cost]: AnyPart, taken: AsyncDecision): Promise<void> {
  if (policyOf(limiter as Limiter)) (limiter as Limiter).refund(key, cost);
  else await (limiter as AsyncLimiter).refund(key, cost, taken);
}
