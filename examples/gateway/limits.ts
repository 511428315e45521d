/**
 * The limits of a configuration. This is the only module that decides which limiters
 * there are. In the table, the main thread defines the policies, and changes them on
 * a reload; all workers use the same buckets. In Redis, each worker makes its own
 * limiters, which share their buckets too.
 */
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Limiter, Sluice } from "sluice";
import type { AnyLimiter, LimitOptions, PlainRequest } from "sluice/http";
import { clientAddress, forwardAuth, limitHttp, nodeReader } from "sluice/http/node";
import type { Config } from "./config.js";
import { isBelow, readingsOf } from "./paths.js";
import type { RedisStore } from "./redis.js";
import type { Limit, Tenant } from "./sections.js";

const tierPolicy = (tier: string) => `tier ${tier}`;
const routePolicy = (path: string) => `route ${path}`;

/** All limits of a configuration, by the name of their limiter. */
function limitsByName({ tiers, routes }: Config): Map<string, Limit> {
  return new Map([
    ...[...tiers].map(([tier, limit]) => [tierPolicy(tier), limit] as const),
    ...[...routes].map(([path, limit]) => [routePolicy(path), limit] as const),
  ]);
}

/**
 * In the main thread: returns a function that gives the table's policies the limits
 * of a configuration. The buckets keep their contents; only rate and burst change.
 */
export function policiesOf(sluice: Sluice): (config: Config) => void {
  const limiters = new Map<string, Limiter>();
  return (config) => {
    const wanted = limitsByName(config);
    // New limiters first: if the table has no room for them, the old ones stay unchanged.
    for (const [name, limit] of wanted) if (!limiters.has(name)) limiters.set(name, sluice.tokenBucket(name, limit));
    for (const [name, { rate, burst }] of wanted) {
      const limiter = limiters.get(name)!;
      if (limiter.rate !== rate) limiter.setRate(rate);
      if (limiter.burst !== burst) limiter.setBurst(burst);
    }
  };
}

/** In a worker: the limiters of one configuration. */
export interface Limiters {
  /** The limiter of that name, which must be one of the configuration. */
  of(name: string): AnyLimiter;
  /** Begins a request that uses them; returns the function that ends it. */
  begin(): () => void;
  /** Closes the limiters when no request uses them any more. */
  close(): Promise<void>;
}

/** In a worker: the limiters of a configuration, in the table or in Redis. */
export function limitersOf(config: Config, sluice: Sluice, redis: RedisStore | undefined): Limiters {
  if (redis) return redis.limiters(limitsByName(config), sluice);
  const nothing = () => {};
  return { of: (name) => sluice.limiter(name), begin: () => nothing, close: async () => {} };
}

/** What the limits read of a request. */
interface Readable {
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders | PlainRequest["headers"];
}

/** In a worker: whose request it is, and whether it may go ahead. */
export interface Limits {
  /** The tenant whose API key the request carries. */
  tenantOf(request: Readable): Tenant | undefined;
  /** Whether the request lacks a known API key and needs one. */
  isStranger(request: Readable): boolean;
  /** The client's whole address. */
  addressOf(request: IncomingMessage): string;
  /** True if the request may go ahead; otherwise answers it. */
  guard(request: IncomingMessage, response: ServerResponse): Promise<boolean>;
  /** Answers another proxy's question about a request; undefined without the option "forwardAuth". */
  auth: RequestListener | undefined;
  /** Closes the limiters when no request is being decided any more. */
  close(): Promise<void>;
}

export function limitsOf(limiters: Limiters, config: Config): Limits {
  const { tiers, anonymous, routes, trustedProxies, forwardAuth: authOptions } = config;
  const client = clientAddress(trustedProxies.length > 0 ? { trusted: trustedProxies } : {});
  const ofTier = new Map([...tiers.keys()].map((tier) => [tier, limiters.of(tierPolicy(tier))]));
  const ofRoute = [...routes.keys()].map((path) => ({ path, limiter: limiters.of(routePolicy(path)) }));

  const { tenantOf, isStranger } = identify(config);

  // A wrong API key counts as none, so that guesses are limited by address.
  const tierOf = (request: Readable): AnyLimiter | null => {
    const tier = tenantOf(request)?.tier ?? anonymous;
    return tier === undefined ? null : ofTier.get(tier)!;
  };
  const routeOf = (request: Readable): AnyLimiter | null => {
    // A stranger is answered 401, and must not use up what tenants share.
    if (isStranger(request)) return null;
    const readings = readingsOf(request.url ?? "");
    return ofRoute.find(({ path }) => isBelow(readings, path))?.limiter ?? null;
  };

  const hasLimits = tiers.size > 0 || ofRoute.length > 0;
  const limits = <Request extends Readable>(): LimitOptions<Request>[] => {
    const all: LimitOptions<Request>[] = [];
    if (tiers.size > 0) {
      all.push({ limiter: tierOf, key: (request, reader) => tenantOf(request)?.name ?? client(request, reader) });
    }
    if (ofRoute.length > 0) all.push({ limiter: routeOf });
    return all;
  };
  const guard = hasLimits ? limitHttp({ limits: limits<IncomingMessage>() }) : () => true;
  const auth = authOptions && (hasLimits
    ? forwardAuth({
      limits: limits<PlainRequest>(),
      client,
      ...(authOptions.limitedStatus && { limitedStatus: authOptions.limitedStatus }),
    })
    : (_: IncomingMessage, response: ServerResponse) => response.writeHead(204).end());

  return {
    tenantOf,
    isStranger,
    addressOf: (request) => client.address(request, nodeReader),
    async guard(request, response) {
      const end = limiters.begin();
      try {
        return await guard(request, response);
      } finally {
        end();
      }
    },
    auth: auth && ((request, response) => {
      response.once("close", limiters.begin());
      auth(request, response);
    }),
    close: () => limiters.close(),
  };
}

/** Whose request it is, by its API key. */
function identify({ tenants, anonymous, apiKeyHeader }: Config): Pick<Limits, "tenantOf" | "isStranger"> {
  const tenantOf = ({ headers }: Readable): Tenant | undefined => {
    const apiKey = headers[apiKeyHeader];
    return typeof apiKey === "string" ? tenants.get(apiKey) : undefined;
  };
  return {
    tenantOf,
    isStranger: (request) =>
      tenants.size > 0 && !tenantOf(request) && (anonymous === undefined || apiKeyHeader in request.headers),
  };
}
