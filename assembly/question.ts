// What a call asks, and the answer that its algorithm finds.

import { Policy, Segment } from "./layout/policy";
import { ADMIT, header } from "./layout/table";
import { Counters } from "./layout/thread";
import { count, scratch } from "./thread";

// What a call asks: any of these together.

/** Take what is granted; else only look. */
export const CONSUME: i32 = 1;
/** Charge whatever the bucket holds, into debt if need be. */
export const DEBT: i32 = 2;
/** Grant also what can never act, because the rate is 0. */
export const EVEN_NEVER: i32 = 4;
/** The policy's global bucket instead of the key in the scratch. */
export const GLOBAL: i32 = 8;
/** Leave the whole answer in the scratch, not only yes or no. */
export const ANSWER: i32 = 16;
/** The scratch's slot is where the key's was the last time. */
export const HINTED: i32 = 32;
/** Decide as of a time that is still to come; the scratch has the present one. */
export const AS_OF: i32 = 64;

/** The answer of a hot call that met something rare: ask again by the key. */
export const LOOK_UP: i32 = 2;
/** A wait without an end. */
export const FOREVER: i64 = i64.MAX_VALUE;

// What an algorithm found, before it is known whether the state can be put back.

export let isGranted: bool = false;
/** The state word to write. */
export let nextWord: u64 = 0;

/** Says whether the call is granted, and which word then to write (0 for a line, which is written in the scratch). */
@inline
export function grant(is: bool, next: u64): void {
  isGranted = is;
  nextWord = next;
}

/**
 * Leaves an answer in the scratch: tokens after it, ns until the cost would conform
 * (0 if it does, Infinity never), ns until the bucket is full, ns until a granted
 * cost may act, and the moment at which it may, by which it is cancelled (0 if
 * nothing was charged).
 */
export function leave(tokens: f64, retryNs: f64, resetNs: f64, delayNs: f64, dueAt: u64): void {
  const answer = scratch();
  answer.tokens = tokens;
  answer.remaining = max(0, floor(tokens));
  answer.retryNs = retryNs;
  answer.resetNs = resetNs;
  answer.delayNs = delayNs;
  answer.dueAt = dueAt;
}

/** The answer of a call that has lost its patience: not now. */
export function giveUp(policy: Policy): i32 {
  leave(0, 1e6, 0, 1e6, 0);
  return refused(policy);
}

/** The answer for a new key that found no room. */
export function full(policy: Policy): i32 {
  if (header().whenFull != ADMIT) {
    count(policy, offsetof<Counters>("fullDenied"));
    return refused(policy);
  }
  count(policy, offsetof<Counters>("fullAllowed"));
  return admitted(policy);
}

/** The answer under an infinite rate. */
export function unlimited(policy: Policy, segment: Segment, mode: i32): i32 {
  if (mode & CONSUME) count(policy, offsetof<Counters>("allowed"));
  if (mode & ANSWER) leave(f64(segment.limitTokens), 0, 0, 0, 0);
  return 1;
}

@inline
export function admitted(policy: Policy): i32 {
  count(policy, offsetof<Counters>("allowed"));
  return 1;
}

@inline
export function refused(policy: Policy): i32 {
  count(policy, offsetof<Counters>("denied"));
  return 0;
}
