// The table and its limiters, as a user sees them.

import { checkInteger, checkOptions, closed, SluiceError, unexpected } from "../errors.js";
import { ManualClock } from "../manual-clock.js";
import type {
  Definition,
  FixedWindowOptions,
  LeakyBucketOptions,
  SlidingWindowOptions,
  TokenBucketOptions,
  WarmUpOptions,
} from "../policy/algorithms.js";
import { checkName, definePolicy } from "../policy/define.js";
import { kinds, type PolicyKind } from "../policy/kinds.js";
import { Policy } from "../policy/policy.js";
import type { Limits } from "../policy/segment.js";
import { add, audit, type AuditCounts, countsOf, type LimiterStats, liveKeysOf, zeros } from "../table/counters.js";
import { join, unwatch } from "../table/deaths.js";
import { headerOf, type SluiceHandle, type WhenFull, whenFullChoices } from "../table/header.js";
import { Table } from "../table/table.js";
import { keepTicking } from "../table/ticker.js";
import { all, type GroupDecision, type GroupReservation, Hierarchy, reserveAll, waitAll } from "./all.js";
import type { ReserveOptions, WaitAllOptions } from "./call-options.js";
import type { Entry } from "./entries.js";
import { Limiter } from "./limiter.js";

export interface SluiceOptions {
  /** Keys to have room for at once, over all limiters: 1 to 100 million. Costs 22.9 bytes each, once used. */
  capacity: number;
  /**
   * Keys to have room for among those of limiters that take a line: windows with
   * slots, several limits, warm-up. 1 to 10 million; as `capacity`, but at most
   * 1 million by default. Costs 113 bytes each, once used.
   */
  lineCapacity?: number;
  /**
   * 'precise' (default) reads the monotonic clock for every call. 'coarse' reads
   * a cell that a ticker thread keeps within about 1 ms, which may admit up to
   * rate x 1 ms late. A ManualClock is moved by hand.
   */
  clock?: "precise" | "coarse" | ManualClock;
  /** What a new key meets whose two sets hold only keys in use: 'evict' (default) the one nearest to fresh, 'deny' or 'allow' the newcomer. */
  whenFull?: WhenFull;
  /** Threads attached at the same time, 1 to 1024; 64 by default. */
  maxThreads?: number;
}

export interface SluiceStats extends LimiterStats {
  /** The same counts for each limiter by name. */
  limiters: Record<string, LimiterStats>;
  /** Keys to have room for. */
  capacity: number;
  /** Threads attached now. */
  threads: number;
}

export interface AuditReport extends AuditCounts {
  /** True if nothing in it is wrong. */
  clean: boolean;
  /** Keys in use, those that are not fresh, by limiter. */
  live: Record<string, number>;
}

const MAX_CAPACITY = 100_000_000;
/** Defines a policy of any kind: for the faces that are not limiters of this library's own. */
export let define: (sluice: Sluice, name: string, kind: PolicyKind, numbers: Limits) => Policy;

/**
 * What this thread has made or attached, by table. What it attached stays until it
 * is closed, since it holds a thread number; what it made may be forgotten whole.
 */
const attached = new Map<string, Sluice | WeakRef<Sluice>>();

function known(id: string): Sluice | undefined {
  const held = attached.get(id);
  return held instanceof WeakRef ? held.deref() : held;
}

export class Sluice {
  readonly #table: Table;
  readonly #limiters = new Map<string, Limiter>();
  readonly #policies = new Map<string, Policy>();
  readonly #stopTicking: (() => void) | undefined;
  #isClosed = false;

  private constructor(table: Table) {
    this.#table = table;
    join(table);
    if (table.clock.kind === "coarse") this.#stopTicking = keepTicking(table);
  }

  /** Makes a table. Throws RangeError or TypeError for options that are wrong. */
  static create(options: SluiceOptions): Sluice {
    checkOptions(options);
    const { capacity, maxThreads = 64, whenFull = "evict", clock = "precise" } = options;
    checkInteger("capacity", capacity, 1, MAX_CAPACITY);
    const { lineCapacity = Math.min(capacity, 1_000_000) } = options;
    checkInteger("lineCapacity", lineCapacity, 1, 10_000_000);
    checkInteger("maxThreads", maxThreads, 1, 1024);
    if (!whenFullChoices.includes(whenFull)) {
      throw unexpected("whenFull", "'evict', 'deny' or 'allow'", whenFull, "string");
    }
    if (clock !== "precise" && clock !== "coarse" && !(clock instanceof ManualClock)) {
      throw unexpected("clock", "'precise', 'coarse' or a ManualClock", clock, "string");
    }
    const made = new Sluice(Table.create({ capacity, lineCapacity, maxThreads, whenFull, clock }));
    attached.set(made.#table.id, new WeakRef(made));
    return made;
  }

  /**
   * The table behind a handle, in any thread of the process: the same limiters,
   * those made later too. Attaching again in the same thread gives the same
   * Sluice. Throws SluiceError ERR_SLUICE_LAYOUT if the handle is from another
   * version, ERR_SLUICE_TOO_MANY_THREADS if "maxThreads" are attached.
   */
  static attach(handle: SluiceHandle): Sluice {
    const { id } = headerOf(handle);
    const here = known(id);
    if (here) return here;
    const sluice = new Sluice(Table.attach(handle));
    attached.set(id, sluice);
    return sluice;
  }

  /** For other threads: put it in `workerData` or post it, and call `Sluice.attach`. */
  get handle(): SluiceHandle {
    return this.#open().handle;
  }

  /**
   * A token bucket for each key: `burst` tokens at most, refilled at `rate`
   * tokens per second. The same name and options again, from any thread, give
   * the same limiter; other options throw ERR_SLUICE_POLICY_EXISTS.
   */
  tokenBucket(name: string, options: TokenBucketOptions): Limiter {
    return this.#make(name, kinds.tokenBucket.read(options));
  }

  /**
   * A leaky bucket for each key. As a meter (`rate`, `burst`) it is the token
   * bucket's mirror image (GCRA). With a `queue`, `wait` lets callers out one by
   * one at `rate`, in order, and refuses at once whom the queue has no place for.
   */
  leakyBucket(name: string, options: LeakyBucketOptions): Limiter {
    return this.#make(name, kinds.leakyBucket.read(options));
  }

  /** At most `limit` in each window of `windowMs`. Around a boundary, twice the limit may pass. */
  fixedWindow(name: string, options: FixedWindowOptions): Limiter {
    return this.#make(name, kinds.fixedWindow.read(options));
  }

  /**
   * Guava's smooth warm-up: after idling, a key starts at 1 / coldFactor of its
   * rate and reaches it within `warmupMs`. The next caller pays: a cost is let
   * through when what was taken before has been paid off.
   */
  warmUp(name: string, options: WarmUpOptions): Limiter {
    return this.#make(name, kinds.warmUp.read(options));
  }

  /** At most `limit` in the last `windowMs`: never more with `slots`, else as estimated from the counts of two windows. */
  slidingWindow(name: string, options: SlidingWindowOptions): Limiter {
    return this.#make(name, kinds.slidingWindow.read(options));
  }

  /**
   * Takes the cost of every entry, [limiter, key, cost?] or [limiter.global, cost?],
   * or of none, and names the limiter that refused.
   * @throws RangeError for a limiter of another Sluice.
   */
  all(entries: readonly Entry[]): GroupDecision {
    this.#open();
    return all(entries);
  }

  /**
   * As `all`, from the future if need be: every entry is charged as of the first
   * moment when all have room. Until then it keeps other calls from the others.
   */
  reserveAll(entries: readonly Entry[], options: ReserveOptions = {}): GroupReservation {
    this.#open();
    return reserveAll(entries, options);
  }

  /** As `all`, waiting until every entry has room. It holds nothing meanwhile and keeps no order of arrival. */
  async waitAll(entries: readonly Entry[], options: WaitAllOptions = {}): Promise<void> {
    this.#open();
    return waitAll(entries, options);
  }

  /** A limiter for each dimension of a call, decided all or nothing: `hierarchy({ service, user, ip })`. */
  hierarchy<Dimension extends string>(limiters: Record<Dimension, Limiter>): Hierarchy<Dimension> {
    this.#open();
    return new Hierarchy(limiters);
  }

  #make(name: string, { tiers, ...definition }: Definition<PolicyKind>): Limiter {
    for (const each of [name, ...tiers.map(([tier]) => tierName(name, tier))]) checkName(this.#open(), each);
    const policy = this.#define(name, definition);
    for (const [tier, own] of tiers) this.#define(tierName(name, tier), own);
    return this.#limiterOf(policy);
  }

  #define(name: string, { kind, numbers, limits = [], ...traits }: Omit<Definition<PolicyKind>, "tiers">): Policy {
    const table = this.#open();
    checkName(table, name);
    const find = (each: string): Policy | undefined => this.#policy(each);
    const joined = limits.map((limit, i) => definePolicy(table, `${name}#${i}`, "limit", limit, {}, find));
    return definePolicy(table, name, kind, numbers, { ...traits, joined }, find);
  }

  static {
    define = (sluice, name, kind, numbers) => sluice.#define(name, { kind, numbers, isShadow: false });
  }

  /** The limiter of that name, from whichever thread. Throws ERR_SLUICE_NO_POLICY if there is none (yet). */
  limiter(name: string): Limiter {
    const table = this.#open();
    checkName(table, name);
    const policy = this.#policy(name);
    if (policy?.kind.hasLimiter) return this.#limiterOf(policy);
    throw new SluiceError(
      "ERR_SLUICE_NO_POLICY",
      `"name" expected a limiter of this table, got ${JSON.stringify(name)}; it has ${
        [...this.#policies.keys()].map((each) => JSON.stringify(each)).join(", ") || "none"
      }`,
    );
  }

  #limiterOf(policy: Policy): Limiter {
    let limiter = this.#limiters.get(policy.name);
    if (!limiter) {
      this.#limiters.set(
        policy.name,
        limiter = new Limiter(policy, (tier) => this.limiter(tierName(policy.name, tier))),
      );
    }
    return limiter;
  }

  #policy(name: string): Policy | undefined {
    for (let number = this.#policies.size + 1; number <= this.#table.header.policyCount; number++) {
      const policy = new Policy(this.#table, number);
      this.#policies.set(policy.name, policy);
    }
    return this.#policies.get(name);
  }

  /** Counts over all threads, living and ended. */
  stats(): SluiceStats {
    const table = this.#open();
    this.#policy("");
    const limiters: Record<string, LimiterStats> = Object.create(null);
    const sum = zeros();
    for (const [name, { number, kind }] of this.#policies) {
      const own = countsOf(table, number);
      add(sum, own);
      if (!kind.isLimitOfSeveral) limiters[name] = own;
    }
    return { ...sum, limiters, capacity: table.header.capacity, threads: table.threads.attached };
  }

  /** Walks the table and reports what must not be there. Meant for a table at rest; takes about 10 ns a slot. */
  audit(): AuditReport {
    const table = this.#open();
    this.#policy("");
    const counts = audit(table);
    const live: Record<string, number> = Object.create(null);
    for (const [name, { number, kind }] of this.#policies) {
      if (!kind.isLimitOfSeveral) live[name] = liveKeysOf(table, number);
    }
    const { busy, torn, doubles, strangers, locksHeld } = counts;
    return { clean: busy + torn + doubles + strangers + locksHeld === 0, ...counts, live };
  }

  /** Detaches this thread. The table lives on while any thread holds it. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stopTicking?.();
    this.#table.clock.manual?.release(this.#table.clockCell);
    this.#table.close();
    unwatch(this.#table);
    attached.delete(this.#table.id);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #open(): Table {
    if (this.#isClosed) throw closed();
    return this.#table;
  }
}

/** The policy behind a tier. */
function tierName(name: string, tier: string): string {
  return `${name}/${tier}`;
}
