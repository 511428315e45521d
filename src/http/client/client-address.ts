// Who asks, by address: the peer of the connection, or, behind proxies that are
// named, whom they say they got the request from. Nothing is believed that was
// not said to be believed.

import { checkInteger, checkOptions, unexpected } from "../../engine/errors.js";
import { canonical, GONE, inRanges, isPlainIPv4, remembering, UNIX } from "./address.js";
import { addressIn, entryStart } from "./forwarded.js";
import type { Reader } from "./reader.js";

export interface ClientRule {
  /**
   * How many proxies of yours every request has passed, 0 to 100: the client is
   * who the outermost of them saw. Right only if nobody reaches the server past
   * them. Give this or `trusted`; with neither, no header is read.
   */
  hops?: number;
  /**
   * Your proxies' addresses and ranges, `'unix'` for peers on a Unix socket: the
   * client is the last address that is none of them.
   */
  trusted?: readonly string[];
  /** The header your proxies append to: 'x-forwarded-for' (default), 'forwarded' (RFC 7239), or another that lists addresses. */
  header?: string;
  /** Clients share a bucket by so many bits of an IPv6 address: 32 to 128, 56 by default; false for the whole address. */
  ipv6Prefix?: number | false;
}

/** A key function: the client's address in canonical form, `203.0.113.7`, `2001:db8:0:100::/56`; `unix` for one on a Unix socket, `gone` for one that hung up. */
export interface ClientAddress {
  <Request>(request: Request, reader: Reader<Request>): string;
  /** The whole address, as the peer or the proxies wrote it; `unix` or `gone` for none. */
  address<Request>(request: Request, reader: Reader<Request>): string;
  /** True if what the connection's peer says in headers is believed. */
  trustsPeer<Request>(request: Request, reader: Reader<Request>): boolean;
  /** False if no header is read: there are no proxies. */
  readonly readsHeaders: boolean;
}

/** Finds a request's client by `rule`. Throws RangeError or TypeError for a rule that is wrong or would trust anybody. */
export function clientAddress(rule: ClientRule = {}): ClientAddress {
  checkOptions(rule, "rule");
  const { hops, trusted, header = "x-forwarded-for", ipv6Prefix = 56 } = rule;
  if (hops !== undefined) checkInteger("hops", hops, 0, 100);
  if (hops !== undefined && trusted !== undefined) {
    throw new RangeError("\"trusted\" expected nothing beside \"hops\", got both");
  }
  if (typeof header !== "string" || !/^[!#$%&'*+.^_`|~\w-]+$/.test(header)) {
    throw unexpected("header", "a header name", header, "string");
  }
  if (rule.header !== undefined && hops === undefined && trusted === undefined) {
    throw new RangeError(
      `"header" expected "hops" or "trusted" with it, which say how far to believe it, got ${
        JSON.stringify(header)
      } alone`,
    );
  }
  if (ipv6Prefix !== false) checkInteger("ipv6Prefix", ipv6Prefix, 32, 128);

  const prefix = ipv6Prefix === false ? 128 : ipv6Prefix;
  const canonicalOf = remembering((text) => canonical(text, prefix) ?? UNIX);
  const keyOf = (address: string): string => {
    if (isPlainIPv4(address)) return address;
    // How a server that listens on :: sees IPv4.
    if (address.startsWith("::ffff:")) {
      const mapped = address.slice(7);
      if (isPlainIPv4(mapped)) return mapped;
    }
    return address === UNIX || address === GONE ? address : canonicalOf(address);
  };
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

/** Finds the client by what the proxies say, from the nearest to the farthest. */
function finder(
  header: string,
  isTrusted: ((address: string) => boolean) | undefined,
  hops: number | undefined,
): ClientAddress["address"] {
  const isForwarded = header === "forwarded";
  return (request, reader) => {
    let client = peerOf(request, reader);
    if (isTrusted && !isTrusted(client)) return client;
    const said = reader.header(request, header);
    const list = typeof said === "string" ? said : (said?.join(",") ?? "");
    for (let hop = 1, end = list.length; end > 0; hop++) {
      const start = entryStart(list, end, isForwarded);
      const address = addressIn(list.slice(start, end), isForwarded);
      // Beyond what cannot be read nothing is known: it stays with the last one that was.
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
