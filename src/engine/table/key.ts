// Keys: from the value that names a bucket to the key word in the thread's scratch.

import { shown } from "../errors.js";
import type { Table } from "./table.js";

/**
 * What names a bucket. Strings are taken as their UTF-16 code units (lone
 * surrogates and the empty string too), numbers as their double (finite; -0 is
 * 0), Uint8Arrays as their bytes. `1`, `'1'`, `1n` and the byte 49 are four
 * different keys.
 */
export type Key = string | number | bigint | Uint8Array;

/**
 * Makes `key` the scratch's key, which the next general call of the kernel is about.
 * @throws TypeError for a value of another type, RangeError for NaN and infinities.
 * @internal
 */
export function putKey(table: Table, record: number, key: Key): void {
  const { kernel, at, scratch } = table;
  if (typeof key === "string") {
    if (key.length <= scratch.textMax && scratch.writeText(key)) kernel.keyOfBytes(record, at.TEXT, key.length);
    else putText(table, record, key);
  } else if (typeof key === "number") {
    kernel.keyOfNumber(record, finite(key));
  } else if (typeof key === "bigint") {
    putBigInt(table, record, key);
  } else if (key instanceof Uint8Array) {
    putBytes(table, record, at.BYTES, key);
  } else {
    throw noKey(key);
  }
}

/** @internal The error for an invalid key. */
export function noKey(key: unknown): TypeError {
  return new TypeError(
    `"key" expected a string, number, bigint or Uint8Array, got ${shown(key)}${
      key === undefined ? "; the one bucket without a key is limiter.global" : ""
    }`,
  );
}

/**
 * The number itself.
 * @throws RangeError if it is NaN or infinite.
 * @internal
 */
export function finite(key: number): number {
  if (key - key !== 0) throw new RangeError(`"key" expected a finite number, got ${key}`);
  return key;
}

/** For a string that is too long for the scratch, or has characters beyond Latin-1. */
function putText(table: Table, record: number, key: string): void {
  const isWide = /[^\x00-\xff]/.test(key);
  const encoded = Buffer.from(key, isWide ? "utf16le" : "latin1");
  putBytes(table, record, isWide ? table.at.WIDE_TEXT : table.at.TEXT, encoded);
}

function putBigInt(table: Table, record: number, key: bigint): void {
  const { at } = table;
  if (BigInt.asIntN(64, key) === key) {
    table.scratch.writeLong(key);
    table.kernel.keyOfBytes(record, at.BIGINT, 8);
  } else {
    putBytes(table, record, at.WIDE_BIGINT, Buffer.from(key.toString(16), "latin1"));
  }
}

/** Bytes of any length, in chunks if they do not fit the scratch. */
function putBytes(table: Table, record: number, kind: number, key: Uint8Array): void {
  const { kernel, scratch } = table;
  const { length } = key;
  if (length <= scratch.textMax) {
    scratch.writeBytes(key);
    kernel.keyOfBytes(record, kind, length);
    return;
  }
  let done = 0;
  for (; length - done >= scratch.chunkBytes; done += scratch.chunkBytes) {
    scratch.writeBytes(key.subarray(done, done + scratch.chunkBytes));
    kernel.keyChunk(record, kind, done === 0 ? 1 : 0);
  }
  scratch.writeBytes(key.subarray(done));
  kernel.keyEnd(record, length - done, length);
}
