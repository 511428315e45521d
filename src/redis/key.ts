// Keys in Redis: `sluice:b{user:alice}`. The kind before the brace says what the key
// stores, so a limiter may become another kind under its name. The braces are the
// hash tag, by which a cluster places the key: all keys of one decision have the same.

import { createHash } from "node:crypto";
import { finite, type Key, noKey } from "../engine/table/key.js";

/** Longer keys are replaced by their SHA-256. */
const MAX_CHARACTERS = 200;

function hashed(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** What follows the limiter's name. The mark distinguishes '1', 1, 1n and the byte 1. */
function marked(key: Key): string {
  if (typeof key === "string") {
    if (/\p{Surrogate}/u.test(key)) return `~${hashed(Buffer.from(key, "utf16le"))}`;
    return key.length <= MAX_CHARACTERS ? `:${key}` : `!${hashed(Buffer.from(key))}`;
  }
  if (typeof key === "number") return `#${finite(key) + 0}`;
  if (typeof key === "bigint") {
    const digits = key.toString();
    return digits.length <= MAX_CHARACTERS ? `#${digits}n` : `##${hashed(Buffer.from(digits))}`;
  }
  if (key instanceof Uint8Array) {
    return key.length <= MAX_CHARACTERS / 2
      ? `=${Buffer.from(key).toString("hex")}`
      : `=!${hashed(key)}`;
  }
  throw noKey(key);
}

/** The Redis keys of a decision: one for each of `count` limits. Throws for what is not a key, unless it `isGlobal`. */
export function redisKeys(
  prefix: string,
  kind: string,
  name: string,
  key: Key | undefined,
  isGlobal: boolean,
  count: number,
): string[] {
  const tagged = `${prefix}:${kind}{${name}${isGlobal ? "" : marked(key!)}}`;
  return count === 1 ? [tagged] : Array.from({ length: count }, (_, i) => `${tagged}:${i}`);
}
