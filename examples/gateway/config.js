/**
 * The gateway's configuration: read from a JSON file and checked, every option,
 * before anything of it takes effect. An error names the option, what it
 * expected and what it got; docs/gateway.md explains each option.
 */
import { readFile } from "node:fs/promises";
import { clientAddress } from "sluice/http";

/**
 * Tokens per second, and most tokens at once.
 * @typedef {{ rate: number, burst: number }} Limit
 *
 * @typedef {object} Config
 * @property {{ host: string, port: number }} listen
 * @property {{ host: string, port: number } | undefined} admin
 * @property {number} workers
 * @property {number} capacity         of the table, keys
 * @property {{ url: string, mode: 'strict' | 'leased', onFailure: 'open' | 'closed' | 'local', share: number, prefix: string } | undefined} store  Redis; undefined is the table
 * @property {number} drainMs          how long open requests may take when it stops
 * @property {string[]} trustedProxies
 * @property {{ path: string, limitedStatus: 401 | 403 | undefined } | undefined} forwardAuth
 * @property {{ url: string, connections: number, timeoutMs: number }} upstream
 * @property {string} apiKeyHeader     in lower case
 * @property {Map<string, Limit>} tiers
 * @property {Map<string, { name: string, tier: string }>} tenants  by API key
 * @property {string | undefined} anonymous  the tier of requests without an API key
 * @property {Map<string, Limit>} routes     by path, the longest first
 */

const MOST_REFILL_SECONDS = 20 * 366 * 86_400;

/** Reads and checks a file. @returns {Promise<Config>} */
export async function readConfig(file) {
  const text = await readFile(file, "utf8");
  let options;
  try {
    options = JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(`${file} expected JSON: ${error.message}`);
  }
  return checkConfig(options);
}

/** Throws RangeError or TypeError for the first option that is wrong. @returns {Config} */
export function checkConfig(options) {
  const {
    listen,
    admin,
    workers,
    capacity,
    store,
    drainMs,
    trustedProxies,
    forwardAuth,
    upstream,
    apiKeyHeader,
    tiers,
    tenants,
    anonymous,
    routes,
  } = section("config", options, [
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
  ], "");
  const limitsOfTiers = entries("tiers", tiers, limit);
  const config = {
    listen: address("listen", listen),
    admin: admin === undefined ? undefined : address("admin", admin),
    workers: integer("workers", workers, 1, 64, 4),
    capacity: integer("capacity", capacity, 1, 100_000_000, 100_000),
    store: store === undefined ? undefined : checkStore(store),
    drainMs: integer("drainMs", drainMs, 0, 3_600_000, 10_000),
    trustedProxies: checkProxies(trustedProxies),
    forwardAuth: forwardAuth === undefined ? undefined : checkForwardAuth(forwardAuth, trustedProxies),
    upstream: checkUpstream(upstream),
    apiKeyHeader: text("apiKeyHeader", apiKeyHeader, /^[\w-]+$/, "the name of a header", "x-api-key").toLowerCase(),
    tiers: limitsOfTiers,
    tenants: checkTenants(tenants, limitsOfTiers),
    anonymous: anonymous === undefined ? undefined : tierName("anonymous", anonymous, limitsOfTiers),
    routes: checkRoutes(routes),
  };
  if (config.store) {
    for (const kind of ["tiers", "routes"]) {
      config[kind].forEach((each, name) => checkRefill(`${kind}.${name}`, each));
    }
  }
  return config;
}

/** What the running gateway was built on; throws if a new file wants it otherwise. */
export function checkReload(running, wanted) {
  for (
    const [path, old, now] of [
      ["listen.host", running.listen.host, wanted.listen.host],
      ["listen.port", running.listen.port, wanted.listen.port],
      ["admin.host", running.admin?.host, wanted.admin?.host],
      ["admin.port", running.admin?.port, wanted.admin?.port],
      ["workers", running.workers, wanted.workers],
      ["capacity", running.capacity, wanted.capacity],
    ]
  ) {
    if (old !== now) {
      throw new RangeError(
        `"${path}" expected ${shown(old)}, as it was started with, got ${shown(now)}; restart the gateway to change it`,
      );
    }
  }
  if (JSON.stringify(running.store) !== JSON.stringify(wanted.store)) {
    throw new RangeError("\"store\" expected what it was started with; restart the gateway to change it");
  }
}

/** @returns {Limit} */
function limit(path, options) {
  const units = { perSecond: 1, perMinute: 60, perHour: 3600, perDay: 86_400 };
  const { burst, ...rates } = section(path, options, [...Object.keys(units), "burst"]);
  const [[unit, tokens] = [], ...more] = Object.entries(rates);
  if (unit === undefined || more.length > 0) {
    throw new RangeError(
      `"${path}" expected one of ${Object.keys(units).join(", ")}, got ${Object.keys(rates).join(" and ") || "none"}`,
    );
  }
  const rate = tokens / units[unit];
  if (typeof tokens !== "number" || !(tokens === 0 || (rate >= 1e-9 && rate <= 3e9))) {
    throw unexpected(`${path}.${unit}`, "a number of requests: 0, or from 1e-9 to 3e9 a second", tokens);
  }
  return { rate, burst: integer(`${path}.burst`, burst, 1, 2 ** 31 - 1) };
}

/** One line, or an object. No message shows a URL: it may hold a password. */
function checkStore(options) {
  const { url, mode = "strict", onFailure = "local", share = 1, prefix } = typeof options === "string"
    ? { url: options }
    : section("store", options, ["url", "mode", "onFailure", "share", "prefix"]);
  if (typeof url !== "string" || !/^rediss?:\/\/[^/?#]/.test(url) || !URL.canParse(url)) {
    throw new RangeError(
      `"${typeof options === "string" ? "store" : "store.url"}" expected redis://host:port or rediss://host:port`,
    );
  }
  if (!["strict", "leased"].includes(mode)) throw unexpected("store.mode", "\"strict\" or \"leased\"", mode);
  if (!["open", "closed", "local"].includes(onFailure)) {
    throw unexpected("store.onFailure", "\"open\", \"closed\" or \"local\"", onFailure);
  }
  if (typeof share !== "number" || !(share > 0 && share <= 1)) {
    throw unexpected("store.share", "a number above 0 and up to 1", share);
  }
  return {
    url,
    mode,
    onFailure,
    share,
    prefix: text(
      "store.prefix",
      prefix,
      /^[\w.:/-]{0,24}$/,
      "up to 24 letters, digits and _ . : / - characters",
      "gateway",
    ),
  };
}

function checkRefill(path, { rate, burst }) {
  if (burst / rate > MOST_REFILL_SECONDS) {
    throw new RangeError(
      `"${path}" expected a rate that refills the burst within 20 years, since every key in Redis expires, got ${rate} a second and a burst of ${burst}`,
    );
  }
}

function checkUpstream(options) {
  const { url, connections, timeoutMs } = section("upstream", options, ["url", "connections", "timeoutMs"]);
  const origin = typeof url === "string" && URL.canParse(url) ? new URL(url) : undefined;
  if (!origin || !/^https?:$/.test(origin.protocol) || origin.href !== `${origin.origin}/`) {
    throw unexpected("upstream.url", "http://host:port or https://host:port, without a path", url);
  }
  return {
    url: origin.origin,
    connections: integer("upstream.connections", connections, 1, 10_000, 64),
    timeoutMs: integer("upstream.timeoutMs", timeoutMs, 1, 3_600_000, 10_000),
  };
}

function checkProxies(addresses = []) {
  if (!Array.isArray(addresses)) throw unexpected("trustedProxies", "an array of addresses and ranges", addresses);
  try {
    if (addresses.length > 0) clientAddress({ trusted: addresses });
  } catch (error) {
    throw new RangeError(error.message.replace("\"trusted", "\"trustedProxies"));
  }
  return addresses;
}

function checkForwardAuth(options, proxies = []) {
  const { path, limitedStatus } = section("forwardAuth", options, ["path", "limitedStatus"]);
  if (proxies.length === 0) {
    throw new RangeError("\"forwardAuth\" expected \"trustedProxies\" beside it, to say whose word it takes, got none");
  }
  if (limitedStatus !== undefined && limitedStatus !== 401 && limitedStatus !== 403) {
    throw unexpected("forwardAuth.limitedStatus", "401 or 403", limitedStatus);
  }
  return { path: text("forwardAuth.path", path, /^\/[\x21-\x7e]*$/, "a path as \"/auth\""), limitedStatus };
}

function checkTenants(options, tiers) {
  const tenants = new Map();
  for (
    const [name, { apiKey, tier }] of entries(
      "tenants",
      options,
      (path, tenant) => section(path, tenant, ["apiKey", "tier"]),
    )
  ) {
    const path = `tenants.${name}`;
    if (!/^[\x21-\x7e]+$/.test(name)) {
      throw unexpected(path, "a name that fits into a header: visible ASCII characters", name);
    }
    // Keys are secrets: no message shows one.
    if (typeof apiKey !== "string" || apiKey.length < 8) {
      throw new TypeError(`"${path}.apiKey" expected a string of 8 characters or more`);
    }
    if (tenants.has(apiKey)) {
      throw new RangeError(
        `"${path}.apiKey" expected a key of its own, got that of ${shown(tenants.get(apiKey).name)}`,
      );
    }
    tenants.set(apiKey, { name, tier: tierName(`${path}.tier`, tier, tiers) });
  }
  return tenants;
}

function checkRoutes(options) {
  const routes = entries("routes", options, limit);
  const inLowerCase = new Set();
  for (const path of routes.keys()) {
    if (!/^\/(?:[\x21-\x7e]*[^/])?$/.test(path) || /[%"\\?#;]|\/[/.]/.test(path)) {
      throw unexpected("routes", "paths as \"/search\", decoded, without parameters and a slash at the end", path);
    }
    if (inLowerCase.has(path.toLowerCase())) throw unexpected("routes", "paths that differ by more than case", path);
    inLowerCase.add(path.toLowerCase());
  }
  return new Map([...routes].sort(([a], [b]) => b.length - a.length));
}

function tierName(path, name, tiers) {
  if (!tiers.has(name)) {
    throw unexpected(
      path,
      `a name under "tiers" (${[...tiers.keys()].map((each) => JSON.stringify(each)).join(", ") || "there is none"})`,
      name,
    );
  }
  return name;
}

function address(path, options) {
  const { host, port } = section(path, options, ["host", "port"]);
  return {
    host: text(`${path}.host`, host, /./, "a host name or address", "127.0.0.1"),
    port: integer(`${path}.port`, port, 0, 65_535),
  };
}

/** The named parts of an object, each checked. @returns {Map<string, any>} */
function entries(path, value = {}, check) {
  object(path, value);
  return new Map(
    Object.entries(value).map(([name, part]) => {
      if (!/^[\x20-\x7e]{1,100}$/.test(name)) throw unexpected(path, "names of 1 to 100 ASCII characters", name);
      return [name, check(`${path}.${name}`, part)];
    }),
  );
}

/** An object with no other options than these. */
function section(path, value, names, prefix = `${path}.`) {
  object(path, value);
  for (const name of Object.keys(value)) {
    if (!names.includes(name)) {
      throw new RangeError(`"${prefix}${name}" expected one of ${names.join(", ")}, got ${shown(name)}`);
    }
  }
  return value;
}

function object(path, value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw unexpected(path, "an object", value);
}

function integer(path, value, least, most, otherwise) {
  const given = value ?? otherwise;
  if (!Number.isInteger(given) || given < least || given > most) {
    throw unexpected(path, `an integer from ${least} to ${most}`, value);
  }
  return given;
}

function text(path, value, pattern, expected, otherwise) {
  const given = value ?? otherwise;
  if (typeof given !== "string" || !pattern.test(given)) throw unexpected(path, expected, value);
  return given;
}

function unexpected(path, expected, got) {
  return new RangeError(`"${path}" expected ${expected}, got ${shown(got)}`);
}

function shown(value) {
  const json = JSON.stringify(value) ?? "nothing";
  return json.length > 60 ? `${json.slice(0, 60)}...` : json;
}
