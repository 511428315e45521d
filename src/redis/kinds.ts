// The kinds of limiters that Redis can store, by the options a user gives them:
// for each its scripts, and the limiter of this process that stands in for it
// while Redis cannot be asked.

import { shown } from "../engine/errors.js";
import type { Limiter } from "../engine/limiter/limiter.js";
import type { Sluice } from "../engine/limiter/sluice.js";
import { checkOptions } from "../engine/options.js";
import type { BucketLimits, LeakyLimits, OneOrSeveralLimits, WindowLimits } from "../engine/policy/algorithms.js";
import { kinds } from "../engine/policy/kinds.js";
import { bucket } from "./scripts/bucket.js";
import { fixedWindow } from "./scripts/fixed-window.js";
import { type Algorithm, Scripts } from "./scripts/script.js";
import { slidingCounter } from "./scripts/sliding-counter.js";
import { slottedWindow } from "./scripts/slotted-window.js";
import { windowLog } from "./scripts/window-log.js";

/**
 * As for a table, without `shadow` and `tiers`. The burst must refill within 20 years: rates of 0 and
 * Infinity are refused.
 */
export type RedisTokenBucketOptions = OneOrSeveralLimits;
export type RedisLeakyBucketOptions = LeakyLimits;
/** Windows begin at multiples of their length on the server's clock (UTC). */
export type RedisFixedWindowOptions = WindowLimits;
export interface RedisSlidingWindowOptions extends WindowLimits {
  /** Counts in this many time slots, 1 to 12, and never lets more than `limit` pass in any `windowMs`. */
  slots?: number;
  /** Stores every call: exact to the microsecond, at about 95 bytes a call. */
  log?: boolean;
}

/** One limit. Of a window, `rate` is its limit over its length. */
export interface RedisLimit {
  /** Tokens per second. */
  readonly rate: number;
  /** Most tokens at once. */
  readonly burst: number;
}

/** @internal */
export interface RedisKind {
  /**
   * For the key: a letter, and the unit in which its words count windows. Words of other lengths would
   * be read as of other times.
   */
  readonly letter: string;
  readonly scripts: Scripts;
  readonly limits: readonly RedisLimit[];
  /** Largest cost that can ever be had at once: the burst, or the smallest of several. */
  readonly maxCost: number;
  /** It refuses because its queue is full, and not because of time. */
  readonly isQueue: boolean;
  /** The limiter with a share of these limits in a table of this process. */
  standIn(sluice: Sluice, name: string, share: number): Limiter;
}

/** A share of a burst or limit: whole, and not so small that nothing ever passes. */
function shareOf(tokens: number, share: number): number {
  return tokens === 0 ? 0 : Math.max(1, Math.floor(tokens * share));
}

function bucketsOf(
  limits: readonly BucketLimits[],
  queue: number,
): Pick<RedisKind, "letter" | "scripts" | "limits" | "maxCost"> {
  return {
    letter: "b",
    scripts: new Scripts(bucket(limits, queue)),
    limits: limits.map(({ rate, burst }) => ({ rate, burst })),
    maxCost: Math.min(...limits.map(({ burst }) => burst)),
  };
}

/** @internal */
export function redisTokenBucket(options: RedisTokenBucketOptions): RedisKind {
  checkOptions(options, ["rate", "burst", "limits"]);
  const { numbers, limits: several } = kinds.tokenBucket.read(options);
  const limits: readonly BucketLimits[] = several ?? [numbers];
  const shared = (share: number): BucketLimits[] =>
    limits.map(({ rate, burst }) => ({ rate: rate * share, burst: shareOf(burst, share) }));
  return {
    ...bucketsOf(limits, Infinity),
    isQueue: false,
    standIn: (sluice, name, share) => sluice.tokenBucket(name, several ? { limits: shared(share) } : shared(share)[0]),
  };
}

/** @internal */
export function redisLeakyBucket(options: RedisLeakyBucketOptions): RedisKind {
  checkOptions(options, ["rate", "burst", "queue"]);
  const { kind, numbers } = kinds.leakyBucket.read(options);
  const { rate, burst, extra: queue } = numbers;
  const { isQueue } = kinds[kind];
  return {
    ...bucketsOf([numbers], isQueue ? queue : Infinity),
    isQueue,
    standIn: (sluice, name, share) =>
      sluice.leakyBucket(name, {
        rate: rate * share,
        burst: shareOf(burst, share),
        ...(isQueue && { queue: shareOf(queue, share) }),
      }),
  };
}

function windowKind(
  letter: string,
  { limit, windowMs }: WindowLimits,
  algorithm: Algorithm,
  standIn: RedisKind["standIn"],
): RedisKind {
  return {
    letter,
    scripts: new Scripts(algorithm),
    limits: [{ rate: (limit / windowMs) * 1000, burst: limit }],
    maxCost: limit,
    isQueue: false,
    standIn,
  };
}

/** @internal */
export function redisFixedWindow(options: RedisFixedWindowOptions): RedisKind {
  checkOptions(options, ["limit", "windowMs"]);
  kinds.fixedWindow.read(options);
  const { limit, windowMs } = options;
  return windowKind(
    `f${windowMs}`,
    options,
    fixedWindow(limit, windowMs * 1000),
    (sluice, name, share) => sluice.fixedWindow(name, { limit: shareOf(limit, share), windowMs, align: "wall" }),
  );
}

/** Counts times ticks stay below this, and so exact. */
const MAX_PRODUCT = 2 ** 52;

/** @internal */
export function redisSlidingWindow(options: RedisSlidingWindowOptions): RedisKind {
  checkOptions(options, ["limit", "windowMs", "slots", "log"]);
  const { limit, windowMs, slots, log = false } = options;
  if (typeof log !== "boolean") throw new TypeError(`"log" expected true or false, got ${shown(log)}`);
  if (log && slots !== undefined) {
    throw new TypeError(`"slots" and "log" exclude each other, got ${shown(slots)} and true`);
  }
  const { numbers } = kinds.slidingWindow.read({ limit, windowMs, ...(slots !== undefined && { slots }) });
  const windowUs = windowMs * 1000;
  const standInSlots = log ? 12 : slots;
  const standIn: RedisKind["standIn"] = (sluice, name, share) =>
    sluice.slidingWindow(name, {
      limit: shareOf(limit, share),
      windowMs,
      ...(standInSlots !== undefined && { slots: standInSlots }),
    });
  if (log) return windowKind("l", options, windowLog(limit, windowUs), standIn);
  const slotUs = Math.ceil(numbers.extra / 1000);
  if (slots !== undefined) return windowKind(`s${slotUs}`, options, slottedWindow(limit, slotUs, slots), standIn);
  const tickUs = 10 ** Math.max(0, Math.ceil(Math.log10((Math.max(1, limit) * windowUs) / MAX_PRODUCT)));
  return windowKind(`c${windowMs}`, options, slidingCounter(limit, windowUs, tickUs), standIn);
}
