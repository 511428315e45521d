// The options of a single call: how long it may wait, and what ends the wait.

import { checkDuration, checkInteger, unexpected } from "../errors.js";
import { checkOptions } from "../options.js";

/** Options of `reserve` and `reserveAll`. */
export interface ReserveOptions {
  /** Longest delay to accept, ms >= 0; Infinity by default. A reservation that would take longer is not granted. */
  maxWaitMs?: number;
}

/** Options of `waitSync`. */
export interface WaitSyncOptions {
  /** Longest wait, ms >= 0; Infinity by default. A wait that would take longer fails at once and charges nothing. */
  timeoutMs?: number;
}

/** Options of `waitAll` and of a hierarchy's `wait`. */
export interface WaitAllOptions extends WaitSyncOptions {
  /** Ends the wait: it rejects with the signal's reason, and its tokens go back. */
  signal?: AbortSignal;
}

/** Options of `wait`. */
export interface WaitOptions extends WaitAllOptions {
  /**
   * Fails at once if this many calls, an integer >= 0, already wait for the key in this thread; Infinity
   * by default.
   */
  maxWaiters?: number;
}

/** The options of a wait with their defaults. */
export interface CheckedWait {
  readonly signal?: AbortSignal;
  readonly timeoutMs: number;
  readonly maxWaiters: number;
}

/** The longest delay that `options` of a reservation accept, ms. Throws for wrong options. */
export function maxWaitOf(options: ReserveOptions): number {
  checkOptions(options, ["maxWaitMs"]);
  const { maxWaitMs = Infinity } = options;
  checkDuration("maxWaitMs", maxWaitMs);
  return maxWaitMs;
}

/** The longest wait that `options` accept, ms. Throws for wrong options. */
export function timeoutOf(options: WaitSyncOptions): number {
  checkOptions(options, ["timeoutMs"]);
  const { timeoutMs = Infinity } = options;
  checkDuration("timeoutMs", timeoutMs);
  return timeoutMs;
}

const WAIT_OPTIONS = ["signal", "timeoutMs", "maxWaiters"];

/** Throws for wrong options, and the signal's reason if it is aborted already. */
export function checkWait(options: WaitOptions, known: readonly string[] = WAIT_OPTIONS): CheckedWait {
  checkOptions(options, known);
  const { signal, timeoutMs = Infinity, maxWaiters = Infinity } = options;
  checkDuration("timeoutMs", timeoutMs);
  if (maxWaiters !== Infinity) checkInteger("maxWaiters", maxWaiters, 0, Number.MAX_SAFE_INTEGER);
  checkSignal(signal);
  return { ...(signal && { signal }), timeoutMs, maxWaiters };
}

/** As `checkWait`, where nothing counts the waiters. */
export function checkWaitAll(options: WaitAllOptions): CheckedWait {
  return checkWait(options, ["signal", "timeoutMs"]);
}

/** Throws TypeError unless it is an AbortSignal or undefined, and the signal's reason if it is aborted already. */
export function checkSignal(signal: unknown): asserts signal is AbortSignal | undefined {
  if (signal === undefined) return;
  if (!(signal instanceof AbortSignal)) throw unexpected("signal", "an AbortSignal", signal, "AbortSignal");
  signal.throwIfAborted();
}
