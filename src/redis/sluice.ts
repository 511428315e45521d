// Limiters whose buckets are in Redis, as a user sees them.

import { checkInteger, closed, shown, SluiceError, unexpected } from "../engine/errors.js";
import { define, Sluice } from "../engine/limiter/sluice.js";
import { checkOptions } from "../engine/options.js";
import type { RedisLimiterStats } from "./buckets.js";
import { Breaker } from "./connection/breaker.js";
import { type CallCounts, Caller } from "./connection/caller.js";
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
import { type LeasedLimiter, leasedLimiter, type LeasedOptions, type LeasedStats } from "./lease/leased.js";
import { type RedisLimiter, redisLimiter } from "./limiter.js";
import type { RedisPolicy } from "./policy.js";

/** How to decide while Redis cannot be asked: admit, refuse, or ask a limiter of this process. */
export type OnFailure = "open" | "closed" | "local";

/** Options of `RedisSluice.create()`. */
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
  /** Longest time that a call waits for Redis, ms: an integer from 1 to 60,000, 250 by default. */
  deadlineMs?: number;
  /**
   * How often Redis is asked while it does not answer, ms: an integer from 1 to 600,000, 1000 by
   * default. One thread asks for all that share `local`.
   */
  probeMs?: number;
  /**
   * The table that the threads of this process share. Without it, each thread finds out for itself that
   * Redis is gone.
   */
  local?: Sluice;
  /**
   * Under 'local', the share of each limit that this process may give: above 0 and up to 1 (default).
   * With n processes, 1 / n keeps the limit.
   */
  share?: number;
}

/** Counts of one thread. */
export interface RedisSluiceStats extends RedisLimiterStats, CallCounts {
  /** The same counts for each limiter by name. */
  limiters: Record<string, RedisLimiterStats>;
  /** And for each limiter that leases. */
  leased: Record<string, LeasedStats>;
  /** False while Redis has been given up and is only probed. */
  reachable: boolean;
}

/**
 * How late a reply may be besides its deadline, ms. A thread that asks for a lease keeps others from
 * asking for as long.
 */
const LATE_MS = 20;
/** How often a thread can ask within a lease, at least. */
const MIN_ASKS = 3;

const choices: readonly OnFailure[] = ["open", "closed", "local"];
const optionNames = ["client", "onFailure", "prefix", "deadlineMs", "probeMs", "local", "share"];

/** Throws unless `value` is a string of `min` to `max` letters, digits and marks that mean nothing in a key. */
function checkWord(what: string, value: unknown, min: number, max: number, marks: string): asserts value is string {
  if (
    typeof value !== "string" || value.length < min || value.length > max
    || !new RegExp(`^[\\w${marks}]*$`).test(value)
  ) {
    const spaced = ["_", ...marks].join(" ");
    throw unexpected(what, `${min} to ${max} letters, digits and ${spaced} characters`, value, "string");
  }
}

/** Limiters whose buckets are in Redis. */
export class RedisSluice {
  readonly #caller: Caller;
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
    const send = connection(client, options.deadlineMs);
    this.#options = options;
    this.#local = local;
    const shared = local ?? Sluice.create({ capacity: 1, lineCapacity: 1, maxThreads: 1 });
    this.#caller = new Caller(send, new Breaker(shared, options.prefix, options.probeMs));
  }

  /**
   * Asks Redis nothing yet.
   * @throws RangeError or TypeError for options that are wrong or unknown.
   */
  static create(options: RedisSluiceOptions): RedisSluice {
    checkOptions(options, optionNames);
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
   * A token bucket for each key: at most `burst` tokens, refilled at `rate` tokens
   * per second; or up to 7 such limits on each key, all or nothing. The same name and
   * options again give the same limiter.
   * @throws RangeError or TypeError for a name or options that are wrong,
   * ERR_SLUICE_POLICY_EXISTS if the name has other options, ERR_SLUICE_CLOSED.
   */
  tokenBucket(name: string, options: RedisTokenBucketOptions): RedisLimiter {
    return this.#define(name, options, redisTokenBucket);
  }

  /**
   * A leaky bucket for each key. As a meter (`rate` drops per second, `burst`) it is
   * the token bucket's mirror image. With a `queue`, `wait` lets callers out one by
   * one at `rate`, in order, over all processes, and refuses at once when the queue
   * has no place.
   * @throws as `tokenBucket`.
   */
  leakyBucket(name: string, options: RedisLeakyBucketOptions): RedisLimiter {
    return this.#define(name, options, redisLeakyBucket);
  }

  /**
   * At most `limit` in each window of `windowMs`. Around a boundary, twice the limit may pass.
   * @throws as `tokenBucket`.
   */
  fixedWindow(name: string, options: RedisFixedWindowOptions): RedisLimiter {
    return this.#define(name, options, redisFixedWindow);
  }

  /**
   * At most `limit` in the last `windowMs`: never more with `slots` or `log`, else as
   * estimated from the counts of two windows.
   * @throws as `tokenBucket`.
   */
  slidingWindow(name: string, options: RedisSlidingWindowOptions): RedisLimiter {
    return this.#define(name, options, redisSlidingWindow);
  }

  /**
   * A token bucket for each key, whose tokens this process leases ahead into `local`,
   * which its threads share. A decision takes about 0.2 µs, and in any time W
   * at most burst + rate x (W + leaseMs) pass over all processes. The buckets are
   * those of `tokenBucket` under the same name.
   * @throws as `tokenBucket`, and TypeError without `local`.
   */
  leased(name: string, options: LeasedOptions): LeasedLimiter {
    if (this.#isClosed) throw closed();
    checkWord("name", name, 1, 48, "./-");
    checkOptions(options, ["rate", "burst", "leaseMs"]);
    const { prefix, deadlineMs } = this.#options;
    const { rate, burst, leaseMs = 1000 } = options;
    const kind = redisTokenBucket({ rate, burst });
    const holdMs = deadlineMs + LATE_MS;
    checkInteger("leaseMs", leaseMs, MIN_ASKS * holdMs, 600_000);
    if (!this.#local) throw new TypeError("\"local\" expected the Sluice that leased tokens go to, got undefined");
    const policy = define(this.#local, `redis:${prefix}:${name}:leases`, "lease", { rate, burst, extra: holdMs * 1e6 });
    const known = this.#leased.get(name);
    if (known?.leaseMs === leaseMs) return known.limiter;
    if (known) throw exists(name);
    const limiter = leasedLimiter(policy, this.#policyOf(name, kind), leaseMs);
    this.#leased.set(name, { limiter, leaseMs });
    return limiter;
  }

  #policyOf(name: string, kind: RedisKind): RedisPolicy {
    const { prefix, onFailure, probeMs, share } = this.#options;
    const standIn = onFailure === "local" ? kind.standIn(this.#local!, `redis:${prefix}:${name}`, share) : undefined;
    return { name, prefix, kind, caller: this.#caller, failure: { policy: onFailure, probeMs }, standIn };
  }

  #define<Options extends object>(name: string, options: Options, read: (options: Options) => RedisKind): RedisLimiter {
    if (this.#isClosed) throw closed();
    checkWord("name", name, 1, 48, "./-");
    const kind = read(options);
    const described = `${kind.letter} ${kind.scripts.numbers.join(" ")}`;
    const known = this.#limiters.get(name);
    if (known && known.options !== described) {
      throw exists(name);
    }
    if (known) return known.limiter;
    const limiter = redisLimiter(this.#policyOf(name, kind));
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
    return { ...sum, ...this.#caller.counts, limiters, leased, reachable: this.#caller.isReachable };
  }

  /**
   * Rejects all waits and later calls with ERR_SLUICE_CLOSED, and gives back the turns
   * of the waits and the leases that this thread holds. The client and `local` must
   * stay open until it has resolved.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await Promise.all([...this.#limiters.values(), ...this.#leased.values()].map(({ limiter }) => limiter.close()));
  }

  /** `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function exists(name: string): SluiceError {
  return new SluiceError(
    "ERR_SLUICE_POLICY_EXISTS",
    `limiter ${JSON.stringify(name)} exists with other options; use another name`,
    { limiter: name },
  );
}
