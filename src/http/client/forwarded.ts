// The headers in which proxies report their clients: X-Forwarded-For and other
// lists of addresses, and Forwarded (RFC 7239). Each proxy appends the address that
// it saw to the right; everything left of that was sent by its client. So headers
// are read from the right, and nothing that a client sends, however malformed, can
// change how the entries of the proxies are read.

import { isAddress } from "./address.js";

/** Longest entry that is read, with all its parameters. */
const MAX_ENTRY = 4096;

/** Where the entry that ends at `end` begins. */
export function entryStart(list: string, end: number, isForwarded: boolean): number {
  if (!isForwarded) return end === 0 ? 0 : list.lastIndexOf(",", end - 1) + 1;
  let isQuoted = false;
  for (let i = end - 1; i >= 0; i--) {
    const code = list.charCodeAt(i);
    if (code === 34 && !isEscaped(list, i)) isQuoted = !isQuoted;
    else if (code === 44 && !isQuoted) return i + 1;
  }
  return 0;
}

/** True if an odd number of backslashes precedes `at`. */
function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(at - 1 - backslashes) === 92) backslashes++;
  return backslashes % 2 === 1;
}

/**
 * The address in an entry, as written; undefined if it has none ("unknown", an
 * obfuscated name) or is malformed.
 */
export function addressIn(entry: string, isForwarded: boolean): string | undefined {
  if (entry.length > MAX_ENTRY) return undefined;
  const node = isForwarded ? forOf(entry) : entry.trim();
  return node === undefined ? undefined : withoutPort(node);
}

const pair = /[ \t]*([!#$%&'*+.^_`|~\w-]+)=(?:([!#$%&'*+.^_`|~\w-]+)|"((?:[^"\\]|\\.)*)")[ \t]*(?:;|$)/y;

/** The value of an element's `for`. */
function forOf(element: string): string | undefined {
  let found: string | undefined;
  pair.lastIndex = 0;
  while (pair.lastIndex < element.length) {
    const match = pair.exec(element);
    if (!match) return undefined;
    const [, name, token, quoted] = match;
    if (name.toLowerCase() !== "for") continue;
    if (found !== undefined) return undefined;
    found = token ?? quoted.replace(/\\(.)/g, "$1");
  }
  return found;
}

const bracketed = /^\[([^\]]*)\](?::[\w.-]{1,32})?$/;
const withPort = /^([\d.]+):[\w.-]{1,32}$/;

function withoutPort(node: string): string | undefined {
  const address = (bracketed.exec(node) ?? withPort.exec(node))?.[1] ?? node;
  return isAddress(address) ? address : undefined;
}
