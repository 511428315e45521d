// Whether Redis may be asked, for all threads of the process that share a table.
//
// The state is three buckets of the table, so each question below is one atomic
// decision, in whichever thread asks it. While Redis answers, nothing is written.
// After more than MAX_STRIKES failures within the probe interval, Redis is given up:
// from then on one thread probes it, once an interval, and the first answer ends it.

import type { KeyedLimiter } from "../../engine/limiter/keyed-limiter.js";
import type { Sluice } from "../../engine/limiter/sluice.js";
import { every } from "../../engine/policy/rate.js";

const MAX_STRIKES = 3;

export class Breaker {
  /** In debt while Redis is given up. It never has tokens. */
  readonly #given: KeyedLimiter;
  readonly #strikes: KeyedLimiter;
  /** The thread that takes its token may probe. */
  readonly #probes: KeyedLimiter;

  constructor(sluice: Sluice, prefix: string, probeMs: number) {
    this.#given = sluice.tokenBucket(`redis:${prefix}:given up`, { rate: 0, burst: 0 }).global;
    this.#strikes = sluice.tokenBucket(`redis:${prefix}:strikes`, { rate: every(probeMs), burst: MAX_STRIKES }).global;
    this.#probes = sluice.tokenBucket(`redis:${prefix}:probes`, { rate: every(probeMs), burst: 1 }).global;
  }

  get isOpen(): boolean {
    return !this.#given.allow(0);
  }

  /** Whether to ask: 'ask' as always, 'probe' for all threads, or 'skip' the call. */
  get advice(): "ask" | "probe" | "skip" {
    if (!this.isOpen) return "ask";
    return this.#probes.allow() ? "probe" : "skip";
  }

  failed(): void {
    if (this.#strikes.allow() || this.isOpen) return;
    // The first probe is due an interval from now.
    this.#probes.allow();
    this.#given.charge();
  }

  recovered(): void {
    this.#given.reset();
    this.#strikes.reset();
  }
}
