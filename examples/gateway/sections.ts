/** The sections of a configuration: what each holds, and its checks. docs/gateway.md explains the options. */
import { perDay, perHour, perMinute, perSecond } from "sluice";
import { clientAddress } from "sluice/http";
import type { OnFailure } from "sluice/redis";
import { choice, entries, integer, section, shown, text, unexpected } from "./checks.js";

export interface Address {
  host: string;
  port: number;
}

export function readAddress(path: string, options: unknown): Address {
  const { host, port } = section(path, options, ["host", "port"]);
  return {
    host: text(`${path}.host`, host, /./, "a host name or address", "127.0.0.1"),
    port: integer(`${path}.port`, port, 0, 65_535),
  };
}

export interface Limit {
  /** Tokens per second. */
  rate: number;
  /** Most tokens at once. */
  burst: number;
}

const UNITS = { perSecond, perMinute, perHour, perDay };

export function readLimit(path: string, options: unknown): Limit {
  const { burst, ...rates } = section(path, options, [...Object.keys(UNITS), "burst"]);
  const [[unit, tokens] = [], ...more] = Object.entries(rates);
  if (unit === undefined || more.length > 0) {
    throw new RangeError(
      `"${path}" expected one of ${Object.keys(UNITS).join(", ")}, got ${Object.keys(rates).join(" and ") || "none"}`,
    );
  }
  const rate = typeof tokens === "number" && tokens >= 0 ? UNITS[unit as keyof typeof UNITS](tokens) : NaN;
  if (!(rate === 0 || (rate >= 1e-9 && rate <= 3e9))) {
    throw unexpected(`${path}.${unit}`, "a number of requests: 0, or from 1e-9 to 3e9 a second", tokens);
  }
  return { rate, burst: integer(`${path}.burst`, burst, 1, 2 ** 31 - 1) };
}

export interface Store {
  /** Holds a password, perhaps: no message may show it. */
  url: string;
  mode: "strict" | "leased";
  onFailure: OnFailure;
  share: number;
  prefix: string;
}

/** A URL alone, or an object. */
export function readStore(options: unknown): Store {
  const { url, mode, onFailure, share = 1, prefix } = typeof options === "string"
    ? { url: options }
    : section("store", options, ["url", "mode", "onFailure", "share", "prefix"]);
  if (typeof url !== "string" || !/^rediss?:\/\/[^/?#]/.test(url) || !URL.canParse(url)) {
    throw new RangeError(
      `"${typeof options === "string" ? "store" : "store.url"}" expected redis://host:port or rediss://host:port`,
    );
  }
  if (typeof share !== "number" || !(share > 0 && share <= 1)) {
    throw unexpected("store.share", "a number above 0, up to 1", share);
  }
  return {
    url,
    mode: choice("store.mode", mode, ["strict", "leased"], "strict"),
    onFailure: choice("store.onFailure", onFailure, ["open", "closed", "local"], "local"),
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

const MAX_REFILL_SECONDS = 20 * 366 * 86_400;

/** Throws for a limit that Redis cannot keep. */
export function checkRefill(path: string, { rate, burst }: Limit): void {
  if (burst / rate > MAX_REFILL_SECONDS) {
    throw new RangeError(
      `"${path}" expected a rate that refills the burst within 20 years, because every key in Redis expires, `
        + `got ${rate} per second and a burst of ${burst}`,
    );
  }
}

export interface UpstreamOptions {
  /** Scheme, host and port. */
  url: string;
  /** Most connections of one worker. */
  connections: number;
  timeoutMs: number;
}

export function readUpstream(options: unknown): UpstreamOptions {
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

export function readProxies(addresses: unknown = []): string[] {
  if (!Array.isArray(addresses)) {
    throw new TypeError(`"trustedProxies" expected an array of addresses and ranges, got ${shown(addresses)}`);
  }
  try {
    if (addresses.length > 0) clientAddress({ trusted: addresses });
  } catch (error) {
    throw new RangeError((error as Error).message.replace("\"trusted", "\"trustedProxies"));
  }
  return addresses;
}

export interface ForwardAuth {
  path: string;
  limitedStatus: 401 | 403 | undefined;
}

export function readForwardAuth(options: unknown, proxies: readonly string[]): ForwardAuth {
  const { path, limitedStatus } = section("forwardAuth", options, ["path", "limitedStatus"]);
  if (proxies.length === 0) {
    throw new RangeError("\"forwardAuth\" expected \"trustedProxies\" to name the proxy that may ask, got none");
  }
  return {
    path: text("forwardAuth.path", path, /^\/[\x21-\x7e]*$/, "a path such as \"/auth\""),
    limitedStatus: limitedStatus === undefined
      ? undefined
      : choice("forwardAuth.limitedStatus", limitedStatus, [401, 403]),
  };
}

export interface Tenant {
  name: string;
  tier: string;
}

/** The tenants by API key. API keys are secrets: no message may show one. */
export function readTenants(options: unknown, tiers: ReadonlyMap<string, Limit>): Map<string, Tenant> {
  const tenants = new Map<string, Tenant>();
  const sections = entries("tenants", options, (path, tenant) => section(path, tenant, ["apiKey", "tier"]));
  for (const [name, { apiKey, tier }] of sections) {
    const path = `tenants.${name}`;
    if (!/^[\x21-\x7e]+$/.test(name)) {
      throw unexpected(path, "a name of visible ASCII characters, which a header can carry", name);
    }
    if (typeof apiKey !== "string" || apiKey.length < 8) {
      throw new TypeError(`"${path}.apiKey" expected a string of 8 characters or more`);
    }
    const owner = tenants.get(apiKey);
    if (owner) {
      throw new RangeError(`"${path}.apiKey" expected a key of its own, got the key of ${shown(owner.name)}`);
    }
    tenants.set(apiKey, { name, tier: readTierName(`${path}.tier`, tier, tiers) });
  }
  return tenants;
}

export function readTierName(path: string, name: unknown, tiers: ReadonlyMap<string, Limit>): string {
  if (typeof name !== "string" || !tiers.has(name)) {
    throw unexpected(
      path,
      `a name under "tiers" (${[...tiers.keys()].map(shown).join(", ") || "there is none"})`,
      name,
    );
  }
  return name;
}

/** The limits of routes by path, the longest path first. */
export function readRoutes(options: unknown): Map<string, Limit> {
  const routes = entries("routes", options, readLimit);
  const seen = new Set<string>();
  for (const path of routes.keys()) {
    if (!/^\/(?:[\x21-\x7e]*[^/])?$/.test(path) || /[%"\\?#;]|\/[/.]/.test(path)) {
      throw unexpected("routes", "decoded paths such as \"/search\", without parameters or a slash at the end", path);
    }
    if (seen.has(path.toLowerCase())) throw unexpected("routes", "paths that differ by more than case", path);
    seen.add(path.toLowerCase());
  }
  return new Map([...routes].sort(([a], [b]) => b.length - a.length));
}
