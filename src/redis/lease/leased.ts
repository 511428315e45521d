// What a user holds of a limiter whose tokens are leased: nearly every decision
// is made in this process's own table, and Redis is asked for many tokens at once.

import type { Clock } from "../../engine/clock.js";
import { checkCost, closed } from "../../engine/errors.js";
import type { Policy } from "../../engine/policy/policy.js";
import { Counter } from "../../engine/table/counters.js";
import type { Kernel } from "../../engine/table/kernel.js";
import { finite, type Key, noKey } from "../../engine/table/key.js";
import type { Table } from "../../engine/table/table.js";
import type { RedisLimiterStats } from "../buckets.js";
import { decisionWithout, type RedisDecision } from "../connection/fallback.js";
import type { RedisLimit } from "../kinds.js";
import { type RedisLimiter, redisLimiter } from "../limiter.js";
import type { RedisPolicy } from "../policy.js";
import { ignoreClosed, type LeaseCounts, Leases } from "./leases.js";

/** Options of `redis.leased()`. */
export interface LeasedOptions {
  /** Tokens per second: above 0 and finite; the burst refills within 20 years. */
  rate: number;
  /** Most tokens at once, an integer from 0 to 2^31-1. */
  burst: number;
  /**
   * Longest time from when Redis lets a token go until it is spent, ms: an integer
   * from 3 x (deadlineMs + 20), so that Redis can be asked meanwhile, to 600,000; 1000
   * by default. In any time W at most burst + rate x (W + leaseMs) pass, over all
   * processes.
   */
  leaseMs?: number;
}

/** Counts of one thread. */
export interface LeasedStats extends Omit<RedisLimiterStats, "gaveBack">, LeaseCounts {}

/** A leased limiter's one bucket without a key. */
export interface LeasedGlobal {
  /** As `LeasedLimiter.allow`. */
  allow(cost?: number): boolean;
  /** As `LeasedLimiter.consume`. */
  consume(cost?: number): Promise<RedisDecision>;
  /** As `LeasedLimiter.refund`. */
  refund(cost?: number, taken?: { readonly degraded?: boolean }): Promise<boolean>;
}

/** How long a caller waits for what another thread asks for, before it looks again, ms. */
const LOOK_MS = 1;

/** @internal Makes the leased limiter of a policy. */
export let leasedLimiter: (policy: Policy, redis: RedisPolicy, leaseMs: number) => LeasedLimiter;

/**
 * Limits many keys by one token bucket each, for all processes that share a Redis,
 * out of tokens that this process leases ahead. Made by `redis.leased()`. The buckets
 * are those of `redis.tokenBucket()` of the same name, rate and burst.
 *
 * A key is a string, a finite number, a bigint or a Uint8Array; the one bucket
 * without a key is `global`. Costs are integers from 0 to 2^31-1, 1 by default.
 * Methods throw or reject with RangeError or TypeError for a wrong argument, and
 * all but `refund` with ERR_SLUICE_CLOSED after `close()`.
 */
export class LeasedLimiter {
  static {
    leasedLimiter = (policy, redis, leaseMs) => new LeasedLimiter(policy, redis, leaseMs);
  }

  /** The policy's one global bucket, shared by all processes. */
  readonly global: LeasedGlobal = {
    allow: (cost) => this.#allow(undefined, cost),
    consume: (cost) => this.#consume(undefined, cost),
    refund: (cost, taken) => this.#strict.global.refund(cost, taken),
  };
  readonly #policy: Policy;
  readonly #redis: RedisPolicy;
  readonly #leases: Leases;
  readonly #strict: RedisLimiter;
  readonly #table: Table;
  readonly #kernel: Kernel;
  readonly #clock: Clock;
  readonly #record: number;
  readonly #burst: number;
  readonly #asks: number;
  readonly #allowed: Counter;
  readonly #denied: Counter;
  readonly #mayPassWithout: boolean;
  #degraded = 0;
  #isClosed = false;

  private constructor(policy: Policy, redis: RedisPolicy, leaseMs: number) {
    const { table, burst, record } = policy;
    this.#policy = policy;
    this.#redis = redis;
    this.#leases = new Leases(policy, redis, leaseMs);
    this.#strict = redisLimiter(redis);
    this.#table = table;
    this.#kernel = table.kernel;
    this.#clock = table.clock;
    this.#record = record;
    this.#burst = burst;
    this.#asks = table.at.LEASE_ASK;
    this.#allowed = new Counter(table, policy.number, "allowed");
    this.#denied = new Counter(table, policy.number, "denied");
    this.#mayPassWithout = redis.failure.policy !== "closed";
  }

  /** The name that it was made with. */
  get name(): string {
    return this.#redis.name;
  }

  /** Its limit, as the only one of a list. */
  get limits(): readonly RedisLimit[] {
    return this.#redis.kind.limits;
  }

  /** Counts of this thread. */
  stats(): LeasedStats {
    return {
      allowed: this.#allowed.value,
      denied: this.#denied.value,
      degraded: this.#degraded,
      ...this.#leases.counts,
    };
  }

  /**
   * Takes `cost` tokens of `key` if they are leased, at once. When few are left, or
   * none, it asks Redis for more in the background: so the first call for a key is
   * refused. `consume` waits for the answer.
   */
  allow(key: Key, cost = 1): boolean {
    if (key === undefined) throw noKey(key);
    return this.#allow(key, cost);
  }

  #allow(key: Key | undefined, cost = 1): boolean {
    if (typeof cost !== "number" || (cost | 0) !== cost || cost < 0) checkCost(cost);
    if (this.#isClosed) throw closed();
    const answer = this.#take(key, cost, 1);
    if (answer === 1) return true;
    if (answer >= this.#asks) this.#askAhead(key, answer > this.#asks ? 1 : cost);
    return answer > this.#asks
      || (this.#mayPassWithout && !this.#redis.caller.isReachable && this.#passesWithout(key, cost));
  }

  /**
   * Takes `cost` tokens of `key`; if too few are leased, asks Redis and waits for its
   * answer. Of a refusal, `retryAfterMs` says when it is worth asking again, and
   * `remaining` counts what is leased here. Never rejects because Redis cannot be
   * asked: then `onFailure` decides.
   */
  async consume(key: Key, cost = 1): Promise<RedisDecision> {
    if (key === undefined) throw noKey(key);
    return this.#consume(key, cost);
  }

  async #consume(key: Key | undefined, cost = 1): Promise<RedisDecision> {
    checkCost(cost);
    if (this.#isClosed) throw closed();
    if (cost > this.#burst) return this.#counted(key, false, Infinity);
    let answer = this.#take(key, cost, 0);
    if (answer === 1) return this.#decision(key, true, 0);
    const leases = this.#leases;
    const id = leases.idOf(key);
    leases.wait(id, cost);
    let misses = 0;
    try {
      while (!(answer & 1)) {
        if (answer & this.#asks) {
          const grant = await leases.ask(id, key, cost, cost);
          if (this.#isClosed) throw closed();
          if (grant === undefined) return this.#without(key, cost);
          const [leased, , waitUs] = grant;
          return this.#counted(key, leased >= cost, waitUs < 0 ? Infinity : waitUs / 1000);
        }
        const retryAfterMs = await this.#others(id, key);
        if (this.#isClosed) throw closed();
        if (retryAfterMs > 0) {
          return this.#redis.caller.isReachable
            ? this.#counted(key, false, retryAfterMs)
            : this.#without(key, cost);
        }
        // No thread asks and there is no pause, twice over: the table is full.
        if (retryAfterMs < 0 && ++misses > 1) return this.#counted(key, false, LOOK_MS);
        answer = this.#take(key, cost, 0);
      }
    } finally {
      leases.wait(id, -cost);
    }
    if (answer & this.#asks) this.#askAhead(key, 1);
    return this.#decision(key, true, 0);
  }

  /** Gives `cost` tokens back to the bucket in Redis, at most up to the burst; see `RedisKeyedLimiter.refund`. */
  refund(key: Key, cost = 1, taken?: { readonly degraded?: boolean }): Promise<boolean> {
    return this.#strict.refund(key, cost, taken);
  }

  /** Gives back to Redis what this thread leased and has left. Later calls get ERR_SLUICE_CLOSED, except refunds. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#leases.close();
  }

  /** `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The kernel's answer: 1 if taken, and LEASE_ASK if this thread is to ask for more. */
  #take(key: Key | undefined, cost: number, countsRefusal: number): number {
    if (cost > this.#burst) {
      if (countsRefusal) this.#count(false);
      return 0;
    }
    if (typeof key === "string") {
      const { scratch } = this.#table;
      if (key.length <= scratch.textMax && scratch.writeText(key)) {
        return this.#kernel.takeText(this.#record, key.length, cost, countsRefusal, this.#clock.mark());
      }
    } else if (typeof key === "number") {
      return this.#kernel.takeNumber(this.#record, finite(key), cost, countsRefusal, this.#clock.mark());
    }
    return this.#kernel.take(this.#record, this.#leases.select(key), cost, countsRefusal, this.#clock.mark());
  }

  /** Asks in the background: call it right after the kernel said so. */
  #askAhead(key: Key | undefined, least: number): void {
    this.#leases.ask(this.#leases.idOf(key), key, least, 0).catch(ignoreClosed);
  }

  /**
   * Waits for the thread that asks about a key just now. ms until it is worth asking again, if Redis had
   * too little; 0 if a thread asked; -1 if none does.
   */
  async #others(id: string, key: Key | undefined): Promise<number> {
    const underWay = this.#leases.underWay(id);
    if (underWay) {
      await underWay;
      return 0;
    }
    const state = this.#kernel.leased(this.#record, this.#leases.select(key), this.#clock.now());
    if (state === this.#table.at.LEASE_PAUSE) return Math.max(this.#leases.last.untilEndMs, LOOK_MS);
    if (state !== this.#asks) return -1;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    return 0;
  }

  #decision(key: Key | undefined, allowed: boolean, retryAfterMs: number): RedisDecision {
    this.#kernel.leased(this.#record, this.#leases.select(key), this.#clock.now());
    const remaining = this.#leases.last.left;
    return {
      allowed,
      limit: this.#burst,
      remaining,
      retryAfterMs,
      resetMs: ((this.#burst - remaining) / this.#policy.rate) * 1000,
      degraded: false,
    };
  }

  #counted(key: Key | undefined, allowed: boolean, retryAfterMs: number): RedisDecision {
    this.#count(allowed);
    return this.#decision(key, allowed, allowed ? 0 : retryAfterMs);
  }

  #count(allowed: boolean): void {
    (allowed ? this.#allowed : this.#denied).add(1);
  }

  #without(key: Key | undefined, cost: number): RedisDecision {
    const { standIn } = this.#redis;
    const keyed = key === undefined ? standIn?.global : standIn?.key(key);
    const decision = decisionWithout(this.#redis, keyed, cost, true);
    this.#degraded++;
    this.#count(decision.allowed);
    return decision;
  }

  /** What the failure policy says of a call that the kernel has counted as refused. */
  #passesWithout(key: Key | undefined, cost: number): boolean {
    this.#denied.add(-1);
    return this.#without(key, cost).allowed;
  }
}
