// Several limits on one key, as that many exact buckets.

import { ModelBucket, type ModelTicket } from "./model.js";

export interface Limit {
  rate: number;
  burst: number;
}

/** A key under several limits, as one bucket for each: a cost acts when the slowest has room. */
export class ModelLimits {
  readonly buckets: ModelBucket[];

  constructor(limits: readonly Limit[], nowNs: bigint) {
    this.buckets = limits.map(({ rate, burst }) => new ModelBucket({ rate, burst, nowNs }));
  }

  waitsNs(nowNs: bigint, cost: number): number[] {
    return this.buckets.map((bucket) => bucket.waitNs(nowNs, cost));
  }

  waitNs(nowNs: bigint, cost: number): number {
    return Math.max(...this.waitsNs(nowNs, cost));
  }

  /** Charges all as of the moment when all have room, or none. */
  reserve(nowNs: bigint, cost: number, maxWaitNs: number): boolean {
    return this.claim(nowNs, cost, maxWaitNs) !== undefined;
  }

  /** The same, with what a cancel needs. */
  claim(nowNs: bigint, cost: number, maxWaitNs: number): ModelTicket[] | undefined {
    const waitNs = this.waitNs(nowNs, cost);
    if (waitNs === Infinity || waitNs > maxWaitNs) return undefined;
    const dueNs = nowNs + BigInt(waitNs);
    return this.buckets.map((bucket) => {
      const { granted, ticket } = bucket.reserve(dueNs, cost, 0);
      if (!granted) throw new Error("a bucket without room at the common moment");
      return ticket;
    });
  }

  tokens(nowNs: bigint): number[] {
    return this.buckets.map((bucket) => bucket.peekTokens(nowNs));
  }
}
