// Limiters whose buckets are in Redis, as a user sees them.

import { checkInteger, checkOptions, closed, shown, SluiceError, unexpected } from "../engine/errors.js";
import { define, Sluice } from "../engine/limiter/sluice.js";
import { Breaker } from "./connection/breaker.js";
import { Guard, type GuardCounts } from "./connection/caller.js";
import type { RedisClient } from "./connection/client.js";
import { connection } from "./connection/connection.js";
import {
  redisFixedWindow,
  type RedisFixedWindowOptions,
  type RedisKind,
  redisLeakyBucket,
  type RedisLeakyBucketOptions,
  redisSlidingWindow,
  type RedisSlidingWindowOptions,
  redisTokenBucket,
  type RedisTokenBucketOptions,
} from "./kinds.js";
import { LeasedLimiter, type LeasedOptions, type LeasedStats } from "./lease/leased.js";
import { RedisLimiter, type RedisLimiterStats } from "./limiter.js";
import type { RedisPolicy } from "./policy.js";

/** What is decided while Redis cannot be asked: all passes, nothing passes, or what a limiter of this process lets pass. */
export type OnFailure = "open" | "closed" | "local";

export interface RedisSluiceOptions {
  /** A client of redis, ioredis, iovalkey or @valkey/valkey-glide, for one server or a cluster. */
  client: RedisClient;
  /**
   * While Redis cannot be asked: 'open' admits, 'closed' refuses (a 503, not a
   * 429), 'local' decides in `local` with `share` of each limit. Such decisions
   * are `degraded`. It ends by itself when Redis answers.
   */
  onFailure: OnFailure;
  /** What all keys in Redis begin with: up to 24 letters, digits and _ . - : / characters, 'sluice' by default. */
  prefix?: string;
  /** Longest time that a call waits for Redis, ms: 1 to 60,000, 250 by default. */
  deadlineMs?: number;
  /** While Redis does not answer, it is asked so often, ms: 1 to 600,000, 1000 by default. By one thread of all that share `local`. */
  probeMs?: number;
  /** The table that the threads of this process share. Without it, each thread finds out for itself that Redis is gone. */
  local?: Sluice;
  /** Under 'local', the share of each limit that this process may give: above 0 and up to 1 (default). With n processes, 1 / n keeps the limit. */
  share?: number;
}

export interface RedisSluiceStats extends RedisLimiterStats, GuardCounts {
  /** The same counts for each limiter by name. */
  limiters: Record<string, RedisLimiterStats>;
  /** And for each that leases. */
  leased: Record<string, LeasedStats>;
  /** False while Redis has been given up and is only probed. */
  reachable: boolean;
}

/** What a reply may be late beside its deadline, ms: as long as that a thread that asks keeps others from asking. */
const LATE_MS = 20;
/** So often a thread can ask within a lease. */
const LEAST_HOLDS = 3;

const choices: readonly OnFailure[] = ["open", "closed", "local"];

/** Throws unless `name` is a string of so many letters, digits and marks that mean nothing in a key. */
function checkWord(what: string, name: unknown, least: number, most: number, marks: string): asserts name is string {
  if (
    typeof name !== "string" || name.length < least || name.length > most || !new RegExp(`^[\\w${marks}]*$`).test(name)
  ) {
    throw unexpected(
      what,
      `${least} to ${most} letters, digits and ${marks.replace("\\", "").split("").join(" ")} characters`,
      name,
      "string",
    );
  }
}

export class RedisSluice {
  readonly #guard: Guard;
  readonly #options: Required<Omit<RedisSluiceOptions, "client" | "local">>;
  readonly #local: Sluice | undefined;
  readonly #limiters = new Map<string, { limiter: RedisLimiter; options: string }>();
  readonly #leased = new Map<string, { limiter: LeasedLimiter; leaseMs: number }>();
  #isClosed = false;

  private constructor(
    client: RedisClient,
    options: Required<Omit<RedisSluiceOptions, "client" | "local">>,
    local: Sluice | undefined,
  ) {
    const asked = connection(client, options.deadlineMs);
    this.#options = options;
    this.#local = local;
    const shared = local ?? Sluice.create({ capacity: 1, lineCapacity: 1, maxThreads: 1 });
    this.#guard = new Guard(asked, new Breaker(shared, options.prefix, options.probeMs));
  }

  /** Throws RangeError or TypeError for options that are wrong. Asks Redis nothing yet. */
  static create(options: RedisSluiceOptions): RedisSluice {
    checkOptions(options);
    const { client, onFailure, prefix = "sluice", deadlineMs = 250, probeMs = 1000, local, share = 1 } = options;
    if (!choices.includes(onFailure)) throw unexpected("onFailure", "'open', 'closed' or 'local'", onFailure, "string");
    checkWord("prefix", prefix, 0, 24, ".:/-");
    checkInteger("deadlineMs", deadlineMs, 1, 60_000);
    checkInteger("probeMs", probeMs, 1, 600_000);
    if (local !== undefined && !(local instanceof Sluice)) {
      throw new TypeError(`"local" expected a Sluice, got ${shown(local)}`);
    }
    if (onFailure === "local" && local === undefined) {
      throw new TypeError(`"local" expected the Sluice that decides under onFailure 'local', got undefined`);
    }
    if (typeof share !== "number" || !(share > 0 && share <= 1)) {
      throw unexpected("share", "a number above 0 and up to 1", share);
    }
    return new RedisSluice(client, { onFailure, prefix, deadlineMs, probeMs, share }, local);
  }

  /**
   * A token bucket for each key: `burst` tokens at most, refilled at `rate`
   * tokens per second; or up to 7 such limits on each key, all or nothing. The
   * same name and options again give the same limiter; other options throw
   * ERR_SLUICE_POLICY_EXISTS.
   */
  tokenBucket(name: string, options: RedisTokenBucketOptions): RedisLimiter {
    return this.#make(name, options, redisTokenBucket);
  }

  /**
   * A leaky bucket for each key. As a meter (`rate`, `burst`) it is the token
   * bucket's mirror image. With a `queue`, `wait` lets callers out one by one at
   * `rate`, in order, over all processes, and refuses at once whom the queue has
   * no place for.
   */
  leakyBucket(name: string, options: RedisLeakyBucketOptions): RedisLimiter {
    return this.#make(name, options, redisLeakyBucket);
  }

  /** At most `limit` in each window of `windowMs`. Around a boundary, twice the limit may pass. */
  fixedWindow(name: string, options: RedisFixedWindowOptions): RedisLimiter {
    return this.#make(name, options, redisFixedWindow);
  }

  /** At most `limit` in the last `windowMs`: never more with `slots` or `log`, else as estimated from the counts of two windows. */
  slidingWindow(name: string, options: RedisSlidingWindowOptions): RedisLimiter {
    return this.#make(name, options, redisSlidingWindow);
  }

  /**
   * A token bucket for each key out of tokens that this process leases ahead into
   * `local`, which its threads share: a decision takes tens of nanoseconds, and in
   * any time W at most burst + rate x (W + leaseMs) pass over all processes. Its
   * buckets are those of `tokenBucket` under the same name.
   */
  leased(name: string, options: LeasedOptions): LeasedLimiter {
    if (this.#isClosed) throw closed();
    checkWord("name", name, 1, 48, "./-");
    checkOptions(options);
    const { prefix, deadlineMs } = this.#options;
    const { rate, burst, leaseMs = 1000 } = options;
    const kind = redisTokenBucket({ rate, burst });
    const holdMs = deadlineMs + LATE_MS;
    checkInteger("leaseMs", leaseMs, LEAST_HOLDS * holdMs, 600_000);
    if (!this.#local) throw new TypeError("\"local\" expected the Sluice that leased tokens go to, got undefined");
    const policy = define(this.#local, `redis:${prefix}:${name}:leases`, "lease", { rate, burst, extra: holdMs * 1e6 });
    const known = this.#leased.get(name);
    if (known?.leaseMs === leaseMs) return known.limiter;
    if (known) throw exists(name);
    const limiter = new LeasedLimiter(policy, this.#policyOf(name, kind), leaseMs);
    this.#leased.set(name, { limiter, leaseMs });
    return limiter;
  }

  #policyOf(name: string, kind: RedisKind): RedisPolicy {
    const { prefix, onFailure, probeMs, share } = this.#options;
    const standIn = onFailure === "local" ? kind.standIn(this.#local!, `redis:${prefix}:${name}`, share) : undefined;
    return { name, prefix, kind, guard: this.#guard, failure: { policy: onFailure, probeMs }, standIn };
  }

  #make<Options extends object>(name: string, options: Options, read: (options: Options) => RedisKind): RedisLimiter {
    if (this.#isClosed) throw closed();
    checkWord("name", name, 1, 48, "./-");
    checkOptions(options);
    const kind = read(options);
    const described = `${kind.letter} ${kind.numbers.join(" ")}`;
    const known = this.#limiters.get(name);
    if (known && known.options !== described) {
      throw exists(name);
    }
    if (known) return known.limiter;
    const limiter = new RedisLimiter(this.#policyOf(name, kind));
    this.#limiters.set(name, { limiter, options: described });
    return limiter;
  }

  /** Counts of this thread, over all its limiters. */
  stats(): RedisSluiceStats {
    const limiters: Record<string, RedisLimiterStats> = Object.create(null);
    const sum: RedisLimiterStats = { allowed: 0, denied: 0, degraded: 0, gaveBack: 0 };
    for (const [name, { limiter }] of this.#limiters) {
      const own = (limiters[name] = limiter.stats());
      for (const counter of Object.keys(sum) as (keyof RedisLimiterStats)[]) sum[counter] += own[counter];
    }
    const leased: Record<string, LeasedStats> = Object.create(null);
    for (const [name, { limiter }] of this.#leased) {
      const { allowed, denied, degraded } = (leased[name] = limiter.stats());
      sum.allowed += allowed;
      sum.denied += denied;
      sum.degraded += degraded;
    }
    return { ...sum, ...this.#guard.counts, limiters, leased, reachable: this.#guard.isReachable };
  }

  /** Rejects those who wait, and gives back their turns and the leases that this thread holds. The client stays open until it has resolved, and so does `local`. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await Promise.all([...this.#limiters.values(), ...this.#leased.values()].map(({ limiter }) => limiter.close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function exists(name: string): SluiceError {
  return new SluiceError(
    "ERR_SLUICE_POLICY_EXISTS",
    `limiter ${JSON.stringify(name)} exists with other options; use another name`,
  );
}
