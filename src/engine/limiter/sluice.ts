// The table and its limiters, as a user sees them.

import { checkInteger, SluiceError, unexpected } from "../errors.js";
import { ManualClock } from "../manual-clock.js";
import { checkOptions } from "../options.js";
import type {
  Definition,
  FixedWindowOptions,
  LeakyBucketOptions,
  SlidingWindowOptions,
  TokenBucketOptions,
  WarmUpOptions,
} from "../policy/algorithms.js";
import { checkName } from "../policy/define.js";
import { kinds, type PolicyKind } from "../policy/kinds.js";
import type { Policy } from "../policy/policy.js";
import type { Limits } from "../policy/segment.js";
import { join, unwatch } from "../table/deaths.js";
import { headerOf, type SluiceHandle, type WhenFull, whenFullChoices } from "../table/header.js";
import { Table } from "../table/table.js";
import { keepTicking } from "../table/ticker.js";
import {
  all,
  type GroupDecision,
  type GroupReservation,
  type Hierarchy,
  hierarchyOf,
  reserveAll,
  waitAll,
} from "./all.js";
import type { ReserveOptions, WaitAllOptions } from "./call-options.js";
import type { Entry } from "./entries.js";
import { type Limiter, limiterOf } from "./limiter.js";
import { Policies, tierName } from "./policies.js";
import { auditOf, type AuditReport, type SluiceStats, statsOf } from "./reports.js";

/** Options of `Sluice.create`. */
export interface SluiceOptions {
  /** Keys to have room for at once, over all limiters: 1 to 100 million. Costs 22.9 bytes each, once used. */
  capacity: number;
  /**
   * Keys to have room for among those of limiters that take a line: windows with
   * slots, several limits, warm-up. 1 to 10 million; by default `capacity`, but at
   * most 1 million. Costs 113 bytes each, once used.
   */
  lineCapacity?: number;
  /**
   * 'precise' (default) reads the monotonic clock for every call. 'coarse' reads
   * a cell that a ticker thread keeps within about 1 ms, which may admit up to
   * rate x 1 ms late. A ManualClock is moved by hand.
   */
  clock?: "precise" | "coarse" | ManualClock;
  /**
   * What happens to a new key when both of its sets are full of keys in use: 'evict'
   * (default) gives it the slot of the key that is nearest to fresh, 'deny' refuses
   * it, 'allow' admits it uncounted.
   */
  whenFull?: WhenFull;
  /** Threads attached at the same time, 1 to 1024; 64 by default. */
  maxThreads?: number;
}

const OPTIONS = ["capacity", "lineCapacity", "clock", "whenFull", "maxThreads"];
const MAX_CAPACITY = 100_000_000;

/** @internal Defines a policy of any kind: for faces other than this library's own limiters. */
export let define: (sluice: Sluice, name: string, kind: PolicyKind, numbers: Limits) => Policy;

/**
 * The Sluices of this thread, by table. An attached one stays until it is closed,
 * since it holds a thread number; one that was made here may be forgotten whole.
 */
const attached = new Map<string, Sluice | WeakRef<Sluice>>();

function known(id: string): Sluice | undefined {
  const sluice = attached.get(id);
  return sluice instanceof WeakRef ? sluice.deref() : sluice;
}

/**
 * A table in shared memory and its limiters. Every method throws SluiceError
 * ERR_SLUICE_CLOSED after `close()`, and TypeError or RangeError for a wrong
 * argument; an unknown option is a TypeError that names the nearest known one.
 *
 * A limiter is defined once, by its name: the same name and options again, from
 * any thread, give the same limiter. All that define one throw SluiceError
 * ERR_SLUICE_POLICY_EXISTS for other options, ERR_SLUICE_TOO_MANY_POLICIES if the
 * table has no room for another policy (it holds 1023, each of several limits and
 * each tier counted), and ERR_SLUICE_LOCKED if a thread was stopped while it
 * defined one.
 */
export class Sluice {
  readonly #table: Table;
  readonly #policies: Policies;
  readonly #limiters = new Map<string, Limiter>();
  readonly #stopTicking: (() => void) | undefined;

  static {
    define = (sluice, name, kind, numbers) =>
      sluice.#policies.define(name, { kind, numbers, isShadow: false, tiers: [] });
  }

  private constructor(table: Table) {
    this.#table = table;
    this.#policies = new Policies(table);
    join(table);
    if (table.clock.kind === "coarse") this.#stopTicking = keepTicking(table);
  }

  /** Makes a table. Its memory is reserved at once and used as keys arrive. */
  static create(options: SluiceOptions): Sluice {
    checkOptions(options, OPTIONS);
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
   * later ones too. Attaching again in the same thread gives the same Sluice.
   * @throws SluiceError ERR_SLUICE_LAYOUT if the handle is from another version,
   * ERR_SLUICE_TOO_MANY_THREADS if `maxThreads` are attached.
   */
  static attach(handle: SluiceHandle): Sluice {
    const { id } = headerOf(handle);
    const here = known(id);
    if (here) return here;
    const sluice = new Sluice(Table.attach(handle));
    attached.set(id, sluice);
    return sluice;
  }

  /** For other threads: put it in `workerData` or post it, and call `Sluice.attach` there. */
  get handle(): SluiceHandle {
    return this.#policies.table.handle;
  }

  /**
   * A token bucket for each key: at most `burst` tokens, refilled at `rate` tokens per second; or
   * several such limits.
   */
  tokenBucket(name: string, options: TokenBucketOptions): Limiter {
    return this.#define(name, kinds.tokenBucket.read(options));
  }

  /**
   * A leaky bucket for each key. As a meter (`rate`, `burst`) it is the token
   * bucket's mirror image (GCRA). With a `queue`, `wait` lets callers out one by
   * one at `rate`, in order, and refuses a caller at once if the queue is full.
   */
  leakyBucket(name: string, options: LeakyBucketOptions): Limiter {
    return this.#define(name, kinds.leakyBucket.read(options));
  }

  /** At most `limit` in each window of `windowMs`. Around a boundary, twice the limit may pass. */
  fixedWindow(name: string, options: FixedWindowOptions): Limiter {
    return this.#define(name, kinds.fixedWindow.read(options));
  }

  /** At most `limit` in the last `windowMs`: exactly with `slots`, else estimated from the counts of two windows. */
  slidingWindow(name: string, options: SlidingWindowOptions): Limiter {
    return this.#define(name, kinds.slidingWindow.read(options));
  }

  /**
   * Guava's smooth warm-up: after idling, a key starts at 1 / coldFactor of its
   * rate and reaches it within `warmupMs`. The next caller pays: a cost is let
   * through when the cost before it is paid off.
   */
  warmUp(name: string, options: WarmUpOptions): Limiter {
    return this.#define(name, kinds.warmUp.read(options));
  }

  #define(name: string, definition: Definition<PolicyKind>): Limiter {
    return this.#limiterOf(this.#policies.define(name, definition));
  }

  /**
   * The limiter of that name, whichever thread defined it.
   * @throws SluiceError ERR_SLUICE_NO_POLICY if there is none yet.
   */
  limiter(name: string): Limiter {
    checkName(this.#policies.table, name);
    const policy = this.#policies.find(name);
    if (policy?.kind.hasLimiter) return this.#limiterOf(policy);
    const names = [...this.#policies.all()].flatMap((each) => each.kind.hasLimiter ? [JSON.stringify(each.name)] : []);
    throw new SluiceError(
      "ERR_SLUICE_NO_POLICY",
      `no limiter ${JSON.stringify(name)}: this table has ${names.join(", ") || "none"}`,
      { limiter: name },
    );
  }

  #limiterOf(policy: Policy): Limiter {
    let limiter = this.#limiters.get(policy.name);
    if (!limiter) {
      limiter = limiterOf(policy, (tier) => this.limiter(tierName(policy.name, tier)));
      this.#limiters.set(policy.name, limiter);
    }
    return limiter;
  }

  /**
   * Takes the cost of every entry, [limiter, key, cost?] or [limiter.global, cost?],
   * or of none, and names the limiter that refused. All must be of this Sluice.
   */
  all(entries: readonly Entry[]): GroupDecision {
    this.#policies.checkOpen();
    return all(entries);
  }

  /**
   * As `all`, from the future if need be: every entry is charged as of the first
   * moment at which all have room. Until then it keeps other calls from entries
   * that have room before.
   */
  reserveAll(entries: readonly Entry[], options: ReserveOptions = {}): GroupReservation {
    this.#policies.checkOpen();
    return reserveAll(entries, options);
  }

  /**
   * As `all`, waiting until every entry has room. It holds nothing meanwhile and
   * keeps no order of arrival.
   * @throws SluiceError, as a rejection, as `limiter.wait`.
   */
  async waitAll(entries: readonly Entry[], options: WaitAllOptions = {}): Promise<void> {
    this.#policies.checkOpen();
    return waitAll(entries, options);
  }

  /** A limiter for each dimension of a call, decided all or nothing: `hierarchy({ service, user, ip })`. */
  hierarchy<Dimension extends string>(limiters: Record<Dimension, Limiter>): Hierarchy<Dimension> {
    this.#policies.checkOpen();
    return hierarchyOf(limiters);
  }

  /** Counts over all threads, living and ended. */
  stats(): SluiceStats {
    return statsOf(this.#policies);
  }

  /** Walks the table and reports faults. Meant for a table at rest; takes about 10 ns a slot. */
  audit(): AuditReport {
    return auditOf(this.#policies);
  }

  /**
   * Detaches this thread, and rejects the waits that it has. The table lives on while any thread holds
   * it. Idempotent.
   */
  close(): void {
    if (this.#policies.isClosed) return;
    this.#policies.isClosed = true;
    this.#stopTicking?.();
    this.#table.clock.manual?.release(this.#table.clockCell);
    this.#table.close();
    unwatch(this.#table);
    attached.delete(this.#table.id);
  }

  /** Closes it: `using sluice = Sluice.create(...)`. */
  [Symbol.dispose](): void {
    this.close();
  }
}
