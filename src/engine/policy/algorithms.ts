// The algorithms by the options a user gives them: checks them, and says what
// policy they make. docs/algorithms.md explains each.

import { wallMs } from "../clock.js";
import { checkInteger, checkOptions, MAX_COST, shown, unexpected } from "../errors.js";
import type { PolicyKind, PolicyTraits } from "./policy.js";
import { checkBurst, checkRate } from "./rate.js";
import type { Limits } from "./scale.js";

interface CommonOptions<Own> {
  /** Admits everything, and counts what it would have refused (`stats().shadowed`). */
  shadow?: boolean;
  /** Other limits for some keys: `limiter.tier('gold')` is the limiter of those. What a tier leaves out is as here. */
  tiers?: Record<string, Partial<Own>>;
}

export interface BucketLimits {
  /** Tokens per second: 0, 1e-9 to 3e9, or Infinity. */
  rate: number;
  /** Most tokens at once, an integer from 0 to 2^31-1. */
  burst: number;
}
export interface SeveralLimits {
  /** 1 to 7 limits on each key, all or nothing; `decision.limitIndex` says which one decided. Takes a line. */
  limits: readonly BucketLimits[];
}
export type TokenBucketOptions = (BucketLimits | SeveralLimits) & CommonOptions<BucketLimits & SeveralLimits>;

export interface LeakyLimits {
  /** Drops that leak per second: 0, 1e-9 to 3e9, or Infinity. */
  rate: number;
  /** As a meter: most drops at once. As a queue it is 1 if left out: they leave one by one. */
  burst?: number;
  /** Makes it a queue of so many: a wait for a place beyond is refused at once. An integer from 0 to 2^31-1. */
  queue?: number;
}
export interface LeakyBucketOptions extends LeakyLimits, CommonOptions<LeakyLimits> {}

export interface WindowLimits {
  /** Most calls, or cost, in a window: an integer from 0, the most depends on the window. */
  limit: number;
  /** A window's length, ms: an integer from 1 to 366 days. */
  windowMs: number;
}
export interface FixedWindowOptions extends WindowLimits, CommonOptions<WindowLimits> {
  /** 'wall': windows begin at multiples of their length on the wall clock (UTC), as it stands now. */
  align?: "wall";
}
export interface SlidingWindowOptions extends WindowLimits, CommonOptions<WindowLimits> {
  /** Counts in so many time slots, 1 to 12, and never lets more than `limit` pass in any `windowMs`. Takes a line. Left out: an estimate from two windows, in one word. */
  slots?: number;
}

interface WarmUpLimits {
  /** Permits per second when warm: 0, 1e-9 to 3e9, or Infinity. */
  rate: number;
  /** How long it takes from cold to warm, ms >= 0; 0 stores nothing and is a plain limiter. */
  warmupMs: number;
  /** How much slower it is when cold, >= 1; 3 by default. */
  coldFactor?: number;
}
export interface WarmUpOptions extends WarmUpLimits, CommonOptions<WarmUpLimits> {}

/** What options amount to. */
export interface Definition {
  kind: PolicyKind;
  limits: Limits;
  traits: PolicyTraits;
  /** Limits that are policies of their own. */
  parts?: readonly Limits[];
}

const MAX_WINDOW_MS = 366 * 86_400_000;

export function tokenBucket(options: TokenBucketOptions): Definition {
  const traits = traitsOf(options);
  if (!("limits" in options) || options.limits === undefined) {
    return { kind: "tokenBucket", limits: bucketLimits(options as BucketLimits), traits };
  }
  const { limits } = options;
  if (!Array.isArray(limits) || limits.length < 1 || limits.length > 7) {
    throw unexpected("limits", "an array of 1 to 7 { rate, burst }", limits, "object");
  }
  const parts = limits.map((each, i) => {
    checkOptions(each, `limits[${i}]`);
    return bucketLimits(each);
  });
  return { kind: "limits", limits: parts[0], traits, parts };
}

function bucketLimits({ rate, burst }: BucketLimits): Limits {
  checkRate(rate);
  checkBurst(burst);
  return { rate, burst, extra: 0 };
}

export function leakyBucket(options: LeakyBucketOptions): Definition {
  const { rate, queue } = options;
  checkRate(rate);
  if (queue === undefined) {
    checkBurst(options.burst);
    return { kind: "leakyBucket", limits: { rate, burst: options.burst, extra: 0 }, traits: traitsOf(options) };
  }
  const { burst = 1 } = options;
  checkBurst(burst);
  checkInteger("queue", queue, 0, MAX_COST);
  return { kind: "leakyQueue", limits: { rate, burst, extra: queue }, traits: traitsOf(options) };
}

function windowOf(kind: PolicyKind, options: FixedWindowOptions | SlidingWindowOptions): Definition {
  const { limit, windowMs } = options;
  checkInteger("limit", limit, 0, MAX_COST);
  checkInteger("windowMs", windowMs, 1, MAX_WINDOW_MS);
  return {
    kind,
    limits: { rate: limit / (windowMs / 1000), burst: limit, extra: windowMs * 1e6 },
    traits: traitsOf(options),
  };
}

export function fixedWindow(options: FixedWindowOptions): Definition {
  const { align } = options;
  const made = windowOf("fixedWindow", options);
  if (align === undefined) return made;
  if (align !== "wall") throw new RangeError(`"align" expected 'wall', got ${shown(align)}`);
  return { ...made, traits: { ...made.traits, alignMs: wallMs() % options.windowMs } };
}

export function slidingWindow(options: SlidingWindowOptions): Definition {
  const { slots } = options;
  if (slots === undefined) return windowOf("slidingWindow", options);
  checkInteger("slots", slots, 1, 12);
  const { limits, traits } = windowOf("slottedWindow", options);
  // A slot is rounded up to whole ns, so that the window is never shorter than said.
  const extra = Math.ceil(limits.extra / slots);
  return { kind: "slottedWindow", limits: { ...limits, extra }, traits: { ...traits, ring: slots + 1 } };
}

export function warmUp(options: WarmUpOptions): Definition {
  const { rate, warmupMs, coldFactor = 3 } = options;
  checkRate(rate);
  if (typeof warmupMs !== "number" || !(warmupMs >= 0 && warmupMs <= MAX_WINDOW_MS)) {
    throw unexpected("warmupMs", `a number of milliseconds from 0 to ${MAX_WINDOW_MS}`, warmupMs);
  }
  if (typeof coldFactor !== "number" || !(coldFactor >= 1 && coldFactor <= 1e6)) {
    throw unexpected("coldFactor", "a number from 1 to 1000000", coldFactor);
  }
  return {
    kind: "warmUp",
    limits: { rate, burst: coldFactor, extra: Math.round(warmupMs * 1e6) },
    traits: traitsOf(options),
  };
}

function traitsOf({ shadow = false }: { shadow?: boolean }): PolicyTraits {
  if (typeof shadow !== "boolean") throw new TypeError(`"shadow" expected true or false, got ${shown(shadow)}`);
  return { isShadow: shadow };
}

/** The options of each tier, by its name. */
export function tiersOf<Options extends { tiers?: Record<string, object> }>(options: Options): [string, Options][] {
  const { tiers = {} } = options;
  checkOptions(tiers, "tiers");
  return Object.entries(tiers).map(([name, own]) => {
    checkOptions(own, `tiers.${name}`);
    const { limits, ...rest } = options as Options & { limits?: unknown };
    // A tier with a rate or burst of its own has that one limit.
    const base = limits !== undefined && ("rate" in own || "burst" in own) ? rest : options;
    return [name, { ...base, ...own, tiers: {} } as Options];
  });
}
