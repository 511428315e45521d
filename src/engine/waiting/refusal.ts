// Why a wait failed, and the error that says so: the same words for limiters in
// a table and in Redis.

import { SluiceError } from "../errors.js";

/** A wait that was refused when it was asked for, and charged nothing. */
export interface Refusal {
  /** Name of the limiter. */
  readonly limiter: string;
  /** Tokens asked for. */
  readonly cost: number;
  /** Largest cost that can ever be had at once: the burst, or the smallest of several. */
  readonly maxCost: number;
  /** ms until the tokens would be there; Infinity is never. */
  readonly delayMs: number;
  /** The longest wait that was accepted, ms. */
  readonly timeoutMs: number;
  /** The limiter is a queue: what is refused although it is within the timeout had no place. */
  readonly isQueue: boolean;
  /** The key has no slot, and the table does not evict. */
  readonly isTableFull?: boolean;
}

/** The error of a wait that was refused: the first reason that applies. */
export function refused(
  { limiter, cost, maxCost, delayMs, timeoutMs, isQueue, isTableFull = false }: Refusal,
): SluiceError {
  const name = JSON.stringify(limiter);
  const details = { limiter, cost, retryAfterMs: delayMs };
  if (cost > maxCost) {
    return new SluiceError(
      "ERR_SLUICE_COST_ABOVE_BURST",
      `never: ${tokens(cost)} of ${name} are more than its burst of ${maxCost}`,
      { ...details, retryAfterMs: Infinity },
    );
  }
  if (delayMs === Infinity) {
    return new SluiceError("ERR_SLUICE_NEVER", `never: ${name} has rate 0 and fewer than ${tokens(cost)}`, details);
  }
  if (isQueue && delayMs <= timeoutMs) {
    return new SluiceError("ERR_SLUICE_QUEUE_FULL", `queue full: ${name} has no place for ${cost} more`, details);
  }
  if (isTableFull) {
    return new SluiceError(
      "ERR_SLUICE_TABLE_FULL",
      `table full: no slot for a new key of ${name}, and the table evicts none`,
      details,
    );
  }
  const away = `${tokens(cost)} of ${name} ${cost === 1 ? "is" : "are"} ${shownMs(delayMs)} ms away`;
  return timeoutMs === Infinity
    ? new SluiceError("ERR_SLUICE_NEVER", `never: ${away}, further than a bucket can promise`, details)
    : new SluiceError("ERR_SLUICE_TIMEOUT", `timed out: ${away}, timeoutMs is ${timeoutMs}`, details);
}

/** The error of a wait for a key that `waiting` others wait for already, which is `maxWaiters` or more. */
export function crowded(limiter: string, cost: number, waiting: number, maxWaiters: number): SluiceError {
  return new SluiceError(
    "ERR_SLUICE_TOO_MANY_WAITERS",
    `too many waiters: ${waiting} wait for this key of ${JSON.stringify(limiter)}, maxWaiters is ${maxWaiters}`,
    { limiter, cost },
  );
}

/** The error of a wait whose deadline passed after its tokens had been promised. */
export function passed(limiter: string, cost: number, retryAfterMs: number): SluiceError {
  return new SluiceError(
    "ERR_SLUICE_TIMEOUT",
    `timed out: the rate of ${JSON.stringify(limiter)} was lowered during the wait; the tokens went back`,
    { limiter, cost, retryAfterMs },
  );
}

function tokens(cost: number): string {
  return cost === 1 ? "1 token" : `${cost} tokens`;
}

function shownMs(ms: number): number {
  return Number(ms.toPrecision(6));
}
