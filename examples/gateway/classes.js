/**
 * The demo's clients: what each may do, and what it asks. Configuration and
 * load are made from this one table.
 */
import { perMinute, perSecond } from "sluice";
import { checkConfig } from "./config.js";

/**
 * @typedef {object} ClientClass
 * @property {string} name        of the class, and of the tier of its tenants
 * @property {number} tenants     in it, each with a bucket of its own
 * @property {number} perSecond   tokens a tenant gets
 * @property {number} burst       most tokens it can have at once
 * @property {string} path        that it asks for
 * @property {{ rate: number, burst: number }} [route]  the limit of that path, for all together, which this class is there to exceed
 * @property {number} asks        requests per second, all its tenants together
 * @property {number} connections it asks over
 * @property {number} turn        requests in a row for one tenant before the next
 * @property {boolean} [isModest] never asks for more than it may have
 */

/** @type {ClientClass[]} */
export const CLASSES = [
  // 1 request per tenant and second, of 5 allowed.
  {
    name: "steady",
    tenants: 100,
    perSecond: 5,
    burst: 10,
    path: "/",
    asks: 100,
    connections: 8,
    turn: 1,
    isModest: true,
  },
  // 30 requests in a row on a burst of 20, then nothing until the others have had their turn.
  { name: "bursty", tenants: 20, perSecond: 20, burst: 20, path: "/", asks: 150, connections: 8, turn: 30 },
  // 80 requests per tenant and second, of 30 allowed.
  { name: "greedy", tenants: 3, perSecond: 30, burst: 80, path: "/", asks: 240, connections: 24, turn: 1 },
  // A quota that never comes back.
  { name: "trial", tenants: 3, perSecond: 0, burst: 30, path: "/", asks: 60, connections: 8, turn: 1 },
  // No tenant asks for more than its own share, but all together ask for more than the route has.
  {
    name: "reports",
    tenants: 10,
    perSecond: 100,
    burst: 1000,
    path: "/reports",
    route: { rate: perMinute(1200), burst: 20 },
    asks: 100,
    connections: 16,
    turn: 1,
  },
];

/** The API key of a class's tenant number `i`. */
export function apiKey({ name, tenants }, i) {
  return `secret-of-${name}-${i % tenants}`;
}

/** The bucket that limits it, and its limit: the tenant's, or the route's that all of them share. */
export function bucketOf({ name, tenants, route, path, perSecond: tokens, burst }, i) {
  return route
    ? { id: path, policy: `route ${path}`, ...route }
    : { id: `${name}-${i % tenants}`, policy: `tier ${name}`, rate: perSecond(tokens), burst };
}

/** A gateway's configuration in front of `upstreamUrl`: for these classes, or without any limit. */
export function demoConfig({ workers, upstreamUrl, hasLimits }) {
  const options = { listen: { port: 0 }, workers, upstream: { url: upstreamUrl } };
  if (!hasLimits) return checkConfig(options);
  const classes = Object.fromEntries(CLASSES.map(({ name, perSecond, burst }) => [name, { perSecond, burst }]));
  const tenants = CLASSES.flatMap((each) =>
    Array.from({ length: each.tenants }, (_, i) => [`${each.name}-${i}`, { apiKey: apiKey(each, i), tier: each.name }])
  );
  return checkConfig({
    ...options,
    tiers: { ...classes, open: { perSecond: 1e6, burst: 1e6 }, shut: { perSecond: 1e-6, burst: 1 } },
    tenants: {
      ...Object.fromEntries(tenants),
      open: { apiKey: "secret-of-open", tier: "open" },
      shut: { apiKey: "secret-of-shut", tier: "shut" },
    },
    routes: Object.fromEntries(
      CLASSES.flatMap(({ path, route }) => (route ? [[path, { perSecond: route.rate, burst: route.burst }]] : [])),
    ),
  });
}
