// Limiters that answer in promises, such as those of `sluice/redis`, and how a
// guard charges several of them: one after the other, because no single call
// charges them all. If one refuses, those before it get their tokens back.
//
// So no refused request stays charged. But until a token is back, other requests
// go without it while its bucket refills: what is on its way back at any moment may
// later be admitted beyond burst + rate x time.

import type { Decision } from "../../engine/bucket/decision.js";
import type { GroupDecision } from "../../engine/limiter/all.js";
import { type Limiter, policyOf } from "../../engine/limiter/limiter.js";
import type { Key } from "../../engine/table/key.js";

export interface AsyncDecision extends Decision {
  /** True if it was made without Redis, by what stands in for it. */
  readonly degraded?: boolean;
  /**
   * True if no decision was possible and the request is refused for that reason alone:
   * 503, 'temporary-reduced-capacity'.
   */
  readonly unavailable?: boolean;
}

/** A limiter that decides in promises: a `RedisLimiter`, a `LeasedLimiter`, or one of your own. */
export interface AsyncLimiter {
  readonly name: string;
  /**
   * Its limits, for the header fields: rate in tokens per second, and burst. More than
   * one if `limitIndex` of a decision says which.
   */
  readonly limits: readonly { readonly rate: number; readonly burst: number }[];
  /** Takes `cost` tokens of `key` if they are there. */
  consume(key: Key, cost: number): Promise<AsyncDecision>;
  /** Gives back the `cost` tokens that the decision `taken` took, because another limit refused. */
  refund(key: Key, cost: number, taken: AsyncDecision): unknown;
  /** The same for the one bucket without a key, which a limit without `key` charges. */
  readonly global: {
    consume(cost: number): Promise<AsyncDecision>;
    refund(cost: number, taken: AsyncDecision): unknown;
  };
}

/** A limiter of a table, or one that answers in promises. */
export type AnyLimiter = Limiter | AsyncLimiter;

/** A bucket and what to take from it. Without a key it is the limiter's global one. */
export interface Charge {
  readonly limiter: AnyLimiter;
  readonly key: Key | undefined;
  readonly cost: number;
}

/** A limit as header fields describe it. */
export interface HeaderLimit {
  readonly name: string;
  readonly rate: number;
  readonly burst: number;
  /** Changes with every new rate or burst. */
  readonly version: number;
  readonly kind: { readonly hasBurst: boolean };
}

export function isLimiter(value: unknown): value is AnyLimiter {
  if (policyOf(value as Limiter)) return true;
  if (typeof value !== "object" || value === null) return false;
  const { name, limits, consume, refund, global } = value as Partial<AsyncLimiter>;
  return typeof name === "string" && Array.isArray(limits) && limits.length > 0 && typeof consume === "function"
    && typeof refund === "function" && typeof global?.consume === "function" && typeof global.refund === "function";
}

/** Whether `limiter` is one of a table, which decides at once. */
export function isOfTable(limiter: AnyLimiter): limiter is Limiter {
  return policyOf(limiter as Limiter) !== undefined;
}

export function headerLimits(limiter: AnyLimiter): readonly HeaderLimit[] {
  const policy = policyOf(limiter as Limiter);
  if (policy) return policy.limits.length > 0 ? policy.limits : [policy];
  const { name, limits } = limiter as AsyncLimiter;
  return limits.map(({ rate, burst }, i) => ({
    name: limits.length > 1 ? `${name}#${i}` : name,
    rate,
    burst,
    kind: { hasBurst: true },
    version: 0,
  }));
}

/** Takes the cost of one charge if it is there. */
export function consume({ limiter, key, cost }: Charge): Decision | Promise<AsyncDecision> {
  return key === undefined ? limiter.global.consume(cost) : limiter.consume(key, cost);
}

/**
 * Takes the cost of every charge, one after the other, or of none. The first that
 * refuses is the last that is asked.
 */
export async function consumeInTurn(charges: readonly Charge[]): Promise<GroupDecision & AsyncDecision> {
  const taken: AsyncDecision[] = [];
  let entryIndex = 0;
  try {
    for (const charge of charges) {
      const decision: AsyncDecision = await consume(charge);
      if (!decision.allowed) return { ...decision, refusedBy: charge.limiter.name, entryIndex: taken.length };
      if (taken.length > 0 && decision.remaining < taken[entryIndex].remaining) entryIndex = taken.length;
      taken.push(decision);
    }
    return { ...taken[entryIndex], entryIndex };
  } finally {
    if (taken.length < charges.length) {
      await Promise.all(taken.map(async (decision, i) => refund(charges[i], decision)));
    }
  }
}

async function refund({ limiter, key, cost }: Charge, taken: AsyncDecision): Promise<void> {
  if (isOfTable(limiter)) {
    if (key === undefined) limiter.global.refund(cost);
    else limiter.refund(key, cost);
  } else await (key === undefined ? limiter.global.refund(cost, taken) : limiter.refund(key, cost, taken));
}
