// What goes wrong, and how it is said. Wrong values are RangeErrors and wrong
// types TypeErrors, both at the public door; the rest carries a code.

export type SluiceErrorCode =
  /** A wait for more tokens than the burst can ever hold. */
  | "ERR_SLUICE_COST_ABOVE_BURST"
  /** A wait that cannot end, because the rate is 0. */
  | "ERR_SLUICE_NEVER"
  /** A deadline that cannot be met, or that passed after the rate was lowered. */
  | "ERR_SLUICE_TIMEOUT"
  | "ERR_SLUICE_TOO_MANY_WAITERS"
  /** A leaky bucket's queue, or a pool's, has no place left. */
  | "ERR_SLUICE_QUEUE_FULL"
  /** A table that denies newcomers when it is full, and is. */
  | "ERR_SLUICE_TABLE_FULL"
  /** A policy of this name exists with other options. */
  | "ERR_SLUICE_POLICY_EXISTS"
  | "ERR_SLUICE_NO_POLICY"
  | "ERR_SLUICE_TOO_MANY_POLICIES"
  | "ERR_SLUICE_TOO_MANY_THREADS"
  /** A thread was stopped while it changed a policy, and is not known to be dead yet. */
  | "ERR_SLUICE_LOCKED"
  /** A handle from another version of sluice, or no handle at all. */
  | "ERR_SLUICE_LAYOUT"
  /** Blocking the main thread would stop the timers that others wait for. */
  | "ERR_SLUICE_MAIN_THREAD"
  | "ERR_SLUICE_CLOSED"
  /** Redis did not answer in time. */
  | "ERR_SLUICE_DEADLINE"
  /** Redis cannot be asked, and what it would have decided is refused. */
  | "ERR_SLUICE_UNAVAILABLE";

/** What an error is about, where it applies. Never the key: it may be a secret or a person. */
export interface SluiceErrorDetails {
  /** Name of the limiter. */
  limiter?: string;
  /** Tokens asked for. */
  cost?: number;
  /** When the same call could succeed, ms from now; Infinity is never. */
  retryAfterMs?: number;
}

/** Whatever is neither a wrong value (RangeError) nor a wrong type (TypeError): `code` says what. */
export class SluiceError extends Error {
  readonly code: SluiceErrorCode;
  /** Name of the limiter, if the error is about one. */
  declare readonly limiter?: string;
  /** Tokens asked for, if the error is about a call that asked for some. */
  declare readonly cost?: number;
  /** When the same call could succeed, ms from now; Infinity is never. */
  declare readonly retryAfterMs?: number;

  constructor(code: SluiceErrorCode, message: string, details: SluiceErrorDetails = {}) {
    super(message);
    this.name = "SluiceError";
    this.code = code;
    Object.assign(this, details);
  }
}

/** The error for what is called, or still waits, after a table was closed. */
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
