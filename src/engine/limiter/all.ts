// All or nothing over several limiters: per user, per tenant, global.
//
// The parts are charged in order, each exactly; when one refuses, those before
// it get back what they gave, which leaves no charge behind. Nobody is ever
// admitted too much. For the moment between, some hundred nanoseconds, another
// call may be refused by a charge that is about to be taken back: a group may
// so admit a little less under contention, never more.
//
// A reservation charges every part as of the one moment at which all of them
// have room, so that the parts act together; until then it keeps others from
// the parts that would have had room before.

import { Bucket, type DueAt } from "../bucket/bucket.js";
import type { Decision } from "../bucket/decision.js";
import type { Reservation } from "../bucket/reservation.js";
import { checkCost, checkDuration, checkOptions, shown, SluiceError } from "../errors.js";
import type { Key } from "../table/key.js";
import type { Table } from "../table/table.js";
import { sleepUntil } from "../waiting/sleep.js";
import { type Limiter, policyOf, type ReserveOptions } from "./limiter.js";

/** A limiter, its key (left out: its global bucket), and the cost (1 if left out). */
export type Part = readonly [limiter: Limiter, key?: Key | undefined, cost?: number];

/** The answer of the part that refused; if all admit, of the one with the fewest tokens left. */
export interface GroupDecision extends Decision {
  /** Name of the first limiter that refused. */
  readonly refusedBy?: string;
  /** The part that answers: the first that refused, or the one with the fewest tokens left. */
  readonly partIndex: number;
}

interface Charge {
  readonly bucket: Bucket;
  /** Which part it is, or the first one of several for the same bucket. */
  readonly partIndex: number;
  cost: number;
  dueAt: DueAt | undefined;
  /** What it took: the cost, and what would have overflowed until a reservation acts. */
  taken: number;
}

/** What is to be charged, bucket by bucket. Throws if a part is not one, or if two belong to different tables. */
function chargesOf(parts: readonly Part[]): Charge[] {
  if (!Array.isArray(parts) || parts.length === 0) {
    throw new TypeError(`"parts" expected an array of [limiter, key?, cost?], got ${shown(parts)}`);
  }
  let table: Table | undefined;
  const charges: Charge[] = [];
  parts.forEach((part: Part, i) => {
    const policy = Array.isArray(part) ? policyOf(part[0]) : undefined;
    if (!policy) {
      throw new TypeError(
        `"parts[${i}]" expected [limiter, key?, cost?], got ${shown(Array.isArray(part) ? part[0] : part)}`,
      );
    }
    table ??= policy.table;
    if (policy.table !== table) {
      throw new RangeError(
        `"parts[${i}]" expected a limiter of the same Sluice as the others, got ${
          JSON.stringify(policy.name)
        } of another`,
      );
    }
    const [, key, cost = 1] = part;
    checkCost(cost);
    const bucket = new Bucket(policy, key);
    // The same bucket twice is asked once for both costs.
    const same = charges.find((each) => each.bucket.isSame(bucket));
    if (same) checkCost(same.cost += cost);
    else charges.push({ bucket, partIndex: i, cost, dueAt: undefined, taken: 0 });
  });
  return charges;
}

function giveBack(charges: readonly Charge[], nowMs: number): void {
  for (const { bucket, cost, dueAt, taken } of charges) {
    if (cost > 0 && dueAt && (dueAt.dueAtLow | dueAt.dueAtHigh) !== 0) {
      bucket.cancel(bucket.policy.kind.window ? cost : taken, dueAt, nowMs);
    }
  }
}

/** Charges every part at `nowMs`, or as of a later moment, or none: the answer. */
function charge(charges: readonly Charge[], nowMs: number, asOfMs = nowMs): GroupDecision {
  let fewest: Decision | undefined;
  let partIndex = 0;
  for (let i = 0; i < charges.length; i++) {
    const each = charges[i];
    const decision = each.bucket.ask(true, each.cost, nowMs, asOfMs);
    if (!decision.allowed) {
      giveBack(charges.slice(0, i), nowMs);
      return refusal(charges, asOfMs, i, decision);
    }
    each.dueAt = each.bucket.dueAt;
    each.taken = each.bucket.takenFirst;
    if (!fewest || decision.remaining < fewest.remaining) {
      fewest = decision;
      partIndex = each.partIndex;
    }
  }
  const { allowed, limit, remaining, retryAfterMs, resetMs, limitIndex } = fewest!;
  // Field by field: a spread takes several hundred ns here.
  return limitIndex === undefined
    ? { allowed, limit, remaining, retryAfterMs, resetMs, partIndex }
    : { allowed, limit, remaining, retryAfterMs, resetMs, limitIndex, partIndex };
}

/** The refusal of part `by`, with the longest wait that any part asks for. */
function refusal(charges: readonly Charge[], asOfMs: number, by: number, decision: Decision): GroupDecision {
  let { retryAfterMs, resetMs } = decision;
  for (const { bucket, cost } of charges.slice(by + 1)) {
    const other = bucket.ask(false, cost, asOfMs);
    retryAfterMs = Math.max(retryAfterMs, other.retryAfterMs);
    resetMs = Math.max(resetMs, other.resetMs);
  }
  return {
    ...decision,
    retryAfterMs,
    resetMs,
    refusedBy: charges[by].bucket.policy.name,
    partIndex: charges[by].partIndex,
  };
}

/** Takes the cost of every part, or of none. */
export function all(parts: readonly Part[]): GroupDecision {
  const charges = chargesOf(parts);
  return charge(charges, charges[0].bucket.table.clock.now());
}

/** Attempts at a common moment before a reservation gives way to contention. */
const ATTEMPTS = 100;

class GroupReservation implements Reservation {
  readonly granted: boolean;
  readonly delayMs: number;
  readonly refusedBy: string | undefined;
  readonly #charges: readonly Charge[];
  readonly #dueAtMs: number;
  #isOpen: boolean;

  constructor(charges: readonly Charge[], granted: boolean, nowMs: number, delayMs: number, refusedBy?: string) {
    this.granted = granted;
    this.delayMs = delayMs;
    this.refusedBy = refusedBy;
    this.#charges = charges;
    this.#dueAtMs = nowMs + delayMs;
    this.#isOpen = granted;
  }

  cancel(): boolean {
    const nowMs = this.#charges[0].bucket.table.clock.now();
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    if (nowMs > this.#dueAtMs) return false;
    giveBack(this.#charges, nowMs);
    return true;
  }

  [Symbol.dispose](): void {
    if (this.#charges[0].bucket.table.clock.now() < this.#dueAtMs) this.cancel();
  }
}

function reserve(charges: readonly Charge[], maxWaitMs: number, nowMs: number): GroupReservation {
  let delayMs = 0;
  let refusedBy: string | undefined;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const answer = charge(charges, nowMs, nowMs + delayMs);
    if (answer.allowed) return new GroupReservation(charges, true, nowMs, delayMs);
    refusedBy = answer.refusedBy;
    delayMs += answer.retryAfterMs;
    if (delayMs > maxWaitMs || delayMs === Infinity) break;
  }
  return new GroupReservation(charges, false, nowMs, delayMs, refusedBy);
}

/** Takes the cost of every part as of the first moment when all have room, or of none if that is too far off. */
export function reserveAll(
  parts: readonly Part[],
  options: ReserveOptions = {},
): Reservation & { readonly refusedBy?: string | undefined } {
  checkOptions(options);
  const { maxWaitMs = Infinity } = options;
  checkDuration("maxWaitMs", maxWaitMs);
  const charges = chargesOf(parts);
  return reserve(charges, maxWaitMs, charges[0].bucket.table.clock.now());
}

/**
 * Waits until every part has room and takes it. It holds nothing while it
 * waits, so that a slow part does not keep others from a fast one; who waits
 * for the same parts is not served in order. Rejects as `limiter.wait` does.
 */
export async function waitAll(
  parts: readonly Part[],
  options: { signal?: AbortSignal; timeoutMs?: number } = {},
): Promise<void> {
  checkOptions(options);
  const { signal, timeoutMs = Infinity } = options;
  checkDuration("timeoutMs", timeoutMs);
  const charges = chargesOf(parts);
  signal?.throwIfAborted();
  const { table } = charges[0].bucket;
  const { clock } = table;
  const deadlineMs = clock.now() + timeoutMs;
  for (;;) {
    const nowMs = clock.now();
    const { allowed, retryAfterMs, refusedBy } = charge(charges, nowMs);
    if (allowed) return;
    if (retryAfterMs === Infinity) {
      throw new SluiceError(
        "ERR_SLUICE_NEVER",
        `${JSON.stringify(refusedBy)} can never admit this: a wait would never end`,
      );
    }
    if (nowMs + retryAfterMs > deadlineMs) {
      throw new SluiceError(
        "ERR_SLUICE_TIMEOUT",
        `"timeoutMs" expected at least ${retryAfterMs + nowMs - deadlineMs + timeoutMs} (for ${
          JSON.stringify(refusedBy)
        }), got ${timeoutMs}`,
      );
    }
    await sleepUntil(table, nowMs + retryAfterMs, signal);
  }
}
