/**
 * The gateway's configuration, read from a JSON file. Every option is checked
 * before any of them takes effect. docs/gateway.md explains the options.
 */
import { readFile } from "node:fs/promises";
import { entries, integer, section, shown, text } from "./checks.js";
import {
  type Address,
  checkRefill,
  type ForwardAuth,
  type Limit,
  readAddress,
  readForwardAuth,
  readLimit,
  readProxies,
  readRoutes,
  readStore,
  readTenants,
  readTierName,
  readUpstream,
  type Store,
  type Tenant,
  type UpstreamOptions,
} from "./sections.js";

export interface Config {
  listen: Address;
  admin: Address | undefined;
  workers: number;
  /** Keys that the table has room for. */
  capacity: number;
  /** Redis; undefined if the limits are in the table. */
  store: Store | undefined;
  /** How long open requests may take when the gateway stops, ms. */
  drainMs: number;
  trustedProxies: string[];
  forwardAuth: ForwardAuth | undefined;
  upstream: UpstreamOptions;
  /** In lower case. */
  apiKeyHeader: string;
  tiers: Map<string, Limit>;
  /** By API key. */
  tenants: Map<string, Tenant>;
  /** The tier of requests without an API key. */
  anonymous: string | undefined;
  /** By path, the longest first. */
  routes: Map<string, Limit>;
}

const NAMES: readonly (keyof Config)[] = [
  "listen",
  "admin",
  "workers",
  "capacity",
  "store",
  "drainMs",
  "trustedProxies",
  "forwardAuth",
  "upstream",
  "apiKeyHeader",
  "tiers",
  "tenants",
  "anonymous",
  "routes",
];

/** Reads and checks a file. */
export async function readConfig(file: string | URL): Promise<Config> {
  const json = await readFile(file, "utf8");
  let options: unknown;
  try {
    options = JSON.parse(json);
  } catch (error) {
    throw new SyntaxError(`${file} expected JSON: ${(error as Error).message}`);
  }
  return checkConfig(options);
}

/** Throws RangeError or TypeError for the first wrong option. */
export function checkConfig(value: unknown): Config {
  const options = section("config", value, NAMES, "");
  const { admin, store, forwardAuth, anonymous } = options;
  const tiers = entries("tiers", options.tiers, readLimit);
  const trustedProxies = readProxies(options.trustedProxies);
  const config: Config = {
    listen: readAddress("listen", options.listen),
    admin: admin === undefined ? undefined : readAddress("admin", admin),
    workers: integer("workers", options.workers, 1, 64, 4),
    capacity: integer("capacity", options.capacity, 1, 100_000_000, 100_000),
    store: store === undefined ? undefined : readStore(store),
    drainMs: integer("drainMs", options.drainMs, 0, 3_600_000, 10_000),
    trustedProxies,
    forwardAuth: forwardAuth === undefined ? undefined : readForwardAuth(forwardAuth, trustedProxies),
    upstream: readUpstream(options.upstream),
    apiKeyHeader: text("apiKeyHeader", options.apiKeyHeader, /^[\w-]+$/, "the name of a header", "x-api-key")
      .toLowerCase(),
    tiers,
    tenants: readTenants(options.tenants, tiers),
    anonymous: anonymous === undefined ? undefined : readTierName("anonymous", anonymous, tiers),
    routes: readRoutes(options.routes),
  };
  if (config.store) {
    for (const kind of ["tiers", "routes"] as const) {
      config[kind].forEach((limit, name) => checkRefill(`${kind}.${name}`, limit));
    }
  }
  return config;
}

/** Throws if `wanted` changes what a running gateway cannot change. */
export function checkReload(running: Config, wanted: Config): void {
  const fixed: [path: string, was: unknown, is: unknown][] = [
    ["listen.host", running.listen.host, wanted.listen.host],
    ["listen.port", running.listen.port, wanted.listen.port],
    ["admin.host", running.admin?.host, wanted.admin?.host],
    ["admin.port", running.admin?.port, wanted.admin?.port],
    ["workers", running.workers, wanted.workers],
    ["capacity", running.capacity, wanted.capacity],
  ];
  for (const [path, was, is] of fixed) {
    if (was !== is) {
      throw new RangeError(`"${path}" expected ${shown(was)}, as at the start, got ${shown(is)}; restart to change it`);
    }
  }
  if (JSON.stringify(running.store) !== JSON.stringify(wanted.store)) {
    throw new RangeError("\"store\" expected the same as at the start; restart to change it");
  }
}
