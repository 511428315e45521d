// The kernel's SipHash-1-3-128 against the plain one: the hash of a key of any
// kind and length, and the two sets in which it may lie.

import { type Key, ManualClock, Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import { instantiate, type Kernel, kernelConstants } from "../../../src/engine/table/kernel.js";
import { sipHash128 } from "./siphash.js";

const { at, wide, setsOffset } = kernelConstants();

const HASH_KEY = Uint8Array.from({ length: 16 }, (_, i) => 17 * i + 3);
const POLICIES = [1, 2, 7, 1023];
const KINDS = {
  TEXT: at.TEXT,
  WIDE_TEXT: at.WIDE_TEXT,
  NUMBER: at.NUMBER,
  BIGINT: at.BIGINT,
  WIDE_BIGINT: at.WIDE_BIGINT,
  BYTES: at.BYTES,
};

interface Place {
  word: bigint;
  sets: number[];
}

/** A table whose hash key is known, entered by a kernel before anything was used. */
function prepared(
  setCount = 96,
  thread = 1,
): { kernel: Kernel; bytes: Uint8Array; scratch: number; place: () => Place } {
  const bytesNeeded = setsOffset(2) + setCount * at.SET_BYTES;
  const pages = Math.ceil(bytesNeeded / 65536);
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  const words = new Int32Array(memory.buffer);
  const bytes = new Uint8Array(memory.buffer);
  bytes.set(HASH_KEY, at.HEADER_HASH_KEY);
  words[at.HEADER_SET_COUNT / 4] = setCount;
  words[at.HEADER_THREAD_COUNT / 4] = 2;
  words[at.HEADER_VERSION / 4] = at.LAYOUT_VERSION;
  words[at.HEADER_MAGIC / 4] = at.MAGIC;
  const kernel = instantiate(memory);
  kernel.enter(thread);
  const scratch = at.THREADS + thread * at.THREAD_BYTES;
  // The bytes behind a key must not matter.
  bytes.fill(0xa5, scratch + at.SCRATCH_BYTES, scratch + at.SCRATCH_BYTES + at.MAX_SCRATCH_BYTES);
  const place = (): Place => ({
    word: new BigUint64Array(memory.buffer)[(scratch + at.SCRATCH_KEY) / 8],
    sets: [
      new Uint32Array(memory.buffer)[(scratch + at.SCRATCH_SET_A) / 4],
      new Uint32Array(memory.buffer)[(scratch + at.SCRATCH_SET_B) / 4],
    ],
  });
  return { kernel, bytes, scratch, place };
}

/** Where a key belongs, by the plain hash. */
function expected(
  hashKey: Uint8Array,
  policy: number,
  kind: number,
  message: Uint8Array,
  setCount: number,
  threads: number,
): Place {
  const varied = Buffer.from(hashKey);
  varied.writeBigUInt64LE(varied.readBigUInt64LE(0) ^ BigInt((policy << 3) | kind), 0);
  const [low, high] = sipHash128(1, 3, varied, message);
  const word = (low & ~1023n) | BigInt(policy);
  const first = setsOffset(threads) + Number(((high & 0xffffffffn) * BigInt(setCount)) >> 32n) * at.SET_BYTES;
  // The other set of the pair: another of the same page of sets, by the upper half of the key word.
  const other = first ^ (Number(1n + (((word >> 32n) * (wide.PAGE_SETS - 1n)) >> 32n)) * at.SET_BYTES);
  return { word, sets: [first, other] };
}

const record = (policy: number): number => at.POLICIES + policy * at.POLICY_BYTES;
const message = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => (167 * i + 13) & 0xff);

describe("the kernel", () => {
  it.each(Object.entries(KINDS))("hashes keys of 0 to 64 bytes as SipHash-1-3-128 does, of the kind %s", (_, kind) => {
    const { kernel, bytes, scratch, place } = prepared();
    for (const policy of POLICIES) {
      for (let length = 0; length <= 64; length++) {
        bytes.set(message(length), scratch + at.SCRATCH_BYTES);
        kernel.keyOfBytes(record(policy), kind, length);
        expect(place(), `${length} bytes, policy ${policy}`).toEqual(
          expected(HASH_KEY, policy, kind, message(length), 96, 2),
        );
      }
    }
  });

  it("hashes keys that fill its scratch", () => {
    const { kernel, bytes, scratch, place } = prepared();
    for (const length of [255, 256, 257, 4095, 4096, at.MAX_SCRATCH_BYTES - 1, at.MAX_SCRATCH_BYTES]) {
      bytes.set(message(length), scratch + at.SCRATCH_BYTES);
      kernel.keyOfBytes(record(1), at.BYTES, length);
      expect(place(), `${length} bytes`).toEqual(expected(HASH_KEY, 1, at.BYTES, message(length), 96, 2));
    }
  });

  it("does not read beyond its scratch", () => {
    const { kernel } = prepared();
    expect(() => kernel.keyOfBytes(record(1), at.BYTES, at.MAX_SCRATCH_BYTES + 1)).toThrow("unreachable");
    expect(() => kernel.keyEnd(record(1), at.KEY_CHUNK_BYTES, at.KEY_CHUNK_BYTES)).toThrow("unreachable");
  });

  it("hashes keys in chunks as if at once", () => {
    const { kernel, bytes, scratch, place } = prepared();
    const part = at.KEY_CHUNK_BYTES;
    for (
      const length of [part, part + 1, part + 8, 2 * part - 1, 2 * part, 2 * part + 7, 3 * part + 255, 5 * part + 3]
    ) {
      const whole = message(length);
      let done = 0;
      for (; length - done >= part; done += part) {
        bytes.set(whole.subarray(done, done + part), scratch + at.SCRATCH_BYTES);
        kernel.keyChunk(record(7), at.BYTES, done === 0 ? 1 : 0);
      }
      bytes.set(whole.subarray(done), scratch + at.SCRATCH_BYTES);
      kernel.keyEnd(record(7), length - done, length);
      expect(place(), `${length} bytes`).toEqual(expected(HASH_KEY, 7, at.BYTES, whole, 96, 2));
    }
  });

  it("hashes numbers as their doubles, -0 as 0", () => {
    const { kernel, place } = prepared();
    for (const number of [0, 1, -1, 0.1, 2 ** 53, -(2 ** 60), Number.MAX_VALUE, Number.MIN_VALUE, 1e-300]) {
      const bytes = new Uint8Array(Float64Array.of(number).buffer);
      kernel.keyOfNumber(record(2), number);
      expect(place()).toEqual(expected(HASH_KEY, 2, at.NUMBER, bytes, 96, 2));
    }
    kernel.keyOfNumber(record(2), -0);
    expect(place()).toEqual(expected(HASH_KEY, 2, at.NUMBER, new Uint8Array(8), 96, 2));
  });

  it("hashes the same for every number of sets and in every scratch", () => {
    for (const [setCount, thread] of [[32, 0], [64, 1], [1024, 0], [1024 + 32, 1]]) {
      const { kernel, bytes, scratch, place } = prepared(setCount, thread);
      for (let i = 0; i < 300; i++) {
        bytes.set(message(i % 40).map((byte) => byte ^ i), scratch + at.SCRATCH_BYTES);
        kernel.keyOfBytes(record(3), at.TEXT, i % 40);
        const { sets, word } = place();
        expect({ sets, word }).toEqual(
          expected(HASH_KEY, 3, at.TEXT, message(i % 40).map((byte) => byte ^ i), setCount, 2),
        );
        for (const set of sets) {
          expect(set >= setsOffset(2) && set < setsOffset(2) + setCount * at.SET_BYTES).toBe(true);
        }
        expect(sets[0]).not.toBe(sets[1]);
      }
    }
  });

  it("is compared with a reference that distinguishes kinds, policies and hash keys", () => {
    const places = new Set<bigint>();
    for (const kind of Object.values(KINDS)) {
      for (const policy of POLICIES) places.add(expected(HASH_KEY, policy, kind, message(9), 96, 2).word);
    }
    places.add(expected(HASH_KEY.map((byte) => byte ^ 1), 1, at.TEXT, message(9), 96, 2).word);
    expect(places.size).toBe(6 * POLICIES.length + 1);
    expect(expected(HASH_KEY, 1, at.TEXT, message(9), 96, 2)).not.toEqual(
      expected(HASH_KEY, 1, at.TEXT, message(10), 96, 2),
    );
  });
});

describe("a limiter", () => {
  const long = "x".repeat(20_000);
  const keys: [name: string, key: Key, kind: number, bytes: Uint8Array][] = [
    ["the empty string", "", at.TEXT, new Uint8Array(0)],
    ["an IP address", "203.0.113.7", at.TEXT, Buffer.from("203.0.113.7")],
    ["Latin-1", "fähre", at.TEXT, Buffer.from("fähre", "latin1")],
    ["wide text", "š日本", at.WIDE_TEXT, Buffer.from("š日本", "utf16le")],
    ["a lone surrogate", "\ud800", at.WIDE_TEXT, Uint8Array.of(0x00, 0xd8)],
    ["long text", long, at.TEXT, Buffer.from(long, "latin1")],
    ["long wide text", `${long}š`, at.WIDE_TEXT, Buffer.from(`${long}š`, "utf16le")],
    ["a number", 42.5, at.NUMBER, new Uint8Array(Float64Array.of(42.5).buffer)],
    ["a bigint", -5n, at.BIGINT, new Uint8Array(BigInt64Array.of(-5n).buffer)],
    ["a bigint beyond 64 bits", -(2n ** 70n), at.WIDE_BIGINT, Buffer.from(`-${(2n ** 70n).toString(16)}`)],
    ["bytes", Uint8Array.of(0, 1, 255), at.BYTES, Uint8Array.of(0, 1, 255)],
    ["many bytes", message(10_000), at.BYTES, message(10_000)],
  ];

  it.each(keys)("puts %s where its hash says, by every call", (_, key, kind, bytes) => {
    const sluice = Sluice.create({ capacity: 100, clock: new ManualClock(), maxThreads: 1 });
    const memory = Buffer.from(sluice.handle.memory.buffer);
    const hashKey = memory.subarray(at.HEADER_HASH_KEY, at.HEADER_HASH_KEY + 16);
    const setCount = memory.readUInt32LE(at.HEADER_SET_COUNT);
    sluice.tokenBucket("first", { rate: 1, burst: 10 });
    const limiter = sluice.tokenBucket("second", { rate: 1, burst: 10 });
    const { word, sets } = expected(hashKey, 2, kind, bytes, setCount, 1);
    const calls = [
      () => limiter.allow(key),
      () => limiter.key(key).allow(),
      () => limiter.consume(key),
      () => limiter.allowMany([key, key]),
      () => limiter.reserve(key),
      () => limiter.charge(key),
    ];
    for (const call of calls) call();
    const found = sets.flatMap((set) =>
      Array.from({ length: at.SLOT_COUNT }, (_, i) => memory.readBigUInt64LE(set + i * at.SLOT_STEP))
    ).filter((each) => each !== 0n);
    expect(found).toEqual([word]);
    expect(sluice.audit().used).toBe(1);
    expect(limiter.peek(key, 0).remaining).toBe(10 - calls.length - 1);
  });
});
