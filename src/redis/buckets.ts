// The buckets of one policy in Redis: runs the scripts of its operations, reads
// their answers, and counts.

import type { RedisDecision } from "./connection/fallback.js";
import type { RedisPolicy } from "./policy.js";
import { type RedisReservation, reservation } from "./reservation.js";
import type { Operation } from "./scripts/script.js";

/** Counts of decisions. */
export interface RedisLimiterStats {
  allowed: number;
  denied: number;
  /** How many of them were decided without Redis. */
  degraded: number;
  /** Answers that came after their deadline and had taken what was then refused: it was given back. */
  gaveBack: number;
}

/** A script's answer to 'reserve'. */
type Granted = readonly [granted: number, waitUs: number, turn?: string];

/** A longer wait counts as unlimited: 35 years in ms. */
const NO_BOUND_MS = 2 ** 50 / 1000;

/** @internal */
export class RedisBuckets {
  readonly policy: RedisPolicy;
  readonly stats: RedisLimiterStats = { allowed: 0, denied: 0, degraded: 0, gaveBack: 0 };
  isClosed = false;

  constructor(policy: RedisPolicy) {
    this.policy = policy;
  }

  count(allowed: boolean, degraded: boolean): void {
    this.stats[allowed ? "allowed" : "denied"]++;
    if (degraded) this.stats.degraded++;
  }

  /**
   * What the script of an operation answers; undefined if Redis cannot be asked.
   * `last` is the longest wait of a reservation, or the turn of a cancel.
   */
  ask(
    operation: Operation,
    keys: string[],
    cost: number,
    last?: string,
    onLate?: (answer: unknown) => void,
  ): Promise<unknown> {
    const { kind: { scripts }, caller } = this.policy;
    return caller.call(scripts.of(operation), keys, scripts.arguments(operation, cost, last), onLate);
  }

  /**
   * Asks for a decision, which takes the cost if it `takes`; `decision` reads the answer. A script only
   * looks for a cost that can never be had.
   */
  askToDecide(keys: string[], cost: number, takes: boolean, onLate?: (answer: unknown) => void): Promise<unknown> {
    return cost > this.policy.kind.maxCost
      ? this.ask("peek", keys, 0)
      : this.ask(takes ? "take" : "peek", keys, cost, undefined, onLate);
  }

  decision(answer: unknown, cost: number, takes: boolean): RedisDecision {
    const { limits, scripts, maxCost } = this.policy.kind;
    const asked = cost > maxCost ? 0 : cost;
    const { left, fullUs, waitUs, limitIndex } = scripts.algorithm.read(answer, cost, asked, takes && asked > 0);
    return {
      allowed: waitUs === 0,
      limit: limits[limitIndex].burst,
      remaining: left,
      retryAfterMs: waitUs / 1000,
      resetMs: fullUs / 1000,
      ...(limits.length > 1 && { limitIndex }),
      degraded: false,
    };
  }

  /** A reservation of Redis, and counts it; undefined if Redis cannot be asked. */
  async reserve(keys: string[], cost: number, maxWaitMs: number): Promise<RedisReservation | undefined> {
    if (cost > this.policy.kind.maxCost) {
      this.count(false, false);
      return reservation(false, Infinity, false, () => false);
    }
    const maxUs = maxWaitMs > NO_BOUND_MS ? "-1" : String(Math.floor(maxWaitMs * 1000));
    const answer = (await this.ask("reserve", keys, cost, maxUs, (late) => {
      const [granted, waitUs, turn] = late as Granted;
      // Under 'open' and 'local' the caller may have passed meanwhile: then it stays taken.
      if (granted !== 1 || this.policy.failure.policy !== "closed") return;
      this.giveBackLate(() => (waitUs > 0 && turn ? this.#cancel(keys, turn) : this.ask("give", keys, cost)), cost);
    })) as Granted | undefined;
    if (!answer) return undefined;
    const [granted, waitUs, turn] = answer;
    this.count(granted === 1, false);
    return reservation(
      granted === 1,
      waitUs / 1000,
      false,
      () => turn !== undefined && this.#cancel(keys, turn),
    );
  }

  /**
   * Gives back what Redis took after its deadline for a call that was refused
   * meanwhile. No caller waits for that, so it fails in silence.
   */
  giveBackLate(giveBack: () => Promise<unknown>, cost: number): void {
    if (cost === 0 || this.isClosed) return;
    this.stats.gaveBack++;
    giveBack().catch(() => {});
  }

  async #cancel(keys: string[], turn: string): Promise<boolean> {
    return (await this.ask("cancel", keys, 0, turn)) === 1;
  }
}
