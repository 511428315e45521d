// One call, several dimensions: service, user, address.

import type { Reservation } from "../bucket/reservation.js";
import { checkCost, checkOptions, shown } from "../errors.js";
import type { Key } from "../table/key.js";
import { all, type GroupDecision, type Part, reserveAll, waitAll } from "./all.js";
import type { Limiter, ReserveOptions } from "./limiter.js";

/** A key for every dimension; null where a call has none, which that dimension then does not limit. */
export type Keys<Dimension extends string> = Record<Dimension, Key | null>;

/** Decides by a limiter for each dimension, all or nothing. */
export class Hierarchy<Dimension extends string> {
  readonly #limiters: readonly (readonly [Dimension, Limiter])[];

  /** Made by `sluice.hierarchy()`. Dimensions are asked in the order given: put first the one that refuses most. */
  constructor(limiters: Record<Dimension, Limiter>) {
    checkOptions(limiters, "limiters");
    this.#limiters = Object.entries(limiters) as [Dimension, Limiter][];
  }

  /** True if every dimension admits; then all are charged, else none. */
  allow(keys: Keys<Dimension>, cost = 1): boolean {
    return this.consume(keys, cost).allowed;
  }

  /** As `allow`, with the answer of the dimension that refused or has the fewest tokens left. */
  consume(keys: Keys<Dimension>, cost = 1): GroupDecision {
    return all(this.#parts(keys, cost));
  }

  reserve(keys: Keys<Dimension>, cost = 1, options: ReserveOptions = {}): Reservation {
    return reserveAll(this.#parts(keys, cost), options);
  }

  async wait(
    keys: Keys<Dimension>,
    cost = 1,
    options: { signal?: AbortSignal; timeoutMs?: number } = {},
  ): Promise<void> {
    return waitAll(this.#parts(keys, cost), options);
  }

  #parts(keys: Keys<Dimension>, cost: number): Part[] {
    checkOptions(keys, "keys");
    checkCost(cost);
    const parts: Part[] = [];
    for (const [dimension, limiter] of this.#limiters) {
      const key = keys[dimension];
      if (key === undefined) {
        throw new TypeError(`"keys.${dimension}" expected a key, or null if the call has none, got ${shown(key)}`);
      }
      if (key !== null) parts.push([limiter, key, cost]);
    }
    if (parts.length === 0) throw new RangeError("\"keys\" expected a key for at least one dimension, got none");
    return parts;
  }
}
