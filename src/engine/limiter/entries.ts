// What a group of limiters is asked for, entry by entry.

import { Bucket, type DueAt } from "../bucket/bucket.js";
import { checkCost, shown } from "../errors.js";
import { type Key, noKey } from "../table/key.js";
import type { Table } from "../table/table.js";
import { bucketOf, type KeyedLimiter } from "./keyed-limiter.js";
import { type Limiter, policyOf } from "./limiter.js";

/**
 * One entry of `all`: a limiter with a key, or what is bound to a bucket already
 * (`limiter.key("alice")`, `limiter.global`). The cost is 1 if it is left out.
 */
export type Entry =
  | readonly [limiter: Limiter, key: Key, cost?: number]
  | readonly [handle: KeyedLimiter, cost?: number];

/** @internal What one bucket is charged. */
export interface Charge {
  readonly bucket: Bucket;
  /** Index of its entry, or of the first of several for the same bucket. */
  readonly entryIndex: number;
  cost: number;
  dueAt: DueAt | undefined;
  /** What it took: the cost, and what would have overflowed until a reservation is due. */
  taken: number;
}

const EXPECTED = "[limiter, key, cost?] or [limiter.global, cost?]";

/**
 * The charges of entries, one for each bucket. Throws for an invalid entry, and for limiters of different tables.
 * @internal
 */
export function chargesOf(entries: readonly Entry[]): Charge[] {
  if (!Array.isArray(entries) || entries.length === 0) {
    throw new TypeError(
      `"entries" expected an array of ${EXPECTED}, got ${Array.isArray(entries) ? "an empty array" : shown(entries)}`,
    );
  }
  let table: Table | undefined;
  const charges: Charge[] = [];
  entries.forEach((entry: Entry, i) => {
    const { bucket, cost } = asked(entry, i);
    table ??= bucket.table;
    if (bucket.table !== table) {
      throw new RangeError(
        `"entries[${i}]" expected a limiter of the same Sluice as the others, got ${
          JSON.stringify(bucket.policy.name)
        } of another`,
      );
    }
    // The same bucket twice is asked once for both costs.
    const same = charges.find((each) => each.bucket.isSame(bucket));
    if (same) checkCost(same.cost += cost);
    else charges.push({ bucket, entryIndex: i, cost, dueAt: undefined, taken: 0 });
  });
  return charges;
}

/** The bucket and the cost of one entry. */
function asked(entry: Entry, i: number): { bucket: Bucket; cost: number } {
  const isArray = Array.isArray(entry);
  const [first, second, third] = isArray ? entry : [];
  const bound = bucketOf(first);
  const policy = policyOf(first);
  if (!bound && !policy) {
    throw new TypeError(`"entries[${i}]" expected ${EXPECTED}, got ${shown(isArray ? first : entry)}`);
  }
  if (entry.length > (bound ? 2 : 3)) {
    throw new TypeError(`"entries[${i}]" expected ${EXPECTED}, got an array of ${entry.length}`);
  }
  if (!bound && second === undefined) throw noKey(second);
  const cost: unknown = bound ? second : third;
  if (cost !== undefined) checkCost(cost);
  return { bucket: bound ?? new Bucket(policy!, second as Key), cost: cost ?? 1 };
}
