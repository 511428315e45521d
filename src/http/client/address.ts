// IP addresses by their bits: one canonical text for all spellings of an address
// or its network, and sets of ranges.
//
// An IPv4 address written as IPv6, mapped (::ffff:0:0/96) or through NAT64
// (64:ff9b::/96, RFC 6052), is that IPv4 address. A zone id names an interface of
// this host and is not part of the address. ipaddr.js (peer dependency) reads the
// bits; its reading takes 1 to 4 µs, so answers about addresses are cached.

import ipaddr from "ipaddr.js";
import { isIP, isIPv4 } from "node:net";
import { unexpected } from "../../engine/errors.js";

/** Longest text of an address, with its zone id. */
const MAX_TEXT = 64;
/** Answers in a cache before it is emptied. */
const MAX_CACHED = 1024;

/** Stands for the address of a peer on a Unix socket, which has none. */
export const UNIX = "unix";
/** Stands for the address of a peer that disconnected before its address was read. */
export const GONE = "gone";

const MAPPED = ipaddr.IPv6.parse("::ffff:0:0");
const NAT64 = ipaddr.IPv6.parse("64:ff9b::");

/** The bits of an address, 4 or 16 bytes; undefined if `text` is not an address. */
function bitsOf(text: string): number[] | undefined {
  if (text.length > MAX_TEXT) return undefined;
  const version = isIP(text);
  if (version === 0) return undefined;
  if (version === 4) return ipaddr.IPv4.parse(text).toByteArray();
  // ipaddr.js reads ::192.0.2.1 as a mapped address, which it is not; in hex it reads it right.
  const address = ipaddr.IPv6.parse(
    text.replace(/%.*/, "").replace(/[\d.]+\.\d+$/, (dotted) => hexOf(ipaddr.IPv4.parse(dotted).toByteArray())),
  );
  const bytes = address.toByteArray();
  return address.match(MAPPED, 96) || address.match(NAT64, 96) ? bytes.slice(12) : bytes;
}

function hexOf([a, b, c, d]: number[]): string {
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}

/** True if `text` is an IP address, in any spelling. */
export function isAddress(text: string): boolean {
  return isIPv4(text) || (text.length <= MAX_TEXT && isIP(text) !== 0);
}

/**
 * The canonical text of an IPv4 address, or of the network of `prefix` bits that an
 * IPv6 address lies in, such as `2001:db8:0:100::/56` (the address itself at 128).
 * Undefined if `text` is not an address.
 */
export function canonical(text: string, prefix = 128): string | undefined {
  const bytes = bitsOf(text);
  if (!bytes) return undefined;
  if (bytes.length === 4 || prefix === 128) return ipaddr.fromByteArray(bytes).toString();
  const network = bytes.map((byte, i) => byte & (0xff00 >> Math.max(0, Math.min(8, prefix - 8 * i))));
  return `${ipaddr.fromByteArray(network).toString()}/${prefix}`;
}

/** Caches the answers of `ask`. A text may be a slice of a long header: the cache copies it. */
export function cached<Answer>(ask: (text: string) => Answer): (text: string) => Answer {
  const known = new Map<string, Answer>();
  return (text) => {
    const before = known.get(text);
    if (before !== undefined) return before;
    if (known.size >= MAX_CACHED) known.clear();
    const answer = ask(text);
    if (text.length <= MAX_TEXT) known.set(Buffer.from(text, "latin1").toString("latin1"), answer);
    return answer;
  };
}

/**
 * A test whether an address lies in one of `ranges`: addresses, networks such as
 * `10.0.0.0/8`, or UNIX. Throws TypeError or RangeError for anything else in
 * `ranges`, as for the option `name`.
 */
export function inRanges(name: string, ranges: readonly string[]): (text: string) => boolean {
  if (!Array.isArray(ranges)) throw unexpected(name, "an array of IP addresses and ranges", ranges, "object");
  const wanted = ranges.flatMap((range, i) => (range === UNIX ? [] : [rangeOf(`${name}[${i}]`, range)]));
  const hasUnix = ranges.includes(UNIX);
  return cached((text) => {
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
      // An IPv4 network written as IPv6 has 96 bits more.
      const bits = Number(length ?? written) - (written - 8 * bytes.length);
      if (bits >= 0 && bits <= 8 * bytes.length) return { bytes, bits };
    }
  }
  throw unexpected(name, "an IP address, a range such as \"10.0.0.0/8\", or \"unix\"", text, "string");
}

function sharesBits(a: readonly number[], b: readonly number[], bits: number): boolean {
  for (let i = 0; bits > 0; i++, bits -= 8) {
    if (((a[i] ^ b[i]) & (bits >= 8 ? 0xff : 0xff00 >> bits)) !== 0) return false;
  }
  return true;
}
