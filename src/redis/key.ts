// Keys as Redis has them: `sluice:b{user:alice}`. The kind before the brace says
// what sort of word it holds, so that a limiter may become another kind under
// its name. The braces are the hash tag, by which a cluster places it: all that
// one decision touches has the same.

import { createHash } from "node:crypto";
import { shown } from "../engine/errors.js";
import { finite, type Key } from "../engine/table/key.js";

/** Longer keys stand for themselves by their SHA-256. */
const MOST_CHARACTERS = 200;

function hashed(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** What follows the limiter's name. The mark tells '1', 1, 1n and the byte 1 apart. */
function marked(key: Key | undefined): string {
  if (typeof key === "string") {
    if (/\p{Surrogate}/u.test(key)) return `~${hashed(Buffer.from(key, "utf16le"))}`;
    return key.length <= MOST_CHARACTERS ? `:${key}` : `!${hashed(Buffer.from(key))}`;
  }
  if (key === undefined) return "";
  if (typeof key === "number") return `#${finite(key) + 0}`;
  if (typeof key === "bigint") {
    const digits = key.toString();
    return digits.length <= MOST_CHARACTERS ? `#${digits}n` : `##${hashed(Buffer.from(digits))}`;
  }
  if (key instanceof Uint8Array) {
    return key.length <= MOST_CHARACTERS / 2
      ? `=${Buffer.from(key).toString("hex")}`
      : `=!${hashed(key)}`;
  }
  throw new TypeError(`"key" expected a string, number, bigint or Uint8Array, got ${shown(key)}`);
}

/** The Redis keys of a decision: one for each of `count` limits. */
export function redisKeys(prefix: string, kind: string, name: string, key: Key | undefined, count: number): string[] {
  const tagged = `${prefix}:${kind}{${name}${marked(key)}}`;
  return count === 1 ? [tagged] : Array.from({ length: count }, (_, i) => `${tagged}:${i}`);
}
