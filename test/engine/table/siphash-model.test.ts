// The plain SipHash against published outputs (vectors/siphash.json names their
// sources), so that it can judge the kernel's.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { sipHash128, sipHash64 } from "./siphash.js";

interface VectorSet {
  name: string;
  source: string;
  c: number;
  d: number;
  bytes: number;
  key: string;
  outputs: string[];
}

const vectors: { sets: VectorSet[]; longer: VectorSet & { lengths: number[] } } = JSON.parse(
  readFileSync(new URL("./vectors/siphash.json", import.meta.url), "utf8"),
);

function hexadecimal(word: bigint): string {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(word);
  return bytes.toString("hex");
}

function output(set: VectorSet, message: Uint8Array): string {
  const key = Buffer.from(set.key, "hex");
  if (set.bytes === 8) return hexadecimal(sipHash64(set.c, set.d, key, message));
  return sipHash128(set.c, set.d, key, message).map(hexadecimal).join("");
}

describe("the plain SipHash", () => {
  for (const set of vectors.sets) {
    it(`gives the published outputs of ${set.name} for 0 to 63 bytes`, () => {
      expect(set.outputs).toHaveLength(64);
      const message = Uint8Array.from({ length: 64 }, (_, i) => i);
      expect(set.outputs.map((_, length) => output(set, message.subarray(0, length)))).toEqual(set.outputs);
    });
  }

  it("agrees with OpenSSL under another key, past 255 bytes too", () => {
    const set = vectors.longer;
    expect(set.lengths).toHaveLength(set.outputs.length);
    const got = set.lengths.map((length) => output(set, Uint8Array.from({ length }, (_, i) => (167 * i + 13) & 0xff)));
    expect(got).toEqual(set.outputs);
  });

  it("differs by rounds, keys and messages", () => {
    const [set] = vectors.sets;
    const message = new Uint8Array(9);
    const other = { ...set, key: "01" + set.key.slice(2) };
    expect(output({ ...set, c: 1 }, message)).not.toBe(output(set, message));
    expect(output({ ...set, d: 3 }, message)).not.toBe(output(set, message));
    expect(output(other, message)).not.toBe(output(set, message));
    expect(output(set, message.subarray(1))).not.toBe(output(set, message));
  });

  it("refuses a key of other than 16 bytes", () => {
    expect(() => sipHash64(2, 4, new Uint8Array(15), new Uint8Array(0))).toThrow("\"key\" expected 16 bytes, got 15");
  });
});
