// Keys: which are one bucket and which are two.

import { type Key, type Limiter, ManualClock, Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import { kernelConstants } from "../../../src/engine/table/kernel.js";

const { at } = kernelConstants();

function limiterOf(burst = 1): { limiter: Limiter; sluice: Sluice } {
  const sluice = Sluice.create({ capacity: 1000, clock: new ManualClock(), maxThreads: 1 });
  return { sluice, limiter: sluice.tokenBucket("keys", { rate: 1, burst }) };
}

const many = "k".repeat(1 << 20);
const bytes = (length: number, last = 0): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => (i === length - 1 ? last : i & 0xff));

/** Keys that must all be different, by how they are shown. */
const different: [name: string, key: Key][] = [
  ["''", ""],
  ["' '", " "],
  ["'\\0'", "\0"],
  ["'\\0\\0'", "\0\0"],
  ["'1'", "1"],
  ["1", 1],
  ["1n", 1n],
  ["byte 49", Uint8Array.of(49)],
  ["byte 1", Uint8Array.of(1)],
  ["'0'", "0"],
  ["0", 0],
  ["0n", 0n],
  ["byte 0", Uint8Array.of(0)],
  ["no bytes", new Uint8Array(0)],
  ["-1", -1],
  ["-1n", -1n],
  ["1.5", 1.5],
  ["2^53", 2 ** 53],
  ["2^53 + 2", 2 ** 53 + 2],
  ["2n^53", 2n ** 53n],
  ["2n^53 + 1", 2n ** 53n + 1n],
  ["the largest double", Number.MAX_VALUE],
  ["the smallest", Number.MIN_VALUE],
  ["epsilon", Number.EPSILON],
  ["the largest of 64 bits", 2n ** 63n - 1n],
  ["one more", 2n ** 63n],
  ["the least of 64 bits", -(2n ** 63n)],
  ["one less", -(2n ** 63n) - 1n],
  ["2^64", 2n ** 64n],
  ["2^64 + 1", 2n ** 64n + 1n],
  ["-2^64", -(2n ** 64n)],
  ["2^1000", 2n ** 1000n],
  ["2^1000 + 1", 2n ** 1000n + 1n],
  ["its digits", (2n ** 1000n).toString()],
  ["its hexadecimal", (2n ** 1000n).toString(16)],
  ["a", "a"],
  ["A", "A"],
  ["ä in Latin-1", "ä"],
  ["š, which is not", "š"],
  ["a and a mark", "a\u0308"],
  ["aš", "aš"],
  ["ša", "ša"],
  ["the bytes of š", Uint8Array.of(0x61, 0x01)],
  ["š as bytes of text", "a\u0001"],
  ["U+00FF", "\u00ff"],
  ["U+0100", "\u0100"],
  ["U+0000 U+0001", "\u0000\u0001"],
  ["NUL", "\u0000x"],
  ["a high surrogate", "\ud800"],
  ["another", "\ud801"],
  ["a low surrogate", "\udc00"],
  ["a replacement character", "\ufffd"],
  ["a pair", "\ud800\udc00"],
  ["a pair the wrong way", "\udc00\ud800"],
  ["an emoji", "😀"],
  ["__proto__", "__proto__"],
  ["constructor", "constructor"],
  ["toString", "toString"],
  ["undefined", "undefined"],
  ["null", "null"],
  ["NaN", "NaN"],
  ["[object Object]", "[object Object]"],
  ["a MB", `${many}a`],
  ["another MB", `${many}b`],
  ["a MB, wide", `${many}š`],
  ["another MB, wide", `${many}ť`],
  ["a MB of bytes", bytes(1 << 20, 1)],
  ["another MB of bytes", bytes(1 << 20, 2)],
];

/** Lengths around those that fit the scratch, and around the chunks in which longer keys are hashed. */
for (
  const length of [
    1,
    7,
    8,
    9,
    at.MAX_SCRATCH_BYTES - 1,
    at.MAX_SCRATCH_BYTES,
    at.MAX_SCRATCH_BYTES + 1,
    at.KEY_CHUNK_BYTES - 1,
    at.KEY_CHUNK_BYTES,
    at.KEY_CHUNK_BYTES + 1,
    2 * at.KEY_CHUNK_BYTES,
    8 * at.KEY_CHUNK_BYTES - 1,
    8 * at.KEY_CHUNK_BYTES,
    8 * at.KEY_CHUNK_BYTES + 1,
    7087,
    7088,
    7089,
  ]
) {
  different.push(
    [`${length} x`, "x".repeat(length)],
    [`${length} x, the last y`, `${"x".repeat(length - 1)}y`],
    [`${length} ř`, "ř".repeat(length)],
    [`${length} ř, the last ž`, `${"ř".repeat(length - 1)}ž`],
    [`${length} bytes`, bytes(length, 200)],
    [`${length} bytes, the last another`, bytes(length, 201)],
  );
}
const unique = new Map(different.map((row) => [row[0], row]));

describe("keys", () => {
  it("that differ in kind, length or any character are different buckets", () => {
    const { limiter, sluice } = limiterOf();
    for (const [name, key] of unique.values()) expect(limiter.allow(key), `${name}, the first time`).toBe(true);
    for (const [name, key] of unique.values()) expect(limiter.allow(key), `${name}, the second time`).toBe(false);
    expect(limiter.global.allow()).toBe(true);
    expect(limiter.global.allow()).toBe(false);
    expect(sluice.audit()).toMatchObject({ clean: true, used: unique.size });
    expect(sluice.stats()).toMatchObject({ evicted: 0, claimed: unique.size });
  });

  it.each([...unique.values()])("are the same bucket by every call: %s", (_, key) => {
    const { limiter, sluice } = limiterOf(100);
    limiter.allow(key);
    limiter.key(key).allow();
    limiter.key(key).allow();
    limiter.consume(key);
    limiter.key(key).consume();
    limiter.allowMany([key, "another", key]);
    limiter.reserve(key);
    limiter.key(key).reserve();
    limiter.charge(key);
    limiter.key(key).charge();
    limiter.refund(key, 1);
    expect(limiter.peek(key, 0).remaining).toBe(90);
    expect(limiter.key(key).peek(0).remaining).toBe(90);
    expect(sluice.audit()).toMatchObject({ clean: true, used: key === "another" ? 1 : 2 });
    limiter.reset(key);
    expect(limiter.peek(key, 0).remaining).toBe(100);
  });

  const same: [name: string, a: Key, b: Key][] = [
    ["0 and -0", 0, -0],
    ["text however it came about", "ab", ["a", "b"].join("")],
    ["text of one byte a character and of two", "abc", "abcš".slice(0, 3)],
    ["long text of one byte a character and of two", many, `${many}š`.slice(0, -1)],
    ["bytes and a Buffer", Uint8Array.of(1, 2), Buffer.from([1, 2])],
    ["bytes and a part of others", Uint8Array.of(1, 2), Uint8Array.of(0, 1, 2, 3).subarray(1, 3)],
    ["1 and 1.0", 1, 2 / 2],
    ["bigints however they came about", 10n, 2n * 5n],
  ];
  it.each(same)("that are equal are one bucket: %s", (_, a, b) => {
    for (
      const allow of [
        (limiter: Limiter, key: Key) => limiter.allow(key),
        (limiter: Limiter, key: Key) => limiter.key(key).allow(),
        (limiter: Limiter, key: Key) => limiter.allowMany([key])[0] === 1,
        (limiter: Limiter, key: Key) => limiter.consume(key).allowed,
      ]
    ) {
      const { limiter } = limiterOf();
      expect(allow(limiter, a)).toBe(true);
      expect(allow(limiter, b)).toBe(false);
    }
  });

  it("of bytes are read when the call is made", () => {
    const { limiter } = limiterOf();
    const key = Uint8Array.of(1);
    const handle = limiter.key(key);
    expect(limiter.allow(key)).toBe(true);
    key[0] = 2;
    expect(limiter.allow(key)).toBe(true);
    expect(handle.allow()).toBe(false);
  });

  it("may be in shared memory", () => {
    const { limiter } = limiterOf();
    expect(limiter.allow(new Uint8Array(new SharedArrayBuffer(3)))).toBe(true);
    expect(limiter.allow(new Uint8Array(3))).toBe(false);
  });

  it("of two limiters are two buckets, in either order", () => {
    const { sluice, limiter } = limiterOf();
    const other = sluice.tokenBucket("others", { rate: 1, burst: 1 });
    for (const [name, key] of unique.values()) {
      expect(limiter.allow(key), name).toBe(true);
      expect(other.allow(key), name).toBe(true);
      expect(limiter.allow(key), name).toBe(false);
      expect(other.allow(key), name).toBe(false);
    }
    expect(sluice.audit()).toMatchObject({ clean: true, used: 2 * unique.size });
  });

  it("of two tables have nothing to do with each other", () => {
    const one = limiterOf();
    const two = limiterOf();
    expect(one.limiter.allow("k")).toBe(true);
    expect(two.limiter.allow("k")).toBe(true);
  });

  it("share no bucket with limiter.global", () => {
    const { limiter, sluice } = limiterOf(3);
    expect(limiter.global.allow()).toBe(true);
    expect(limiter.global.allow(2)).toBe(true);
    expect(sluice.limiter(limiter.name).global.consume().allowed).toBe(false);
    for (const key of ["", 0, 0n, new Uint8Array(0), "undefined"]) expect(limiter.allow(key)).toBe(true);
    expect(sluice.audit().used).toBe(5);
  });
});
