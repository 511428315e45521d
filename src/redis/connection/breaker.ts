// Whether Redis may be asked, for all threads of the process that share a table.
//
// It is three of the table's own buckets, so that every question below is one
// atomic decision of whichever thread asks it. While Redis answers, nothing is
// written. After more than STRIKES failures within the probe interval it is
// given up: from then on one thread at a time asks, once an interval, and the
// first answer ends it.

import type { KeyedLimiter } from "../../engine/limiter/keyed-limiter.js";
import type { Sluice } from "../../engine/limiter/sluice.js";
import { every } from "../../engine/policy/rate.js";

const STRIKES = 3;

export class Breaker {
  /** In debt while Redis is given up. It has no tokens, and none come. */
  readonly #given: KeyedLimiter;
  readonly #strikes: KeyedLimiter;
  /** Who takes its token may ask while Redis is given up. */
  readonly #probes: KeyedLimiter;

  constructor(sluice: Sluice, prefix: string, probeMs: number) {
    this.#given = sluice.tokenBucket(`redis:${prefix}:given up`, { rate: 0, burst: 0 }).key();
    this.#strikes = sluice.tokenBucket(`redis:${prefix}:strikes`, { rate: every(probeMs), burst: STRIKES }).key();
    this.#probes = sluice.tokenBucket(`redis:${prefix}:probes`, { rate: every(probeMs), burst: 1 }).key();
  }

  get isOpen(): boolean {
    return !this.#given.allow(0);
  }

  /** 'ask' as always, 'probe' for all others, or 'skip'. */
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
