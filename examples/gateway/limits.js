/**
 * From the configuration to limits: the one place that decides which limiters
 * there are. In the table, the main thread defines the policies, and changes them
 * when the configuration does; every worker asks the same buckets. In Redis, every
 * worker makes limiters of its own, which ask the same buckets as well.
 */
import { clientAddress, forwardAuth, limitHttp } from "sluice/http/node";
import { isBelow, readingsOf } from "./paths.js";

const tierPolicy = (tier) => `tier ${tier}`;
const routePolicy = (path) => `route ${path}`;

/** All limits of a configuration, by name. @returns {Map<string, import('./config.js').Limit>} */
function limitsByName({ tiers, routes }) {
  return new Map([
    ...[...tiers].map(([tier, limit]) => [tierPolicy(tier), limit]),
    ...[...routes].map(([path, limit]) => [routePolicy(path), limit]),
  ]);
}

/**
 * In the main thread: returns what brings the table's policies to a
 * configuration. What a bucket holds stays; only its rate and burst change.
 * @param {import('sluice').Sluice} sluice
 * @returns {(config: import('./config.js').Config) => void}
 */
export function policiesOf(sluice) {
  /** @type {Map<string, import('sluice').Limiter>} */
  const limiters = new Map();
  return (config) => {
    const wanted = limitsByName(config);
    // New ones first: a table that has no room for them is left as it was.
    for (const [name, limit] of wanted) if (!limiters.has(name)) limiters.set(name, sluice.tokenBucket(name, limit));
    for (const [name, { rate, burst }] of wanted) {
      const limiter = limiters.get(name);
      if (limiter.rate !== rate) limiter.setRate(rate);
      if (limiter.burst !== burst) limiter.setBurst(burst);
    }
  };
}

/**
 * In a worker: the limiters of a configuration, in the table or, with `redis`, there.
 * @param {import('./config.js').Config} config
 * @param {import('sluice').Sluice} sluice
 * @param {Awaited<ReturnType<typeof import('./redis.js').openRedis>> | undefined} redis
 * @returns {import('./redis.js').Limiters}
 */
export function limitersOf(config, sluice, redis) {
  if (redis) return redis.limiters(limitsByName(config), sluice);
  const nothing = () => {};
  return { of: (name) => sluice.limiter(name), begin: () => nothing, close: async () => {} };
}

/**
 * In a worker: who asks, and whether they may.
 * @param {import('./redis.js').Limiters} limiters
 * @param {import('./config.js').Config} config
 */
export function limitsOf(
  limiters,
  { tiers, tenants, anonymous, routes, apiKeyHeader, trustedProxies, forwardAuth: authOptions },
) {
  const client = clientAddress(trustedProxies.length > 0 ? { trusted: trustedProxies } : {});
  const ofTier = new Map([...tiers.keys()].map((tier) => [tier, limiters.of(tierPolicy(tier))]));
  const ofRoute = [...routes.keys()].map((path) => ({ path, limiter: limiters.of(routePolicy(path)) }));
  const tenantOf = (request) => tenants.get(request.headers[apiKeyHeader]);

  const limits = [];
  if (tiers.size > 0) {
    limits.push({
      // A wrong key is none: whoever guesses keys is limited by address.
      limiter: (request) => ofTier.get(tenantOf(request)?.tier ?? anonymous) ?? null,
      key: (request, reader) => tenantOf(request)?.name ?? client(request, reader),
    });
  }
  if (ofRoute.length > 0) {
    limits.push({
      limiter: (request) => {
        const readings = readingsOf(request.url);
        return ofRoute.find(({ path }) => isBelow(readings, path))?.limiter ?? null;
      },
    });
  }

  const guard = limits.length > 0 ? limitHttp({ limits }) : () => true;
  const auth = authOptions && (limits.length > 0
    ? forwardAuth({ limits, client, ...(authOptions.limitedStatus && { limitedStatus: authOptions.limitedStatus }) })
    : (request, response) => response.writeHead(204).end());

  return {
    tenantOf,
    /** Whether a request needs an API key that is known, and has none. */
    isStranger: (request) =>
      tenants.size > 0 && !tenantOf(request) && (anonymous === undefined || apiKeyHeader in request.headers),
    /** The whole address of the client. */
    addressOf: client.address,
    /** Answers a request that may not go ahead. */
    async guard(request, response) {
      const end = limiters.begin();
      try {
        return await guard(request, response);
      } finally {
        end();
      }
    },
    /** Answers another proxy that asks whether a request of its own may go ahead. */
    auth: auth && ((request, response) => {
      response.once("close", limiters.begin());
      auth(request, response);
    }),
    /** Once no request is being decided any more. */
    close: () => limiters.close(),
  };
}
