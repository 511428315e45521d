/**
 * The gateway's limiters in Redis, shared by all gateways that use it. Names and
 * limits are the same as in the table.
 */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";
import type { Sluice } from "sluice";
import type { AsyncDecision, AsyncLimiter } from "sluice/http";
import { type LeasedLimiter, type RedisLimiter, RedisSluice } from "sluice/redis";
import type { Limiters } from "./limits.js";
import type { Limit, Store } from "./sections.js";

/** How long a worker waits for Redis before it starts without it. */
const CONNECT_MS = 1000;

/** How often a worker reports its counts. */
const REPORT_MS = 1000;

export interface Counts {
  allowed: number;
  denied: number;
  /** Those among them that were decided without Redis. */
  degraded: number;
}

/** Counts since the last report, by the limiter's name in the gateway. */
export type CountsByName = [name: string, counts: Counts][];

export interface RedisStore {
  /**
   * Limiters for limits by name. `local` is the table of this process that decides, or holds leases, in
   * place of Redis.
   */
  limiters(limits: ReadonlyMap<string, Limit>, local: Sluice): Limiters;
  /** Closes the connection. */
  close(): void;
}

/**
 * In a worker: connects to Redis. If that fails, keeps trying; meanwhile the limiters
 * apply `onFailure`. Calls `report` every second.
 */
export async function openRedis(
  { url, mode, onFailure, share, prefix }: Store,
  report: (counts: CountsByName) => void,
): Promise<RedisStore> {
  const client = createClient({ url, disableOfflineQueue: true });
  // Errors show as degraded decisions in the metrics.
  client.on("error", () => {});
  await Promise.race([client.connect().catch(() => {}), sleep(CONNECT_MS)]);

  const counts = new Tally();
  const reporting = setInterval(() => report(counts.take()), REPORT_MS);
  return {
    limiters(limits, local) {
      const redis = RedisSluice.create({ client, onFailure, share, prefix, local });
      const make = (name: string, { rate, burst }: Limit): RedisLimiter | LeasedLimiter =>
        mode === "leased" ? redis.leased(name, { rate, burst }) : redis.tokenBucket(name, { rate, burst });
      const limiters = new Map(
        [...limits].map(([name, limit]) => [name, counts.counted(name, make(redisName(name), limit))]),
      );
      const open = new OpenRequests();
      return {
        of: (name) => limiters.get(name)!,
        begin: () => open.begin(),
        async close() {
          await open.ended();
          await redis.close();
        },
      };
    },
    close() {
      clearInterval(reporting);
      client.destroy();
    },
  };
}

/** Counts decisions by the limiter's name in the gateway. */
class Tally {
  #counts = new Map<string, Counts>();

  /** The counts since the last call. */
  take(): CountsByName {
    const taken = [...this.#counts];
    this.#counts = new Map();
    return taken;
  }

  /** The same limiter, counted, and under the gateway's name. */
  counted(name: string, limiter: RedisLimiter | LeasedLimiter): AsyncLimiter {
    // So that the counter shows up before the first decision.
    this.#of(name);
    return {
      name,
      limits: limiter.limits,
      consume: async (key, cost) => this.#add(name, await limiter.consume(key, cost)),
      refund: (key, cost, taken) => limiter.refund(key, cost, taken),
      global: {
        consume: async (cost) => this.#add(name, await limiter.global.consume(cost)),
        refund: (cost, taken) => limiter.global.refund(cost, taken),
      },
    };
  }

  #of(name: string): Counts {
    let counts = this.#counts.get(name);
    if (!counts) this.#counts.set(name, counts = { allowed: 0, denied: 0, degraded: 0 });
    return counts;
  }

  #add<Decided extends AsyncDecision>(name: string, decision: Decided): Decided {
    const counts = this.#of(name);
    counts[decision.allowed ? "allowed" : "denied"]++;
    if (decision.degraded) counts.degraded++;
    return decision;
  }
}

/** Counts requests that are being decided. */
class OpenRequests {
  #open = 0;
  #onIdle = (): void => {};

  /** Returns the function that ends the request. */
  begin(): () => void {
    this.#open++;
    return () => {
      if (--this.#open === 0) this.#onIdle();
    };
  }

  /** Resolves when no request is open. */
  async ended(): Promise<void> {
    if (this.#open > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
  }
}

/** 'tier gold' as a name for Redis: `tier/gold`. A name that Redis limiters do not accept is hashed. */
function redisName(name: string): string {
  const at = name.indexOf(" ");
  const rest = name.slice(at + 1);
  return `${name.slice(0, at)}/${
    /^[\w./-]{1,40}$/.test(rest) ? rest : createHash("sha256").update(rest).digest("base64url").slice(0, 32)
  }`;
}
