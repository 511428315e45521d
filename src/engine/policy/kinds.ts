// The kinds of policies. All that differs from kind to kind, besides their
// arithmetic, is an entry of this table: Sluice, Policy, the compat faces and
// the Redis limiters read it, and none of them asks for a kind by name.

import { MAX_COST } from "../errors.js";
import type { KernelNumbers } from "../table/kernel.js";
import { fixedWindow, leakyBucket, slidingWindow, tokenBucket, warmUp } from "./algorithms.js";
import { bucketSegments } from "./bucket-segment.js";
import type { Limits, Segment, SegmentKind } from "./segment.js";
import { warmUpSegments } from "./warm-up-segment.js";
import {
  countBits,
  fixedWindowSegments,
  plainSegments,
  type RingSegment,
  ringSegments,
  slidingWindowSegments,
} from "./window-segment.js";

export interface Kind {
  readonly name: PolicyKind;
  /** Its number in a policy's record. */
  readonly number: number;
  /** The kernel's algorithm, */
  readonly algorithm: "BUCKET" | "FIXED_WINDOW" | "SLIDING_COUNTER" | "LEASE" | "RING" | "LIMITS" | "WARM_UP";
  /** its segments, */
  readonly segments: SegmentKind;
  /** and what modifies it. */
  readonly flags: readonly (keyof KernelNumbers & `FLAG_${string}`)[];
  /** `sluice.limiter()` finds it. */
  readonly hasLimiter: boolean;
  /** It is one of the limits of another policy, which is the one that users see. */
  readonly isLimitOfSeveral: boolean;
  /** It has its global bucket only, in a finer scale. */
  readonly isGlobalOnly: boolean;
  /** Its global bucket is empty at first. */
  readonly startsEmpty: boolean;
  /** A wait has a place in a queue, which may be full. */
  readonly isQueue: boolean;
  /** It has a burst, which can be set, and no cost above it is ever granted. */
  readonly hasBurst: boolean;
  /** Of a window: its limit is its burst, and its rate is that limit over its length. */
  readonly window: WindowKind | undefined;
  /** Numbers that a reservation must remember to be cancelled; `limits` is how many limits the policy joins. */
  takenCount(limits: number): number;
  /** Its limits as an error shows them. */
  describe(limits: Limits): string;
}

interface WindowKind {
  lengthNs(segment: Segment): number;
  /** Largest limit that has room in its word or line for 30 years. */
  maxLimit(limits: Limits): number;
}

const plain = {
  algorithm: "BUCKET",
  segments: bucketSegments,
  flags: [],
  hasLimiter: true,
  isLimitOfSeveral: false,
  isGlobalOnly: false,
  startsEmpty: false,
  isQueue: false,
  hasBurst: true,
  window: undefined,
  takenCount: () => 0,
  describe: ({ rate, burst }: Limits) => `rate: ${rate}, burst: ${burst}`,
} as const satisfies Omit<Kind, "name" | "number">;

const describeWindow = ({ burst, extra }: Limits): string => `limit: ${burst}, windowMs: ${extra / 1e6}`;

const entries = {
  tokenBucket: { ...plain, number: 0, read: tokenBucket },
  goLimiter: { ...plain, number: 1, flags: ["FLAG_CUT_WAIT"], isGlobalOnly: true, hasLimiter: false },
  guavaLimiter: {
    ...plain,
    number: 2,
    flags: ["FLAG_PAY_LATER"],
    isGlobalOnly: true,
    hasLimiter: false,
    startsEmpty: true,
  },
  leakyBucket: { ...plain, number: 3, read: leakyBucket },
  leakyQueue: {
    ...plain,
    number: 4,
    read: leakyBucket,
    flags: ["FLAG_QUEUE"],
    isQueue: true,
    describe: ({ rate, burst, extra }) => `rate: ${rate}, burst: ${burst}, queue: ${extra}`,
  },
  fixedWindow: {
    ...plain,
    number: 5,
    read: fixedWindow,
    algorithm: "FIXED_WINDOW",
    segments: fixedWindowSegments,
    window: {
      lengthNs: ({ limits }) => limits.extra,
      maxLimit: ({ extra }) => 2 ** countBits(extra, 1) - 1,
    },
    describe: describeWindow,
  },
  slidingWindow: {
    ...plain,
    number: 6,
    read: slidingWindow,
    algorithm: "SLIDING_COUNTER",
    segments: slidingWindowSegments,
    window: {
      lengthNs: ({ limits }) => limits.extra,
      maxLimit: ({ extra }) => 2 ** countBits(extra, 2) - 1,
    },
    describe: describeWindow,
  },
  slottedWindow: {
    ...plain,
    number: 7,
    read: slidingWindow,
    algorithm: "RING",
    segments: ringSegments,
    window: {
      lengthNs: (segment) => segment.limits.extra * ((segment as RingSegment).ringLength - 1),
      maxLimit: () => MAX_COST,
    },
    describe: ({ burst, extra }) => `limit: ${burst}, slots of ${extra / 1e6} ms`,
  },
  limits: {
    ...plain,
    number: 8,
    read: tokenBucket,
    algorithm: "LIMITS",
    segments: plainSegments,
    takenCount: (limits) => limits,
    describe: ({ rate, burst }) => `limits: [{ rate: ${rate}, burst: ${burst} }, ...]`,
  },
  limit: { ...plain, number: 9, hasLimiter: false, isLimitOfSeveral: true },
  warmUp: {
    ...plain,
    number: 10,
    read: warmUp,
    algorithm: "WARM_UP",
    segments: warmUpSegments,
    hasBurst: false,
    // ns, and the share of what was stored.
    takenCount: () => 2,
    describe: ({ rate, burst, extra }) => `rate: ${rate}, coldFactor: ${burst}, warmupMs: ${extra / 1e6}`,
  },
  lease: { ...plain, number: 11, algorithm: "LEASE", segments: plainSegments, hasLimiter: false },
} satisfies Record<string, Omit<Kind, "name"> & { read?: unknown }>;

export type PolicyKind = keyof typeof entries;

/** The kinds by name. `read` makes a definition of the options of the Sluice method that defines the kind. */
export const kinds = Object.fromEntries(
  Object.entries(entries).map(([name, entry]) => [name, { ...entry, name }]),
) as unknown as {
  readonly [Name in PolicyKind]: Kind & Pick<(typeof entries)[Name], "read" & keyof (typeof entries)[Name]>;
};

const byNumber: readonly Kind[] = Object.values<Kind>(kinds).sort((a, b) => a.number - b.number);

export function kindOf(number: number): Kind {
  return byNumber[number];
}

/**
 * Checks the limit of a window.
 * @throws RangeError if it has no room in its word or line for 30 years.
 */
export function checkLimit({ name, window }: Kind, limits: Limits): void {
  const max = window?.maxLimit(limits) ?? Infinity;
  if (limits.burst > max) {
    throw new RangeError(
      `"limit" expected at most ${max} for a ${name} of ${limits.extra / 1e6} ms, got ${limits.burst}`,
    );
  }
}
