// What a user holds: a policy whose buckets are in Redis. The face is that of a
// table's limiter, except that every call is one round trip and returns a promise.

import type { ReserveOptions, WaitOptions } from "../engine/limiter/call-options.js";
import type { Key } from "../engine/table/key.js";
import { RedisBuckets, type RedisLimiterStats } from "./buckets.js";
import type { RedisDecision } from "./connection/fallback.js";
import { redisKeys } from "./key.js";
import { keyedLimiter, type RedisKeyedLimiter } from "./keyed-limiter.js";
import type { RedisLimit } from "./kinds.js";
import type { RedisPolicy } from "./policy.js";
import type { RedisReservation } from "./reservation.js";
import { RedisWaiters } from "./waiters.js";

/** @internal Makes the limiter of a policy. */
export let redisLimiter: (policy: RedisPolicy) => RedisLimiter;

/**
 * Limits many keys by one policy, for all processes that share a Redis. Made by
 * `redis.tokenBucket()` and the like.
 *
 * A key is a string, a finite number, a bigint or a Uint8Array; the one bucket
 * without a key is `global`. Costs are integers from 0 to 2^31-1, 1 by default; 0
 * asks without taking. Every method rejects with RangeError or TypeError for a wrong
 * argument, and with ERR_SLUICE_CLOSED after `close()`. Only `wait` rejects because
 * Redis cannot be asked, under `onFailure: 'closed'`.
 */
export class RedisLimiter {
  static {
    redisLimiter = (policy) => new RedisLimiter(policy);
  }

  readonly #policy: RedisPolicy;
  readonly #buckets: RedisBuckets;
  readonly #waiters = new RedisWaiters();
  /** The policy's one global bucket: the same methods without a key, shared by all processes. */
  readonly global: RedisKeyedLimiter;

  private constructor(policy: RedisPolicy) {
    this.#policy = policy;
    this.#buckets = new RedisBuckets(policy);
    this.global = keyedLimiter(this.#buckets, this.#waiters, undefined, true);
  }

  /** The name that it was made with. */
  get name(): string {
    return this.#policy.name;
  }

  /** Its limits: one, or as many as it was made with. */
  get limits(): readonly RedisLimit[] {
    return this.#policy.kind.limits;
  }

  /** Counts of this thread. */
  stats(): RedisLimiterStats {
    return { ...this.#buckets.stats };
  }

  /** This limiter for one key. Throws RangeError or TypeError for an invalid key. */
  key(key: Key): RedisKeyedLimiter {
    redisKeys("", "", "", key, false, 1);
    return this.#of(key);
  }

  #of(key: Key): RedisKeyedLimiter {
    return keyedLimiter(this.#buckets, this.#waiters, key, false);
  }

  /** Takes `cost` tokens of `key` if they are there. */
  allow(key: Key, cost = 1): Promise<boolean> {
    return this.#of(key).allow(cost);
  }

  /** As `allow`, with the whole answer. */
  consume(key: Key, cost = 1): Promise<RedisDecision> {
    return this.#of(key).consume(cost);
  }

  /** What `consume` would answer; takes nothing. */
  peek(key: Key, cost = 1): Promise<RedisDecision> {
    return this.#of(key).peek(cost);
  }

  /**
   * Takes `cost` tokens, from the future if need be, and says how long to wait before acting; see
   * `RedisKeyedLimiter.reserve`.
   */
  reserve(key: Key, cost = 1, options: ReserveOptions = {}): Promise<RedisReservation> {
    return this.#of(key).reserve(cost, options);
  }

  /** Waits until `cost` tokens of `key` are there; see `RedisKeyedLimiter.wait` for the errors. */
  wait(key: Key, cost = 1, options: WaitOptions = {}): Promise<void> {
    return this.#of(key).wait(cost, options);
  }

  /** Gives `cost` tokens back to `key`, at most up to the burst; see `RedisKeyedLimiter.refund`. */
  refund(key: Key, cost = 1, taken?: { readonly degraded?: boolean }): Promise<boolean> {
    return this.#of(key).refund(cost, taken);
  }

  /** Takes `cost` tokens whether they are there or not; see `RedisKeyedLimiter.charge`. */
  charge(key: Key, cost = 1): Promise<boolean> {
    return this.#of(key).charge(cost);
  }

  /** Makes the bucket of `key` full, as if never used. Resolves to false if Redis did not confirm it. */
  reset(key: Key): Promise<boolean> {
    return this.#of(key).reset();
  }

  /**
   * Rejects all waits with ERR_SLUICE_CLOSED, and all later calls. Resolves when the
   * turns of the waits are given back. The client stays open.
   */
  async close(): Promise<void> {
    this.#buckets.isClosed = true;
    await this.#waiters.end();
  }
}
