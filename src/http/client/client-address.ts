// The client of a request, by address: the peer of the connection or, behind
// trusted proxies, the client that they report. No header is believed unless the
// rule says so.

import { isIPv4 } from "node:net";
import { checkInteger, unexpected } from "../../engine/errors.js";
import { checkOptions } from "../../engine/options.js";
import { cached, canonical, GONE, inRanges, UNIX } from "./address.js";
import { addressIn, entryStart } from "./forwarded.js";
import type { Reader } from "./reader.js";

export interface ClientRule {
  /**
   * How many of your proxies every request has passed, 0 to 100: the client is the
   * address that the outermost of them saw. Right only if no request can reach the
   * server without passing them. Give `hops` or `trusted`; without either, no header
   * is read.
   */
  hops?: number;
  /**
   * Addresses and ranges of your proxies, and `'unix'` for peers on a Unix socket: the
   * client is the last address that is not one of them.
   */
  trusted?: readonly string[];
  /**
   * The header that your proxies append to: 'x-forwarded-for' (default), 'forwarded'
   * (RFC 7239), or another list of addresses.
   */
  header?: string;
  /**
   * IPv6 clients share a bucket by this many first bits of their address: 32 to 128, 56
   * by default; false for whole addresses.
   */
  ipv6Prefix?: number | false;
}

/**
 * A key function. The key is the client's address in canonical form: `203.0.113.7`,
 * `2001:db8:0:100::/56`, `unix` for peers on a Unix socket, `gone` for peers that
 * disconnected before their address was read.
 */
export interface ClientAddress {
  <Request>(request: Request, reader: Reader<Request>): string;
  /** The whole address, as the connection or the proxies have it; `unix` or `gone` without one. */
  address<Request>(request: Request, reader: Reader<Request>): string;
  /** True if the rule believes headers that the connection's peer sends. */
  trustsPeer<Request>(request: Request, reader: Reader<Request>): boolean;
  /** False if the rule reads no header: no proxies. */
  readonly readsHeaders: boolean;
}

/**
 * Makes the key function of a rule. With the default rule the client is the peer of
 * the connection.
 * @throws {TypeError | RangeError} if the rule is wrong, has an unknown option, or
 * names a header without saying whom to believe
 */
export function clientAddress(rule: ClientRule = {}): ClientAddress {
  checkRule(rule);
  const { hops, trusted, header = "x-forwarded-for", ipv6Prefix = 56 } = rule;
  const keyOf = keysBy(ipv6Prefix === false ? 128 : ipv6Prefix);
  const isTrusted = trusted === undefined ? undefined : inRanges("trusted", trusted);
  const readsHeaders = isTrusted !== undefined || (hops ?? 0) > 0;
  const address = readsHeaders ? finder(header.toLowerCase(), isTrusted, hops) : peerOf;
  return Object.assign(<Request>(request: Request, reader: Reader<Request>) => keyOf(address(request, reader)), {
    address,
    trustsPeer: <Request>(request: Request, reader: Reader<Request>) =>
      readsHeaders && (!isTrusted || isTrusted(peerOf(request, reader))),
    readsHeaders,
  });
}

function checkRule(rule: ClientRule): void {
  checkOptions(rule, ["hops", "trusted", "header", "ipv6Prefix"], "rule");
  const { hops, trusted, header, ipv6Prefix } = rule;
  if (hops !== undefined) checkInteger("hops", hops, 0, 100);
  if (hops !== undefined && trusted !== undefined) {
    throw new RangeError("\"rule\" expected either \"hops\" or \"trusted\", got both");
  }
  if (header !== undefined) {
    if (typeof header !== "string" || !/^[!#$%&'*+.^_`|~\w-]+$/.test(header)) {
      throw unexpected("header", "a header name", header, "string");
    }
    if (hops === undefined && trusted === undefined) {
      throw new RangeError("\"header\" expected \"hops\" or \"trusted\" with it, got neither");
    }
  }
  if (ipv6Prefix !== undefined && ipv6Prefix !== false) checkInteger("ipv6Prefix", ipv6Prefix, 32, 128);
}

/** From an address to its key; IPv6 addresses by their first `prefix` bits. */
function keysBy(prefix: number): (address: string) => string {
  const canonicalOf = cached((text) => canonical(text, prefix) ?? UNIX);
  return (address) => {
    // A server that listens on :: sees IPv4 peers as ::ffff:203.0.113.7.
    const plain = address.startsWith("::ffff:") ? address.slice(7) : address;
    if (isIPv4(plain)) return plain;
    return address === UNIX || address === GONE ? address : canonicalOf(address);
  };
}

/** Finds the client in what the proxies report, from the nearest to the farthest. */
function finder(
  header: string,
  isTrusted: ((address: string) => boolean) | undefined,
  hops: number | undefined,
): ClientAddress["address"] {
  const isForwarded = header === "forwarded";
  return (request, reader) => {
    let client = peerOf(request, reader);
    if (isTrusted && !isTrusted(client)) return client;
    const value = reader.header(request, header);
    const list = typeof value === "string" ? value : (value?.join(",") ?? "");
    for (let hop = 1, end = list.length; end > 0; hop++) {
      const start = entryStart(list, end, isForwarded);
      const address = addressIn(list.slice(start, end), isForwarded);
      // An unreadable entry ends the reading: the client is the last address before it.
      if (address === undefined) break;
      client = address;
      if (isTrusted ? !isTrusted(client) : hop === hops) break;
      end = start - 1;
    }
    return client;
  };
}

function peerOf<Request>(request: Request, reader: Reader<Request>): string {
  return reader.remoteAddress(request) ?? UNIX;
}
