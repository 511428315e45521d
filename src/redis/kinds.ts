// The kinds of limiters that Redis can hold, by the options a user gives them:
// each a script and its numbers, and the limiter of this process that stands in
// for it while Redis cannot be asked.

import { checkOptions, MAX_COST, shown } from "../engine/errors.js";
import type { Limiter } from "../engine/limiter/limiter.js";
import type { Sluice } from "../engine/limiter/sluice.js";
import type { BucketLimits, LeakyLimits, SeveralLimits, WindowLimits } from "../engine/policy/algorithms.js";
import { kinds } from "../engine/policy/kinds.js";
import { bucketScript } from "./scripts/bucket-script.js";
import { fixedPoint, MOST_UNITS } from "./scripts/fixed-point.js";
import { fixedWindowScript } from "./scripts/fixed-window-script.js";
import type { Script } from "./scripts/script.js";
import { slidingCounterScript } from "./scripts/sliding-counter-script.js";
import { slottedWindowScript } from "./scripts/slotted-window-script.js";
import { type Take, takeOfBucket, takeOfCounter, takeOfWindow } from "./scripts/take-script.js";
import { windowLogScript } from "./scripts/window-log-script.js";

/** As the limiters of a table, but that the burst refills within 20 years: rates of 0 and Infinity are refused. */
export type RedisTokenBucketOptions = BucketLimits | SeveralLimits;
export type RedisLeakyBucketOptions = LeakyLimits;
/** Windows begin at multiples of their length on the server's clock (UTC). */
export type RedisFixedWindowOptions = WindowLimits;
export interface RedisSlidingWindowOptions extends WindowLimits {
  /** Counts in so many time slots, 1 to 12, and never lets more than `limit` pass in any `windowMs`. */
  slots?: number;
  /** Remembers every call: exact to the microsecond, at about 80 bytes a call. */
  log?: boolean;
}

/** One limit as it can be told: of a window, `rate` is its limit over its length. */
export interface RedisLimit {
  /** Tokens per second. */
  readonly rate: number;
  /** Most tokens at once. */
  readonly burst: number;
}

export interface RedisKind {
  /** For the key: a letter, and the unit in which its words count windows. Words of other lengths would be read as of other times. */
  readonly letter: string;
  readonly script: Script;
  /** All numbers of all limits, as the script takes them. */
  readonly numbers: readonly string[];
  /** A shorter way to 'take', if there is one. */
  readonly take?: Take;
  readonly limits: readonly RedisLimit[];
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
  reach: (interval: number) => number,
): Pick<RedisKind, "letter" | "script" | "numbers" | "take" | "limits"> {
  const points = limits.map(({ rate, burst }) => fixedPoint(rate, burst));
  return {
    letter: "b",
    script: bucketScript,
    numbers: points.flatMap((
      { interval, digits },
      i,
    ) => [interval, limits[i].burst, digits, Math.min(MOST_UNITS, reach(interval))]).map(String),
    ...(points.length === 1 && { take: takeOfBucket(points[0], limits[0].burst) }),
    limits: limits.map(({ rate, burst }) => ({ rate, burst })),
  };
}

export function redisTokenBucket(options: RedisTokenBucketOptions): RedisKind {
  const { numbers, limits: several } = kinds.tokenBucket.read(options);
  const limits: readonly BucketLimits[] = several ?? [numbers];
  const shared = (share: number): BucketLimits[] =>
    limits.map(({ rate, burst }) => ({ rate: rate * share, burst: shareOf(burst, share) }));
  return {
    ...bucketsOf(limits, () => MOST_UNITS),
    isQueue: false,
    standIn: (sluice, name, share) => sluice.tokenBucket(name, several ? { limits: shared(share) } : shared(share)[0]),
  };
}

export function redisLeakyBucket(options: RedisLeakyBucketOptions): RedisKind {
  const { kind, numbers } = kinds.leakyBucket.read(options);
  const { rate, burst, extra: queue } = numbers;
  const { isQueue } = kinds[kind];
  return {
    ...bucketsOf([numbers], (interval) => (isQueue ? queue * interval : MOST_UNITS)),
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
  script: Script,
  { limit, windowMs }: WindowLimits,
  numbers: readonly number[],
  standIn: RedisKind["standIn"],
): RedisKind {
  return {
    letter,
    script,
    numbers: [limit, ...numbers].map(String),
    limits: [{ rate: (limit / windowMs) * 1000, burst: limit }],
    isQueue: false,
    standIn,
  };
}

export function redisFixedWindow(options: RedisFixedWindowOptions): RedisKind {
  kinds.fixedWindow.read({ limit: options.limit, windowMs: options.windowMs });
  const { limit, windowMs } = options;
  const kind = windowKind(
    `f${windowMs}`,
    fixedWindowScript,
    options,
    [windowMs * 1000],
    (sluice, name, share) => sluice.fixedWindow(name, { limit: shareOf(limit, share), windowMs, align: "wall" }),
  );
  return { ...kind, take: takeOfWindow(limit, windowMs * 1000) };
}

/** Counts times ticks stay below this, and so exact. */
const MOST_PRODUCT = 2 ** 52;

export function redisSlidingWindow(options: RedisSlidingWindowOptions): RedisKind {
  checkOptions(options);
  const { limit, windowMs, slots, log = false } = options;
  if (typeof log !== "boolean") throw new TypeError(`"log" expected true or false, got ${shown(log)}`);
  if (log && slots !== undefined) throw new TypeError(`"slots" expected nothing beside "log", got ${shown(slots)}`);
  const { numbers } = kinds.slidingWindow.read({ limit, windowMs, ...(slots !== undefined && { slots }) });
  const windowUs = windowMs * 1000;
  const standInSlots = log ? 12 : slots;
  const standIn: RedisKind["standIn"] = (sluice, name, share) =>
    sluice.slidingWindow(name, {
      limit: shareOf(limit, share),
      windowMs,
      ...(standInSlots !== undefined && { slots: standInSlots }),
    });
  if (log) return windowKind("l", windowLogScript, options, [windowUs], standIn);
  const slotUs = Math.ceil(numbers.extra / 1000);
  if (slots !== undefined) return windowKind(`s${slotUs}`, slottedWindowScript, options, [slotUs, slots], standIn);
  const tickUs = 10 ** Math.max(0, Math.ceil(Math.log10((Math.max(1, limit) * windowUs) / MOST_PRODUCT)));
  return {
    ...windowKind(`c${windowMs}`, slidingCounterScript, options, [windowUs, tickUs], standIn),
    take: takeOfCounter(limit, windowUs, tickUs),
  };
}

/** Largest cost that can ever be had at once. */
export function mostAtOnce({ limits }: RedisKind): number {
  return Math.min(MAX_COST, ...limits.map(({ burst }) => burst));
}
