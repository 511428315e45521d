// The leases of one policy, as one thread asks for them. The table says which thread
// asks: of all threads of the process, one at a time for a key. What a lease brings
// goes to the table, for all of them.

import type { Clock } from "../../engine/clock.js";
import { SluiceError } from "../../engine/errors.js";
import type { Policy } from "../../engine/policy/policy.js";
import { type Key, putKey } from "../../engine/table/key.js";
import type { Table } from "../../engine/table/table.js";
import { redisKeys } from "../key.js";
import type { RedisPolicy } from "../policy.js";
import { leaseScript, returnScript } from "../scripts/lease.js";
import { isShort, type LastLease, leasePause, type LeasePlan, leasePlan, leaseSize } from "./lease-size.js";

/** Answers of the lease script. */
type Grant = readonly [leased: number, left: number, waitUs: number, stamp: string];

/** How late a coarse clock may be, ms. */
const COARSE_MS = 2;

/** @internal For calls in the background: if the table is closed meanwhile, that is not an error. */
export function ignoreClosed(error: unknown): void {
  if (!(error instanceof SluiceError && error.code === "ERR_SLUICE_CLOSED")) throw error;
}

/** A lease that this thread brought and that has not lapsed. */
interface Lease {
  key: Key | undefined;
  leased: number;
  stamp: string;
  untilMs: number;
}

export interface LeaseCounts {
  /** Calls for a lease that Redis answered. */
  leases: number;
  /** Tokens that they brought. */
  leased: number;
  /** Tokens that went back unused: at the end, or because the answer was late. */
  returned: number;
}

/** @internal */
export class Leases {
  readonly counts: LeaseCounts = { leases: 0, leased: 0, returned: 0 };
  readonly #policy: Policy;
  readonly #table: Table;
  readonly #clock: Clock;
  readonly #redis: RedisPolicy;
  readonly #plan: LeasePlan;
  readonly #leaseMs: number;
  /** Tokens that callers of this thread wait for, by key in Redis. */
  readonly #waiting = new Map<string, number>();
  /** Calls under way in this thread, by key in Redis. */
  readonly #asking = new Map<string, Promise<unknown>>();
  readonly #brought = new Map<string, Lease>();
  #isClosed = false;

  constructor(policy: Policy, redis: RedisPolicy, leaseMs: number) {
    this.#policy = policy;
    this.#table = policy.table;
    this.#clock = policy.table.clock;
    this.#redis = redis;
    this.#leaseMs = leaseMs;
    this.#plan = leasePlan(leaseMs, policy.rate, policy.burst);
  }

  idOf(key: Key | undefined): string {
    const { prefix, kind, name } = this.#redis;
    return redisKeys(prefix, kind.letter, name, key, key === undefined, 1)[0];
  }

  /** Puts a key in the scratch; returns the kernel's mode for it. */
  select(key: Key | undefined): number {
    if (key === undefined) return this.#table.at.GLOBAL;
    putKey(this.#table, this.#policy.record, key);
    return 0;
  }

  /**
   * What the kernel just left in the scratch about a key's last deposit. It had at least `had` tokens,
   * and less than twice as many.
   */
  get last(): LastLease {
    const { tokens, remaining, resetNs, retryNs } = this.#table.scratch;
    return { had: tokens, left: remaining, untilEndMs: resetNs / 1e6, wasShort: retryNs === 1 };
  }

  /** Says that `cost` more (or less) is waited for. */
  wait(id: string, cost: number): void {
    const sum = (this.#waiting.get(id) ?? 0) + cost;
    if (sum > 0) this.#waiting.set(id, sum);
    else this.#waiting.delete(id);
  }

  /** This thread's call for a lease of a key that is under way. */
  underWay(id: string): Promise<unknown> | undefined {
    return this.#asking.get(id);
  }

  /**
   * Asks Redis for at least `least` tokens, of which the caller spends `spent` at once,
   * and deposits the rest, which clears the key's flag: only the thread that got the
   * flag may call this. Resolves to the grant; to undefined if Redis cannot be asked.
   * If the last lease was short and is less than a period old, Redis is not asked: all
   * callers have to wait for the rest of the period.
   */
  ask(id: string, key: Key | undefined, least: number, spent: number): Promise<Grant | undefined> {
    const sentMs = this.#clock.now();
    const last = this.#estimated(id, this.last);
    const pauseMs = leasePause(last, this.#plan);
    if (pauseMs > 0) {
      this.#deposit(key, 0, sentMs + pauseMs, this.#table.at.LEASE_PAUSE);
      return Promise.resolve([0, 0, pauseMs * 1000, ""]);
    }
    const need = Math.max(least, this.#waiting.get(id) ?? 0);
    const most = Math.max(
      need,
      Math.min(leaseSize(last, this.#plan), Number(this.#table.kernel.wide.LEASE_MAX_TOKENS)),
    );
    const { caller, kind } = this.#redis;
    const asking = caller.call(
      leaseScript,
      [id],
      [String(least), String(most), String(need), ...kind.scripts.numbers],
      (late) => void this.#giveBack(id, (late as Grant)[0], (late as Grant)[3]).catch(ignoreClosed),
    ).then(async (reply) => {
      const grant = reply as Grant | undefined;
      this.#asking.delete(id);
      if (grant) this.#count(grant);
      if (this.#isClosed) {
        if (grant) await this.#giveBack(id, grant[0], grant[3]);
      } else if (grant) {
        this.#receive(id, key, grant, most, spent, sentMs);
      } else {
        const { lifeMs, periodMs } = this.#plan;
        // While Redis is given up, the failure policy decides until it is time to try again.
        if (this.#redis.caller.isReachable) this.#deposit(key, 0, this.#clock.now() + lifeMs - periodMs, 0);
        else this.#deposit(key, 0, this.#clock.now() + periodMs, this.#table.at.LEASE_PAUSE);
      }
      return grant;
    });
    this.#asking.set(id, asking);
    return asking;
  }

  /**
   * `last`, with the tokens that it had: those of this thread's last lease if it may be that one, else
   * the middle of what is known.
   */
  #estimated(id: string, last: LastLease): LastLease {
    const own = this.#brought.get(id)?.leased ?? 0;
    return { ...last, had: own >= last.had && own < 2 * last.had ? own : Math.max(0, 1.5 * last.had - 0.5) };
  }

  #count([leased]: Grant): void {
    this.counts.leases++;
    this.counts.leased += leased;
  }

  #receive(
    id: string,
    key: Key | undefined,
    [leased, , waitUs, stamp]: Grant,
    most: number,
    spent: number,
    sentMs: number,
  ): void {
    const spare = leased - (leased >= spent ? spent : 0);
    const { lifeMs, periodMs } = this.#plan;
    const nowMs = this.#clock.now();
    const endMs = sentMs + lifeMs - (this.#clock.kind === "coarse" ? COARSE_MS : 0);
    if (leased === 0) {
      this.#deposit(
        key,
        0,
        nowMs + (waitUs < 0 ? periodMs : Math.min(periodMs, waitUs / 1000)),
        this.#table.at.LEASE_PAUSE,
      );
      return;
    }
    const added = endMs > nowMs
      ? this.#deposit(key, spare, endMs, isShort(leased, most, this.#plan) ? this.#table.at.LEASE_SHORT : 0)
      : 0;
    if (added < spare) this.#giveBack(id, spare - added, stamp).catch(ignoreClosed);
    if (added > 0) this.#remember(id, { key, leased: added, stamp, untilMs: sentMs + this.#leaseMs }, nowMs);
  }

  #deposit(key: Key | undefined, tokens: number, endMs: number, as: number): number {
    return this.#table.kernel.deposit(this.#policy.record, this.select(key), tokens, endMs, as, this.#clock.now());
  }

  /** Remembers a lease, and forgets those that have lapsed: the oldest come first. */
  #remember(id: string, lease: Lease, nowMs: number): void {
    this.#brought.delete(id);
    this.#brought.set(id, lease);
    for (const [old, { untilMs }] of this.#brought) {
      if (untilMs > nowMs) return;
      this.#brought.delete(old);
    }
  }

  async #giveBack(id: string, tokens: number, stamp: string): Promise<void> {
    if (tokens <= 0) return;
    const { caller, kind } = this.#redis;
    const lifeUs = this.#leaseMs * 1000;
    const returned = await caller.call(
      returnScript,
      [id, `${id}:back`],
      [String(tokens), stamp, String(lifeUs), ...kind.scripts.numbers],
    );
    if (typeof returned === "number") this.counts.returned += returned;
  }

  /**
   * Gives back what is left of the leases that this thread brought, and of those that
   * are under way. What was left before a lease is unknown here, so no more goes back
   * than the lease had.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { kernel } = this.#table;
    const nowMs = this.#clock.now();
    const backs: Promise<unknown>[] = [...this.#asking.values()];
    for (const [id, { key, leased, stamp, untilMs }] of this.#brought) {
      if (untilMs <= nowMs) continue;
      const left = kernel.takeBack(this.#policy.record, this.select(key), nowMs);
      backs.push(this.#giveBack(id, Math.min(left, leased), stamp));
    }
    this.#brought.clear();
    await Promise.allSettled(backs);
  }
}
