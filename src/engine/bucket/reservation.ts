// A granted future claim on tokens, and how to give it back.

import type { Bucket, DueAt } from "./bucket.js";

export interface Reservation {
  /** False if the cost exceeds the burst, or the delay would exceed `maxWaitMs`; nothing was charged then. */
  readonly granted: boolean;
  /** ms until it is due: 0 is now. If not granted, ms that it would have taken; Infinity is never. */
  readonly delayMs: number;
  /**
   * Gives back the tokens that no later reservation has built on, if it is not
   * past due. Only the first call has an effect. True if tokens went back.
   * @throws SluiceError ERR_SLUICE_CLOSED if the table was closed in this thread.
   */
  cancel(): boolean;
  /** Cancels if it is not yet due; a reservation that was due at once stays charged. */
  [Symbol.dispose](): void;
}

/** @internal A reservation of one bucket, as the kernel just left it in the scratch. */
export class BucketReservation implements Reservation {
  readonly granted: boolean;
  readonly delayMs: number;
  readonly dueAt: DueAt;
  readonly #bucket: Bucket;
  readonly #cost: number;
  /** Last ns at which a cancel counts, as table time in ms. */
  readonly #dueAtMs: number;
  #isOpen: boolean;

  constructor(bucket: Bucket, cost: number, granted: boolean, nowMs: number) {
    const { delayNs, retryNs } = bucket.table.scratch;
    this.granted = granted;
    this.delayMs = (granted && delayNs === Infinity ? Infinity : retryNs) / 1e6;
    this.dueAt = bucket.dueAt;
    this.#bucket = bucket;
    this.#cost = cost;
    this.#dueAtMs = nowMs + Math.floor(delayNs) / 1e6;
    // A cost of 0, an infinite rate or a full table that admits charge nothing.
    this.#isOpen = granted && cost > 0 && (this.dueAt.dueAtLow | this.dueAt.dueAtHigh) !== 0;
  }

  cancel(nowMs = this.#bucket.table.clock.now()): boolean {
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    return nowMs <= this.#dueAtMs && this.#bucket.cancel(this.#cost, this.dueAt, nowMs);
  }

  [Symbol.dispose](): void {
    if (this.#bucket.table.clock.now() < this.#dueAtMs) this.cancel();
  }
}
