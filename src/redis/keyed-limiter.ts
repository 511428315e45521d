// A Redis limiter bound to one key, or to the policy's global bucket: the same
// methods without the key.

import { checkCost, closed, SluiceError } from "../engine/errors.js";
import {
  type CheckedWait,
  checkWait,
  maxWaitOf,
  type ReserveOptions,
  type WaitOptions,
} from "../engine/limiter/call-options.js";
import type { KeyedLimiter } from "../engine/limiter/keyed-limiter.js";
import type { Key } from "../engine/table/key.js";
import { crowded, refused } from "../engine/waiting/refusal.js";
import type { RedisBuckets } from "./buckets.js";
import { decisionWithout, type RedisDecision } from "./connection/fallback.js";
import { redisKeys } from "./key.js";
import { type RedisReservation, reservation } from "./reservation.js";
import { script } from "./scripts/script.js";
import type { RedisWaiters } from "./waiters.js";

const resetScript = script("return redis.call('DEL', unpack(KEYS))");

/** @internal Makes the limiter of a key, or of the global bucket. */
export let keyedLimiter: (
  buckets: RedisBuckets,
  waiters: RedisWaiters,
  key: Key | undefined,
  isGlobal: boolean,
) => RedisKeyedLimiter;

/**
 * The bucket of one key in Redis, or a policy's global one. Costs are integers from
 * 0 to 2^31-1, 1 by default; 0 asks without taking. Every method rejects with
 * RangeError or TypeError for a wrong argument, and with ERR_SLUICE_CLOSED after
 * `close()`. Only `wait` rejects because Redis cannot be asked.
 */
export class RedisKeyedLimiter {
  static {
    keyedLimiter = (...args) => new RedisKeyedLimiter(...args);
  }

  readonly #buckets: RedisBuckets;
  readonly #waiters: RedisWaiters;
  readonly #key: Key | undefined;
  readonly #isGlobal: boolean;
  #known: string[] | undefined;

  private constructor(buckets: RedisBuckets, waiters: RedisWaiters, key: Key | undefined, isGlobal: boolean) {
    this.#buckets = buckets;
    this.#waiters = waiters;
    this.#key = key;
    this.#isGlobal = isGlobal;
  }

  /** Its keys in Redis. Throws for a key of a wrong type, and ERR_SLUICE_CLOSED. */
  get #keys(): string[] {
    if (this.#buckets.isClosed) throw closed();
    const { prefix, kind, name } = this.#buckets.policy;
    return this.#known ??= redisKeys(prefix, kind.letter, name, this.#key, this.#isGlobal, kind.limits.length);
  }

  /** Its bucket in the limiter that decides while Redis cannot be asked, if one does. */
  get #standIn(): KeyedLimiter | undefined {
    const { standIn } = this.#buckets.policy;
    return this.#isGlobal ? standIn?.global : standIn?.key(this.#key!);
  }

  /** Takes `cost` tokens if they are there. */
  async allow(cost = 1): Promise<boolean> {
    return (await this.consume(cost)).allowed;
  }

  /** As `allow`, with the whole answer. */
  async consume(cost = 1): Promise<RedisDecision> {
    checkCost(cost);
    const buckets = this.#buckets;
    const keys = this.#keys;
    let hasPassed = false;
    const answer = await buckets.askToDecide(keys, cost, true, (late) => {
      if (hasPassed || !buckets.decision(late, cost, true).allowed) return;
      buckets.giveBackLate(() => buckets.ask("give", keys, cost), cost);
    });
    const decision = answer === undefined ? this.#decisionWithout(cost, true) : buckets.decision(answer, cost, true);
    hasPassed = decision.allowed;
    buckets.count(decision.allowed, decision.degraded);
    return decision;
  }

  /** What `consume` would answer; takes nothing. */
  async peek(cost = 1): Promise<RedisDecision> {
    checkCost(cost);
    const answer = await this.#buckets.askToDecide(this.#keys, cost, false);
    return answer === undefined ? this.#decisionWithout(cost, false) : this.#buckets.decision(answer, cost, false);
  }

  /**
   * Takes `cost` tokens, from the future if need be, and says how long to wait before
   * acting: at most `maxWaitMs`, a number >= 0, Infinity by default.
   */
  async reserve(cost = 1, options: ReserveOptions = {}): Promise<RedisReservation> {
    checkCost(cost);
    const maxWaitMs = maxWaitOf(options);
    return (await this.#buckets.reserve(this.#keys, cost, maxWaitMs)) ?? this.#reserveWithout(cost, maxWaitMs);
  }

  /**
   * Waits until `cost` tokens are there, in the order in which Redis is reached.
   * Rejects, and charges nothing, with a SluiceError if that can never be
   * (ERR_SLUICE_COST_ABOVE_BURST), not within `timeoutMs` (ERR_SLUICE_TIMEOUT), if
   * a queue has no place (ERR_SLUICE_QUEUE_FULL) or `maxWaiters` wait already
   * (ERR_SLUICE_TOO_MANY_WAITERS); under 'closed', if Redis cannot be asked
   * (ERR_SLUICE_UNAVAILABLE). An abort rejects with the signal's reason and gives
   * the tokens back.
   */
  async wait(cost = 1, options: WaitOptions = {}): Promise<void> {
    checkCost(cost);
    const checked = checkWait(options);
    const keys = this.#keys;
    const waiting = this.#waiters.enter(keys[0]);
    try {
      await this.#waiters.track(this.#wait(keys, cost, waiting, checked));
    } finally {
      this.#waiters.leave(keys[0]);
    }
  }

  async #wait(keys: string[], cost: number, waiting: number, options: CheckedWait): Promise<void> {
    const { signal, timeoutMs, maxWaiters } = options;
    const { name, kind } = this.#buckets.policy;
    const isCrowded = waiting >= maxWaiters;
    const granted = await this.#buckets.reserve(keys, cost, isCrowded ? 0 : timeoutMs);
    if (!granted) return this.#waitWithout(cost, options);
    // A turn that has come already can no more be cancelled, but nothing acts on it.
    const giveBack = async (): Promise<unknown> =>
      granted.granted && (granted.delayMs > 0 ? granted.cancel() : this.#buckets.ask("give", keys, cost));
    if (signal?.aborted) {
      await giveBack();
      throw signal.reason;
    }
    if (!granted.granted) {
      const { delayMs } = granted;
      if (isCrowded) throw crowded(name, cost, waiting, maxWaiters);
      throw refused({ limiter: name, cost, maxCost: kind.maxCost, delayMs, timeoutMs, isQueue: kind.isQueue });
    }
    if (this.#buckets.isClosed) {
      await giveBack();
      throw closed();
    }
    if (granted.delayMs > 0) await this.#waiters.add(keys[0], cost, granted, signal);
  }

  /**
   * Gives `cost` tokens back, at most up to the burst. Pass the decision that took
   * them, and those of a degraded one go back to what decided in Redis' place.
   * Resolves to false if Redis did not confirm it.
   */
  async refund(cost = 1, taken?: { readonly degraded?: boolean }): Promise<boolean> {
    checkCost(cost);
    if (!taken?.degraded) return this.#confirmed("give", cost, (standIn) => standIn.refund(cost));
    this.#standIn?.refund(cost);
    return false;
  }

  /**
   * Takes `cost` tokens whether they are there or not: the bucket may go into debt,
   * which later calls wait out. Resolves to false if Redis did not confirm it.
   */
  async charge(cost = 1): Promise<boolean> {
    checkCost(cost);
    return this.#confirmed("charge", cost, (standIn) => standIn.charge(cost));
  }

  /** Makes the bucket full, as if never used. Resolves to false if Redis did not confirm it. */
  async reset(): Promise<boolean> {
    const keys = this.#keys;
    this.#standIn?.reset();
    return (await this.#buckets.policy.caller.call(resetScript, keys, [])) !== undefined;
  }

  async #confirmed(
    operation: "give" | "charge",
    cost: number,
    here: (standIn: KeyedLimiter) => void,
  ): Promise<boolean> {
    const keys = this.#keys;
    if (cost === 0 || (await this.#buckets.ask(operation, keys, cost))) return true;
    const standIn = this.#standIn;
    if (standIn) here(standIn);
    return false;
  }

  // --- without Redis ------------------------------------------------------------

  #decisionWithout(cost: number, takes: boolean): RedisDecision {
    return decisionWithout(this.#buckets.policy, this.#standIn, cost, takes);
  }

  #reserveWithout(cost: number, maxWaitMs: number): RedisReservation {
    const own = this.#standIn?.reserve(cost, { maxWaitMs });
    if (own) {
      this.#buckets.count(own.granted, true);
      return reservation(own.granted, own.delayMs, true, () => own.cancel());
    }
    const { allowed, retryAfterMs } = this.#decisionWithout(cost, true);
    this.#buckets.count(allowed, true);
    return reservation(allowed, allowed ? 0 : retryAfterMs, true, () => false);
  }

  async #waitWithout(cost: number, options: CheckedWait): Promise<void> {
    const { caller, name, failure } = this.#buckets.policy;
    options.signal?.throwIfAborted();
    const standIn = this.#standIn;
    if (standIn) {
      const { closing } = this.#waiters;
      await standIn.wait(cost, {
        ...options,
        signal: options.signal ? AbortSignal.any([options.signal, closing]) : closing,
      });
      this.#buckets.count(true, true);
      return;
    }
    const { allowed } = this.#decisionWithout(cost, true);
    this.#buckets.count(allowed, true);
    if (allowed) return;
    const { lastFailure } = caller.counts;
    const why = lastFailure instanceof Error ? lastFailure.message : "another thread found it gone";
    throw new SluiceError(
      "ERR_SLUICE_UNAVAILABLE",
      `unavailable: Redis did not decide about ${JSON.stringify(name)}: ${why}`,
      { limiter: name, cost, retryAfterMs: failure.probeMs },
    );
  }
}
