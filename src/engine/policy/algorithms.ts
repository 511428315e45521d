// The options of each algorithm: their types, their checks, and the policy that
// they define. docs/algorithms.md explains the algorithms.

import { wallMs } from "../clock.js";
import { checkInteger, MAX_COST, shown, unexpected } from "../errors.js";
import { checkOptions } from "../options.js";
import { checkBurst, checkRate } from "./rate.js";
import type { Limits } from "./segment.js";

interface CommonOptions<Own> {
  /** Admits everything, and counts what it would have refused (`stats().shadowed`). */
  shadow?: boolean;
  /**
   * Other limits for some keys: `limiter.tier('gold')` limits by those of `gold`.
   * Options that a tier leaves out are the same as here.
   */
  tiers?: Record<string, Own>;
}

export interface BucketLimits {
  /** Tokens per second: 0, 1e-9 to 3e9, or Infinity. */
  rate: number;
  /** Most tokens at once, an integer from 0 to 2^31-1. */
  burst: number;
}
export interface SeveralLimits {
  /**
   * 1 to 7 limits on each key, taken all or none; `decision.limitIndex` says which
   * one decided. Each key takes a line of 64 bytes (`lineCapacity`).
   */
  limits: readonly BucketLimits[];
}
/** Has no option of these names. */
type Without<Name extends string> = { [Each in Name]?: undefined };
/** One limit (`rate`, `burst`) or several (`limits`), not both. */
export type OneOrSeveralLimits = (BucketLimits & Without<"limits">) | (SeveralLimits & Without<"rate" | "burst">);
export type TokenBucketOptions =
  & OneOrSeveralLimits
  & CommonOptions<(Partial<BucketLimits> & Without<"limits">) | (SeveralLimits & Without<"rate" | "burst">)>;

interface Leak {
  /** Drops that leak per second: 0, 1e-9 to 3e9, or Infinity. */
  rate: number;
}
interface LeakyMeter extends Leak {
  /** Most drops at once, an integer from 0 to 2^31-1. A queue has 1 by default, which lets them out one by one. */
  burst: number;
}
interface LeakyQueue extends Leak, Partial<LeakyMeter> {
  rate: number;
  /**
   * Makes it a queue of this length, an integer from 0 to 2^31-1. A wait is refused
   * at once if the queue has no place for its cost.
   */
  queue: number;
}
/** A meter (`rate`, `burst`) or a queue (`rate`, `queue`, perhaps `burst`). */
export type LeakyLimits = (LeakyMeter & Without<"queue">) | LeakyQueue;
export type LeakyBucketOptions = LeakyLimits & CommonOptions<Partial<LeakyLimits>>;

export interface WindowLimits {
  /** Most tokens in a window: an integer >= 0. The largest limit depends on the window's length. */
  limit: number;
  /** A window's length, ms: an integer from 1 to 366 days. */
  windowMs: number;
}
export interface FixedWindowOptions extends WindowLimits, CommonOptions<Partial<WindowLimits>> {
  /**
   * 'wall': windows begin at multiples of their length on the wall clock (UTC), as
   * it stands when the limiter is defined. Left out: when it is defined.
   */
  align?: "wall";
}
export interface SlidingWindowOptions extends WindowLimits, CommonOptions<Partial<WindowLimits>> {
  /**
   * Counts in 1 to 12 time slots, and never lets more than `limit` pass in any
   * `windowMs`. Each key takes a line of 64 bytes (`lineCapacity`). Left out: an
   * estimate from the counts of two windows, in one word.
   */
  slots?: number;
}

interface WarmUpLimits {
  /** Permits per second when warm: 0, 1e-9 to 3e9, or Infinity. */
  rate: number;
  /** How long it takes from cold to warm, ms: 0 to 366 days. 0 stores nothing and is a plain limiter. */
  warmupMs: number;
  /** How much slower it is when cold: 1 to 1,000,000, 3 by default. */
  coldFactor?: number;
}
export interface WarmUpOptions extends WarmUpLimits, CommonOptions<Partial<WarmUpLimits>> {}

/** @internal The policy that options define. */
export interface Definition<Kind extends string = string> {
  readonly kind: Kind;
  readonly numbers: Limits;
  readonly isShadow: boolean;
  /** How long ago its first window began, ms. */
  readonly alignMs?: number;
  /** Counters of a window with slots. */
  readonly ring?: number;
  /** Limits that are policies of their own. */
  readonly limits?: readonly Limits[];
  /** The same for other limits, by the tier's name. */
  readonly tiers: readonly (readonly [tier: string, definition: Definition<Kind>])[];
}

type Plain<Kind extends string> = Omit<Definition<Kind>, "isShadow" | "tiers">;

const MAX_WINDOW_MS = 366 * 86_400_000;

/**
 * Makes a reader of options: `own` are the names that a tier may have as well,
 * `others` the rest. The reader throws TypeError or RangeError for options that are wrong.
 */
function reader<Options extends CommonOptions<object>, Kind extends string>(
  own: readonly string[],
  others: readonly string[],
  define: (options: Options) => Plain<Kind>,
): (options: Options) => Definition<Kind> {
  const read = (options: Options): Definition<Kind> => {
    const { shadow = false, tiers = {} } = options;
    if (typeof shadow !== "boolean") throw new TypeError(`"shadow" expected true or false, got ${shown(shadow)}`);
    checkOptions(tiers, Object.keys(tiers ?? {}), "tiers");
    return {
      ...define(options),
      isShadow: shadow,
      tiers: Object.entries(tiers).map(([name, tier]) => {
        checkOptions(tier, own, `tiers.${name}`);
        return [name, read({ ...withoutLimitsOf(tier, options), ...tier, tiers: {} })] as const;
      }),
    };
  };
  return (options) => {
    checkOptions(options, [...own, ...others, "shadow", "tiers"]);
    return read(options);
  };
}

/**
 * Of `options`, what a tier of a token bucket takes over: no `limits` if it has a rate or burst of its
 * own, and the other way round.
 */
function withoutLimitsOf<Options extends object>(tier: object, options: Options): Options {
  const { limits, rate, burst, ...rest } = options as { limits?: unknown; rate?: unknown; burst?: unknown };
  if ("limits" in tier) return rest as Options;
  if (limits !== undefined && ("rate" in tier || "burst" in tier)) return { ...rest, rate, burst } as Options;
  return options;
}

const bucketNames = ["rate", "burst"];
const windowNames = ["limit", "windowMs"];

/** @internal */
export const tokenBucket = reader(
  [...bucketNames, "limits"],
  [],
  (options: TokenBucketOptions): Plain<"tokenBucket" | "limits"> => {
    const { limits, rate, burst } = options;
    if (limits === undefined) return { kind: "tokenBucket", numbers: bucketNumbers(options as BucketLimits) };
    if (rate !== undefined || burst !== undefined) {
      throw new TypeError(
        `"limits" expected no ${
          rate === undefined ? "burst" : "rate"
        } besides, got both: a limit of several has its own`,
      );
    }
    if (!Array.isArray(limits) || limits.length < 1 || limits.length > 7) {
      throw unexpected("limits", "an array of 1 to 7 { rate, burst }", limits, "object");
    }
    const several = limits.map((each, i) => {
      checkOptions(each, bucketNames, `limits[${i}]`);
      return bucketNumbers(each);
    });
    return { kind: "limits", numbers: several[0], limits: several };
  },
);

function bucketNumbers({ rate, burst }: BucketLimits): Limits {
  checkRate(rate);
  checkBurst(burst);
  return { rate, burst, extra: 0 };
}

/** @internal */
export const leakyBucket = reader(
  [...bucketNames, "queue"],
  [],
  (options: LeakyBucketOptions): Plain<"leakyBucket" | "leakyQueue"> => {
    const { rate, queue, burst = queue === undefined ? undefined : 1 } = options;
    checkRate(rate);
    checkBurst(burst);
    if (queue === undefined) return { kind: "leakyBucket", numbers: { rate, burst, extra: 0 } };
    checkInteger("queue", queue, 0, MAX_COST);
    return { kind: "leakyQueue", numbers: { rate, burst, extra: queue } };
  },
);

function windowNumbers({ limit, windowMs }: WindowLimits): Limits {
  checkInteger("limit", limit, 0, MAX_COST);
  checkInteger("windowMs", windowMs, 1, MAX_WINDOW_MS);
  return { rate: limit / (windowMs / 1000), burst: limit, extra: windowMs * 1e6 };
}

/** @internal */
export const fixedWindow = reader(windowNames, ["align"], (options: FixedWindowOptions): Plain<"fixedWindow"> => {
  const { align, windowMs } = options;
  const numbers = windowNumbers(options);
  if (align === undefined) return { kind: "fixedWindow", numbers };
  if (align !== "wall") throw new RangeError(`"align" expected 'wall', got ${shown(align)}`);
  return { kind: "fixedWindow", numbers, alignMs: wallMs() % windowMs };
});

/** @internal */
export const slidingWindow = reader(
  windowNames,
  ["slots"],
  (options: SlidingWindowOptions): Plain<"slidingWindow" | "slottedWindow"> => {
    const { slots } = options;
    const numbers = windowNumbers(options);
    if (slots === undefined) return { kind: "slidingWindow", numbers };
    checkInteger("slots", slots, 1, 12);
    // A slot is rounded up to whole ns, so that the window is never shorter than said.
    const extra = Math.ceil(numbers.extra / slots);
    return { kind: "slottedWindow", numbers: { ...numbers, extra }, ring: slots + 1 };
  },
);

/** @internal */
export const warmUp = reader(
  ["rate", "warmupMs", "coldFactor"],
  [],
  ({ rate, warmupMs, coldFactor = 3 }: WarmUpOptions): Plain<"warmUp"> => {
    checkRate(rate);
    if (typeof warmupMs !== "number" || !(warmupMs >= 0 && warmupMs <= MAX_WINDOW_MS)) {
      throw unexpected("warmupMs", `a number of milliseconds from 0 to ${MAX_WINDOW_MS}`, warmupMs);
    }
    if (typeof coldFactor !== "number" || !(coldFactor >= 1 && coldFactor <= 1e6)) {
      throw unexpected("coldFactor", "a number from 1 to 1000000", coldFactor);
    }
    return { kind: "warmUp", numbers: { rate, burst: coldFactor, extra: Math.round(warmupMs * 1e6) } };
  },
);
