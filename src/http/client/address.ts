// IP addresses by their bits: one canonical text for each, however it is
// written, its network, and sets of ranges.
//
// An IPv4 address that comes as an IPv6 one, mapped (::ffff:0:0/96) or through
// NAT64 (64:ff9b::/96, RFC 6052), is that IPv4 address. A zone id names an
// interface of this host and is no part of the address. ipaddr.js (peer
// dependency) reads the bits.

import ipaddr from "ipaddr.js";
import { isIP } from "node:net";
import { unexpected } from "../../engine/errors.js";

/** No address is longer, a zone id included. */
const MAX_TEXT = 64;
/** Answers that a cache of this file keeps before it starts anew. */
const CACHE_MOST = 1024;

/** Stands for the address of whoever has none: a peer on a Unix socket. */
export const UNIX = "unix";
/** Stands for the address of a peer that hung up before it was asked for: nobody tells it any more. */
export const GONE = "gone";

const MAPPED = ipaddr.IPv6.parse("::ffff:0:0");
const NAT64 = ipaddr.IPv6.parse("64:ff9b::");

/** True for four decimal numbers without leading zeros: the text that is its own canonical form. 15 ns for most of all addresses. */
export function isPlainIPv4(text: string): boolean {
  const { length } = text;
  if (length < 7 || length > 15) return false;
  let dots = 0;
  let octet = -1;
  for (let i = 0; i < length; i++) {
    const digit = text.charCodeAt(i) - 48;
    if (digit === -2) {
      if (octet < 0) return false;
      dots++;
      octet = -1;
    } else if (digit < 0 || digit > 9 || octet === 0) {
      return false;
    } else {
      octet = octet < 0 ? digit : octet * 10 + digit;
      if (octet > 255) return false;
    }
  }
  return dots === 3 && octet >= 0;
}

/** The bits of an address, 4 bytes or 16; undefined for what is none. */
function bitsOf(text: string): number[] | undefined {
  if (text.length > MAX_TEXT) return undefined;
  const version = isIP(text);
  if (version === 0) return undefined;
  if (version === 4) return ipaddr.IPv4.parse(text).toByteArray();
  // ipaddr.js takes ::192.0.2.1 for a mapped address; in hex it has no choice.
  const address = ipaddr.IPv6.parse(
    text.replace(/%.*/, "").replace(/[\d.]+\.\d+$/, (dotted) => hexOf(ipaddr.IPv4.parse(dotted).toByteArray())),
  );
  const bytes = address.toByteArray();
  return address.match(MAPPED, 96) || address.match(NAT64, 96) ? bytes.slice(12) : bytes;
}

function hexOf([a, b, c, d]: number[]): string {
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}

/** True if it is an IP address, in any of its spellings. */
export function isAddress(text: string): boolean {
  return isPlainIPv4(text) || (text.length <= MAX_TEXT && isIP(text) !== 0);
}

/**
 * The canonical text of an address; of an IPv6 one that of its network of
 * `prefix` bits, as `2001:db8:0:100::/56` (the address itself at 128).
 * Undefined for what is no address.
 */
export function canonical(text: string, prefix = 128): string | undefined {
  const bytes = bitsOf(text);
  if (!bytes) return undefined;
  if (bytes.length === 4 || prefix === 128) return ipaddr.fromByteArray(bytes).toString();
  return `${
    ipaddr.fromByteArray(bytes.map((byte, i) => byte & (0xff00 >> Math.max(0, Math.min(8, prefix - 8 * i))))).toString()
  }/${prefix}`;
}

/** Remembers the latest answers for texts, which may be slices of a long header: it keeps copies. */
export function remembering<Answer>(ask: (text: string) => Answer): (text: string) => Answer {
  const known = new Map<string, Answer>();
  return (text) => {
    const before = known.get(text);
    if (before !== undefined) return before;
    if (known.size >= CACHE_MOST) known.clear();
    const answer = ask(text);
    if (text.length <= MAX_TEXT) known.set(Buffer.from(text, "latin1").toString("latin1"), answer);
    return answer;
  };
}

/**
 * Tells whether an address lies in one of `ranges`: addresses, networks as
 * `10.0.0.0/8`, or UNIX. Throws for what is none of these, naming it.
 */
export function inRanges(name: string, ranges: readonly string[]): (text: string) => boolean {
  if (!Array.isArray(ranges)) throw unexpected(name, "an array of IP addresses and ranges", ranges, "object");
  const wanted = ranges.flatMap((range, i) => (range === UNIX ? [] : [rangeOf(`${name}[${i}]`, range)]));
  const hasUnix = ranges.includes(UNIX);
  return remembering((text) => {
    if (text === UNIX) return hasUnix;
    const bytes = bitsOf(text);
    return bytes !== undefined
      && wanted.some(({ bytes: first, bits }) => first.length === bytes.length && sharesBits(first, bytes, bits));
  });
}

interface Range {
  bytes: number[];
  bits: number;
}

function rangeOf(name: string, text: unknown): Range {
  if (typeof text === "string") {
    const [address, length, rest] = text.split("/");
    const bytes = bitsOf(address);
    if (bytes && rest === undefined && (length === undefined || /^\d{1,3}$/.test(length))) {
      const written = isIP(address) === 4 ? 32 : 128;
      // A network that is written as IPv6 and is one of IPv4 lacks the first 96 bits.
      const bits = Number(length ?? written) - (written - 8 * bytes.length);
      if (bits >= 0 && bits <= 8 * bytes.length) return { bytes, bits };
    }
  }
  throw unexpected(name, "an IP address, a range as \"10.0.0.0/8\", or \"unix\"", text, "string");
}

function sharesBits(a: readonly number[], b: readonly number[], bits: number): boolean {
  for (let i = 0; bits > 0; i++, bits -= 8) {
    if (((a[i] ^ b[i]) & (bits >= 8 ? 0xff : 0xff00 >> bits)) !== 0) return false;
  }
  return true;
}
