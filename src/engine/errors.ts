// Errors and their texts. A wrong value is a RangeError and a wrong type a
// TypeError, both thrown by the public call; the rest is a SluiceError.

export type SluiceErrorCode =
  /** A wait for more tokens than the burst: they never come. */
  | "ERR_SLUICE_COST_ABOVE_BURST"
  /** A wait for tokens that never come: the rate is 0, or they are further away than a bucket can promise. */
  | "ERR_SLUICE_NEVER"
  /** The tokens do not come within `timeoutMs`, from the start or since the rate was lowered. */
  | "ERR_SLUICE_TIMEOUT"
  /** `maxWaiters` already wait for the key in this thread. */
  | "ERR_SLUICE_TOO_MANY_WAITERS"
  /** A leaky bucket's queue, or a pool's, has no place left. */
  | "ERR_SLUICE_QUEUE_FULL"
  /** The table has no slot for a new key, and evicts none (`whenFull: 'deny'`). */
  | "ERR_SLUICE_TABLE_FULL"
  /** A limiter of this name exists with other options. */
  | "ERR_SLUICE_POLICY_EXISTS"
  /** No limiter has this name. */
  | "ERR_SLUICE_NO_POLICY"
  /** The table has room for 1023 policies, and all are in use. */
  | "ERR_SLUICE_TOO_MANY_POLICIES"
  /** `maxThreads` are attached to the table. */
  | "ERR_SLUICE_TOO_MANY_THREADS"
  /** A thread stopped while it changed a policy, and its end was not announced yet. */
  | "ERR_SLUICE_LOCKED"
  /** A handle of another version of sluice, or a memory without a table. */
  | "ERR_SLUICE_LAYOUT"
  /** A synchronous wait in the main thread, whose timers it would stop. */
  | "ERR_SLUICE_MAIN_THREAD"
  /** The Sluice was closed in this thread. */
  | "ERR_SLUICE_CLOSED"
  /** Redis did not answer in time. */
  | "ERR_SLUICE_DEADLINE"
  /** Redis cannot be asked, and `onFailure: 'closed'` refuses. */
  | "ERR_SLUICE_UNAVAILABLE";

/** @internal What an error is about, where it applies. Never the key: it may be a secret or a person. */
export interface SluiceErrorDetails {
  limiter?: string;
  cost?: number;
  retryAfterMs?: number;
}

/** Every error that is neither a wrong value (RangeError) nor a wrong type (TypeError); `code` says which. */
export class SluiceError extends Error {
  readonly code: SluiceErrorCode;
  /** Name of the limiter, if the error is about one. */
  declare readonly limiter?: string;
  /** Tokens that the call asked for, if it asked for some. */
  declare readonly cost?: number;
  /** ms until the tokens are there, if that is known; Infinity is never. */
  declare readonly retryAfterMs?: number;

  /** @internal */
  constructor(code: SluiceErrorCode, message: string, details: SluiceErrorDetails = {}) {
    super(message);
    this.name = "SluiceError";
    this.code = code;
    Object.assign(this, details);
  }
}

/** The error of a call after the table was closed in this thread, and of a wait that was under way. */
export function closed(): SluiceError {
  return new SluiceError("ERR_SLUICE_CLOSED", "this Sluice was closed in this thread");
}

/** A value as an error message shows it: short, on one line, never throwing. */
export function shown(value: unknown): string {
  if (typeof value === "string") {
    return value.length > 40
      ? `${JSON.stringify(value.slice(0, 40))}... (${value.length} characters)`
      : JSON.stringify(value);
  }
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "symbol" || value === null || typeof value !== "object") {
    return typeof value === "function" ? "a function" : String(value);
  }
  return Array.isArray(value) ? "an array" : "an object";
}

/** The error for an argument: of the wrong type if `got` is not of `type`, else out of range. */
export function unexpected(name: string, expected: string, got: unknown, type = "number"): Error {
  const message = `"${name}" expected ${expected}, got ${shown(got)}`;
  return typeof got === type ? new RangeError(message) : new TypeError(message);
}

export const MAX_COST = 2 ** 31 - 1;

/** Throws unless `cost` is an integer from 0 to 2^31-1. */
export function checkCost(cost: unknown): asserts cost is number {
  if (typeof cost !== "number" || (cost | 0) !== cost || cost < 0) {
    throw unexpected("cost", `an integer from 0 to ${MAX_COST}`, cost);
  }
}

/** Throws unless `ms` is a number >= 0; Infinity means no limit. */
export function checkDuration(name: string, ms: unknown): asserts ms is number {
  if (typeof ms !== "number" || !(ms >= 0)) throw unexpected(name, "a number of milliseconds >= 0, or Infinity", ms);
}

export function checkInteger(name: string, value: unknown, least: number, most: number): asserts value is number {
  if (!Number.isSafeInteger(value) || (value as number) < least || (value as number) > most) {
    throw unexpected(name, `an integer from ${least} to ${most}`, value);
  }
}
