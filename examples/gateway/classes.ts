/**
 * The demo's clients: what each class may request, and what it does request. The
 * gateway's configuration and the load are both made from this table.
 */
import { perMinute } from "sluice";
import { checkConfig, type Config } from "./config.js";

export interface ClientClass {
  /** Name of the class, and of its tenants' tier. */
  name: string;
  /** How many tenants it has. Each has its own bucket. */
  tenants: number;
  /** A tenant's limit, as in a configuration file. */
  limit: { perSecond: number; burst: number };
  path: string;
  /** The limit of `path`, shared by all. A class that has one is there to exceed it. */
  route?: { perMinute: number; burst: number };
  /** Requests per second of all its tenants together. */
  requestsPerSecond: number;
  connections: number;
  /** Requests in a row for one tenant before the next tenant's turn. */
  turn: number;
  /** Whether it stays below its limit, so that no refusal is expected. */
  isModest?: boolean;
}

export const CLASSES: readonly ClientClass[] = [
  // 1 request per second and tenant; 5 are allowed.
  {
    name: "steady",
    tenants: 100,
    limit: { perSecond: 5, burst: 10 },
    path: "/",
    requestsPerSecond: 100,
    connections: 8,
    turn: 1,
    isModest: true,
  },
  // 30 requests in a row on a burst of 20, then nothing until all other tenants have had their turn.
  {
    name: "bursty",
    tenants: 20,
    limit: { perSecond: 20, burst: 20 },
    path: "/",
    requestsPerSecond: 150,
    connections: 8,
    turn: 30,
  },
  // 80 requests per second and tenant; 30 are allowed.
  {
    name: "greedy",
    tenants: 3,
    limit: { perSecond: 30, burst: 80 },
    path: "/",
    requestsPerSecond: 240,
    connections: 24,
    turn: 1,
  },
  // A quota that never refills.
  {
    name: "trial",
    tenants: 3,
    limit: { perSecond: 0, burst: 30 },
    path: "/",
    requestsPerSecond: 60,
    connections: 8,
    turn: 1,
  },
  // Each tenant stays within its own limit, but together they exceed the route's.
  {
    name: "reports",
    tenants: 10,
    limit: { perSecond: 100, burst: 1000 },
    path: "/reports",
    route: { perMinute: 1200, burst: 20 },
    requestsPerSecond: 100,
    connections: 16,
    turn: 1,
  },
];

/** A bucket that the demo judges, with its limit. */
export interface Bucket {
  id: string;
  /** Name of its limiter in the gateway. */
  policy: string;
  /** Tokens per second. */
  rate: number;
  burst: number;
}

/** The API key of tenant `i` of a class; `i` wraps around. */
export function apiKey({ name, tenants }: ClientClass, i: number): string {
  return `secret-of-${name}-${i % tenants}`;
}

/** The bucket that limits tenant `i` of a class: its own, or the route's, which all tenants share. */
export function bucketOf({ name, tenants, route, path, limit }: ClientClass, i: number): Bucket {
  return route
    ? { id: path, policy: `route ${path}`, rate: perMinute(route.perMinute), burst: route.burst }
    : { id: `${name}-${i % tenants}`, policy: `tier ${name}`, rate: limit.perSecond, burst: limit.burst };
}

/** The configuration of a gateway in front of `upstreamUrl`, with the limits of these classes or with none. */
export function demoConfig(
  { workers, upstreamUrl, hasLimits }: { workers: number; upstreamUrl: string; hasLimits: boolean },
): Config {
  const options = { listen: { port: 0 }, workers, upstream: { url: upstreamUrl } };
  if (!hasLimits) return checkConfig(options);
  const tenants = CLASSES.flatMap((each) =>
    Array.from({ length: each.tenants }, (_, i) => [`${each.name}-${i}`, { apiKey: apiKey(each, i), tier: each.name }])
  );
  return checkConfig({
    ...options,
    tiers: {
      ...Object.fromEntries(CLASSES.map(({ name, limit }) => [name, limit])),
      open: { perSecond: 1e6, burst: 1e6 },
      shut: { perSecond: 1e-6, burst: 1 },
    },
    tenants: {
      ...Object.fromEntries(tenants),
      open: { apiKey: "secret-of-open", tier: "open" },
      shut: { apiKey: "secret-of-shut", tier: "shut" },
    },
    routes: Object.fromEntries(CLASSES.flatMap(({ path, route }) => (route ? [[path, route]] : []))),
  });
}
