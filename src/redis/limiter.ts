// What a user holds: a policy whose buckets are in Redis. The face is that of a
// table's limiter, but that every call is one round trip and answers a promise.

import { checkCost, checkDuration, checkOptions, closed, SluiceError } from "../engine/errors.js";
import { checkWait, type ReserveOptions, type WaitOptions } from "../engine/limiter/call-options.js";
import type { Limiter } from "../engine/limiter/limiter.js";
import type { Key } from "../engine/table/key.js";
import { crowded, refused } from "../engine/waiting/refusal.js";
import type { Reply } from "./connection/caller.js";
import { decisionWithout, type RedisDecision } from "./connection/fallback.js";
import { redisKeys } from "./key.js";
import { mostAtOnce, type RedisLimit } from "./kinds.js";
import type { RedisPolicy } from "./policy.js";
import { type RedisReservation, reservation } from "./reservation.js";
import { script } from "./scripts/script.js";
import { RedisWaiters } from "./waiters.js";

export interface RedisLimiterStats {
  allowed: number;
  denied: number;
  /** Those among them that were decided without Redis. */
  degraded: number;
  /** Answers that came after their deadline and had taken what was then refused: it was given back. */
  gaveBack: number;
}

type Operation = "take" | "reserve" | "peek" | "give" | "charge" | "cancel";

const resetScript = script("return redis.call('DEL', unpack(KEYS))");

/** Waits longer than this are no bound: 35 years in ms. */
const NO_BOUND_MS = 2 ** 50 / 1000;

/**
 * Limits many keys by one policy, for all processes that share a Redis. A key
 * may be left out: the call then acts on the policy's one global bucket. Costs
 * are integers from 0 to 2^31-1, 1 by default; 0 asks without taking.
 *
 * No call rejects because Redis cannot be asked, but `wait` under 'closed'.
 */
export class RedisLimiter {
  readonly #policy: RedisPolicy;
  readonly #waiters = new RedisWaiters();
  /** How many wait for each key in this thread, those whose turn is not granted yet included. */
  readonly #waiting = new Map<string, number>();
  readonly #stats: RedisLimiterStats = { allowed: 0, denied: 0, degraded: 0, gaveBack: 0 };
  /** Every wait that has not settled: it may have a turn to give back. */
  readonly #waits = new Set<Promise<void>>();
  /** Ends those who wait in the limiter that stands in. */
  readonly #closing = new AbortController();
  #isClosed = false;

  /** Made by `redis.tokenBucket()` and the like. */
  constructor(policy: RedisPolicy) {
    this.#policy = policy;
  }

  get name(): string {
    return this.#policy.name;
  }

  /** Its limits: one, or as many as it was made with. */
  get limits(): readonly RedisLimit[] {
    return this.#policy.kind.limits;
  }

  /** The policy's one global bucket: the same without a key. */
  readonly global = {
    consume: (cost = 1): Promise<RedisDecision> => this.consume(undefined, cost),
    refund: (cost = 1, taken?: { readonly degraded?: boolean }): Promise<boolean> =>
      this.refund(undefined, cost, taken),
  };

  /** Counts of this thread. */
  stats(): RedisLimiterStats {
    return { ...this.#stats };
  }

  /** Takes `cost` tokens of `key` if they are there. */
  async allow(key?: Key, cost = 1): Promise<boolean> {
    return (await this.consume(key, cost)).allowed;
  }

  /** As `allow`, with the whole answer. */
  async consume(key?: Key, cost = 1): Promise<RedisDecision> {
    checkCost(cost);
    let passed = false;
    const reply = await this.#take(this.#keysOf(key), cost, (late) => this.#late(late, key, cost, passed));
    const decision = reply ? this.#decision(reply) : decisionWithout(this.#policy, key, cost, true);
    passed = decision.allowed;
    this.#count(decision);
    return decision;
  }

  /** What `consume` would answer; takes nothing. */
  async peek(key?: Key, cost = 1): Promise<RedisDecision> {
    checkCost(cost);
    const reply = await this.#ask("peek", this.#keysOf(key), cost);
    return reply ? this.#decision(reply) : decisionWithout(this.#policy, key, cost, false);
  }

  /** Takes `cost` tokens, from the future if need be, and says how long to wait before acting. */
  async reserve(key?: Key, cost = 1, options: ReserveOptions = {}): Promise<RedisReservation> {
    checkCost(cost);
    checkOptions(options);
    const { maxWaitMs = Infinity } = options;
    checkDuration("maxWaitMs", maxWaitMs);
    return (await this.#reserve(key, cost, maxWaitMs)) ?? this.#reserveWithout(key, cost, maxWaitMs);
  }

  /**
   * Waits until `cost` tokens are there, in the order in which Redis is reached
   * for each key. Rejects, and charges nothing, with a SluiceError if that can
   * never be (ERR_SLUICE_COST_ABOVE_BURST), not within `timeoutMs`
   * (ERR_SLUICE_TIMEOUT), if a queue has no place (ERR_SLUICE_QUEUE_FULL) or
   * `maxWaiters` wait already (ERR_SLUICE_TOO_MANY_WAITERS); under 'closed', if
   * Redis cannot be asked (ERR_SLUICE_UNAVAILABLE). An abort rejects with the
   * signal's reason and gives the tokens back.
   */
  async wait(key?: Key, cost = 1, options: WaitOptions = {}): Promise<void> {
    checkCost(cost);
    const checked = checkWait(options);
    const keys = this.#keysOf(key);
    const whole = this.#wait(keys, key, cost, checked);
    this.#waits.add(whole);
    try {
      await whole;
    } finally {
      this.#waits.delete(whole);
    }
  }

  async #wait(
    keys: string[],
    key: Key | undefined,
    cost: number,
    options: ReturnType<typeof checkWait>,
  ): Promise<void> {
    const { signal, timeoutMs, maxWaiters } = options;
    const [id] = keys;
    const waiting = this.#waiting.get(id) ?? 0;
    const isCrowded = waiting >= maxWaiters;
    this.#waiting.set(id, waiting + 1);
    try {
      const granted = await this.#reserve(key, cost, isCrowded ? 0 : timeoutMs);
      if (!granted) return await this.#waitWithout(key, cost, options);
      // A turn that has come already can no more be cancelled, but nobody acts on it.
      const giveBack = async (): Promise<unknown> =>
        granted.granted && (granted.delayMs > 0 ? granted.cancel() : this.#ask("give", keys, cost));
      if (signal?.aborted) {
        await giveBack();
        throw signal.reason;
      }
      if (!granted.granted) {
        if (isCrowded) {
          throw crowded(this.#policy.name, cost, waiting, maxWaiters);
        }
        throw this.#whyNot(cost, timeoutMs, granted.delayMs);
      }
      if (this.#isClosed) {
        await giveBack();
        throw closed();
      }
      if (granted.delayMs > 0) await this.#waiters.add(id, cost, granted.delayMs, () => granted.cancel(), signal);
    } finally {
      const left = this.#waiting.get(id)! - 1;
      if (left === 0) this.#waiting.delete(id);
      else this.#waiting.set(id, left);
    }
  }

  /**
   * Gives `cost` tokens back to `key`, at most up to the burst. Told the decision
   * that took them, it gives those of a degraded one back to whatever decided in
   * Redis' place. False if Redis did not hear of it.
   */
  async refund(key?: Key, cost = 1, taken?: { readonly degraded?: boolean }): Promise<boolean> {
    checkCost(cost);
    if (!taken?.degraded) return this.#settle("give", key, cost, (standIn) => standIn.refund(key, cost));
    this.#policy.standIn?.refund(key, cost);
    return false;
  }

  /** Takes `cost` tokens whether they are there or not: the bucket may go into debt, which later calls wait out. False if Redis cannot be asked. */
  charge(key?: Key, cost = 1): Promise<boolean> {
    return this.#settle("charge", key, cost, (standIn) => standIn.charge(key, cost));
  }

  /** Makes the bucket of `key` full, as if never used. False if Redis cannot be asked. */
  async reset(key?: Key): Promise<boolean> {
    const keys = this.#keysOf(key);
    this.#policy.standIn?.reset(key);
    return (await this.#policy.guard.ask(resetScript, keys, [])) !== undefined;
  }

  /** Rejects those who wait with ERR_SLUICE_CLOSED, and whoever calls from now on. Resolves when their turns are given back. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#closing.abort(closed());
    await Promise.allSettled([this.#waiters.end(), ...this.#waits]);
  }

  #keysOf(key: Key | undefined): string[] {
    if (this.#isClosed) throw closed();
    const { prefix, kind, name } = this.#policy;
    return redisKeys(prefix, kind.letter, name, key, kind.limits.length);
  }

  /** `last` is the longest wait of a reservation, or the act of a cancel. */
  #ask(
    operation: Operation,
    keys: string[],
    cost: number,
    last?: string,
    onLate?: (reply: Reply) => void,
  ): Promise<Reply | undefined> {
    const { kind, guard } = this.#policy;
    const args = [operation, String(cost), ...kind.numbers];
    if (last !== undefined) args.push(last);
    return guard.ask(kind.script, keys, args, onLate as (reply: unknown) => void) as Promise<Reply | undefined>;
  }

  #take(keys: string[], cost: number, onLate: (reply: Reply) => void): Promise<Reply | undefined> {
    const { kind, guard } = this.#policy;
    const { take } = kind;
    // What can never be had might be more than an answer can count.
    if (!take || cost > mostAtOnce(kind)) return this.#ask("take", keys, cost, undefined, onLate);
    return guard.ask(
      take.script,
      keys,
      cost === 1 ? [] : [String(cost)],
      onLate as (reply: unknown) => void,
      (answer) => take.read(answer, cost),
    ) as Promise<Reply | undefined>;
  }

  async #settle(
    operation: "give" | "charge",
    key: Key | undefined,
    cost: number,
    here: (standIn: Limiter) => void,
  ): Promise<boolean> {
    checkCost(cost);
    const keys = this.#keysOf(key);
    if (cost === 0 || (await this.#ask(operation, keys, cost))) return true;
    if (this.#policy.standIn) here(this.#policy.standIn);
    return false;
  }

  async #cancel(keys: string[], act: string): Promise<boolean> {
    return ((await this.#ask("cancel", keys, 0, act)) as unknown) === 1;
  }

  /**
   * An answer that came late: if Redis took what was refused meanwhile, gives it
   * back. What passed meanwhile stays taken. Nobody waits for it, so it fails in silence.
   */
  #late([granted, , waitUs, , , act]: Reply, key: Key | undefined, cost: number, hasPassed: boolean): void {
    if (granted !== 1 || cost === 0 || hasPassed || this.#isClosed) return;
    const giveBack = async (): Promise<unknown> => {
      this.#stats.gaveBack++;
      const keys = this.#keysOf(key);
      return waitUs > 0 && act ? this.#cancel(keys, act) : this.#ask("give", keys, cost);
    };
    giveBack().catch(() => {});
  }

  #decision([granted, left, waitUs, fullUs, limitIndex]: Reply): RedisDecision {
    const { limits } = this.#policy.kind;
    const allowed = granted === 1;
    return {
      allowed,
      limit: limits[limitIndex].burst,
      remaining: left,
      retryAfterMs: allowed ? 0 : waitUs < 0 ? Infinity : waitUs / 1000,
      resetMs: fullUs / 1000,
      ...(limits.length > 1 && { limitIndex }),
      degraded: false,
    };
  }

  #count({ allowed, degraded }: { allowed: boolean; degraded: boolean }): void {
    this.#stats[allowed ? "allowed" : "denied"]++;
    if (degraded) this.#stats.degraded++;
  }

  /** A reservation of Redis; undefined if it cannot be asked. */
  async #reserve(key: Key | undefined, cost: number, maxWaitMs: number): Promise<RedisReservation | undefined> {
    const keys = this.#keysOf(key);
    // Under 'open' and 'local' its caller may have passed meanwhile: then it stays taken.
    const mostUs = maxWaitMs > NO_BOUND_MS ? "-1" : String(Math.floor(maxWaitMs * 1000));
    const reply = await this.#ask(
      "reserve",
      keys,
      cost,
      mostUs,
      (late) => this.#late(late, key, cost, this.#policy.failure.policy !== "closed"),
    );
    if (!reply) return undefined;
    const [granted, , waitUs, , , act] = reply;
    this.#count({ allowed: granted === 1, degraded: false });
    return reservation(
      granted === 1,
      waitUs < 0 ? Infinity : waitUs / 1000,
      false,
      () => act !== undefined && this.#cancel(keys, act),
    );
  }

  #reserveWithout(key: Key | undefined, cost: number, maxWaitMs: number): RedisReservation {
    const { standIn } = this.#policy;
    if (standIn) {
      const own = standIn.reserve(key, cost, { maxWaitMs });
      this.#count({ allowed: own.granted, degraded: true });
      return reservation(own.granted, own.delayMs, true, () => own.cancel());
    }
    const { allowed, retryAfterMs } = decisionWithout(this.#policy, key, cost, true);
    this.#count({ allowed, degraded: true });
    return reservation(allowed, allowed ? 0 : retryAfterMs, true, () => false);
  }

  async #waitWithout(key: Key | undefined, cost: number, options: WaitOptions): Promise<void> {
    const { standIn, guard, kind, name } = this.#policy;
    options.signal?.throwIfAborted();
    if (standIn) {
      const { signal } = this.#closing;
      await standIn.wait(key, cost, {
        ...options,
        signal: options.signal ? AbortSignal.any([options.signal, signal]) : signal,
      });
      this.#count({ allowed: true, degraded: true });
      return;
    }
    const { allowed } = decisionWithout(this.#policy, key, cost, true);
    this.#count({ allowed, degraded: true });
    if (allowed) return;
    if (cost > mostAtOnce(kind)) throw this.#whyNot(cost, Infinity, Infinity);
    const { lastFailure } = guard.counts;
    throw new SluiceError(
      "ERR_SLUICE_UNAVAILABLE",
      `Redis cannot be asked for ${JSON.stringify(name)}: ${
        lastFailure instanceof Error ? lastFailure.message : "another thread found it gone"
      }`,
    );
  }

  #whyNot(cost: number, timeoutMs: number, delayMs: number): SluiceError {
    const { kind, name } = this.#policy;
    return refused({ limiter: name, cost, maxCost: mostAtOnce(kind), delayMs, timeoutMs, isQueue: kind.isQueue });
  }
}
