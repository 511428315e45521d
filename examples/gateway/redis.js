/**
 * The gateway's limiters in Redis, where all gateways that use it share them:
 * under the names and limits that they would have in the table.
 */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";
import { RedisSluice } from "sluice/redis";

/** A worker waits so long for Redis before it starts without. */
const CONNECT_MS = 1000;

/** So often a worker tells what it counted. */
const TELL_MS = 1000;

/**
 * @typedef {{ allowed: number, denied: number, degraded: number }} Counts
 *
 * @typedef {object} Limiters
 * @property {(name: string) => import('sluice/http').AnyLimiter} of
 * @property {() => () => void} begin  of a request that asks them; returns what ends it
 * @property {() => Promise<void>} close  once no request asks them any more
 */

/**
 * In a worker: connects, or goes on trying; meanwhile limiters do as `onFailure` says.
 * @param {NonNullable<import('./config.js').Config['store']>} store
 * @param {(counts: [name: string, Counts][]) => void} tell  called with what was counted since the last time
 */
export async function openRedis({ url, mode, onFailure, share, prefix }, tell) {
  const client = createClient({ url, disableOfflineQueue: true });
  // What is amiss shows in what is counted as degraded.
  client.on("error", () => {});
  await Promise.race([client.connect().catch(() => {}), sleep(CONNECT_MS)]);

  /** @type {Map<string, Counts>} */
  let counts = new Map();
  const telling = setInterval(() => {
    tell([...counts]);
    counts = new Map();
  }, TELL_MS);

  function countedBy(name) {
    if (!counts.has(name)) counts.set(name, { allowed: 0, denied: 0, degraded: 0 });
    return counts.get(name);
  }

  /** The limiter by the gateway's name for it, and counted. @returns {import('sluice/http').AsyncLimiter} */
  function named(name, limiter) {
    countedBy(name);
    return {
      name,
      limits: limiter.limits,
      async consume(key, cost) {
        const decision = await limiter.consume(key, cost);
        const counted = countedBy(name);
        counted[decision.allowed ? "allowed" : "denied"]++;
        if (decision.degraded) counted.degraded++;
        return decision;
      },
      refund: (key, cost, taken) => limiter.refund(key, cost, taken),
    };
  }

  return {
    /**
     * @param {Map<string, import('./config.js').Limit>} limits  by name
     * @param {import('sluice').Sluice} local  the table of this process that decides, or holds leases, in Redis' place
     * @returns {Limiters}
     */
    limiters(limits, local) {
      const redis = RedisSluice.create({ client, onFailure, share, prefix, local });
      const make = (name, limit) => (mode === "leased" ? redis.leased(name, limit) : redis.tokenBucket(name, limit));
      const limiters = new Map(
        [...limits].map(([name, { rate, burst }]) => [name, named(name, make(redisName(name), { rate, burst }))]),
      );
      let open = 0;
      let onIdle = () => {};
      return {
        of: (name) => limiters.get(name),
        begin() {
          open++;
          return () => {
            if (--open === 0) onIdle();
          };
        },
        async close() {
          if (open > 0) {
            await new Promise((resolve) => {
              onIdle = resolve;
            });
          }
          await redis.close();
        },
      };
    },
    close() {
      clearInterval(telling);
      client.destroy();
    },
  };
}

/** 'tier gold' as a name for Redis: `tier/gold`. What has other characters, or too many, goes by its hash. */
function redisName(name) {
  const at = name.indexOf(" ");
  const rest = name.slice(at + 1);
  return `${name.slice(0, at)}/${
    /^[\w./-]{1,40}$/.test(rest) ? rest : createHash("sha256").update(rest).digest("base64url").slice(0, 32)
  }`;
}
