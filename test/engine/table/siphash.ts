// SipHash-c-d, slow and plain, on BigInt: the reference for the kernel's hash.
//
// Aumasson and Bernstein, "SipHash: a fast short-input PRF",
// https://www.aumasson.jp/siphash/siphash.pdf; the 128-bit form follows the
// authors' reference implementation, https://github.com/veorq/SipHash.

const MASK = (1n << 64n) - 1n;

function rotateLeft(word: bigint, by: bigint): bigint {
  return ((word << by) | (word >> (64n - by))) & MASK;
}

function littleEndian(bytes: Uint8Array, from: number, count: number): bigint {
  let word = 0n;
  for (let i = 0; i < count; i++) word |= BigInt(bytes[from + i]) << BigInt(8 * i);
  return word;
}

class State {
  v0: bigint;
  v1: bigint;
  v2: bigint;
  v3: bigint;

  constructor(key: Uint8Array) {
    if (key.length !== 16) throw new RangeError(`"key" expected 16 bytes, got ${key.length}`);
    const k0 = littleEndian(key, 0, 8);
    const k1 = littleEndian(key, 8, 8);
    this.v0 = k0 ^ 0x736f6d6570736575n;
    this.v1 = k1 ^ 0x646f72616e646f6dn;
    this.v2 = k0 ^ 0x6c7967656e657261n;
    this.v3 = k1 ^ 0x7465646279746573n;
  }

  rounds(count: number): void {
    for (let i = 0; i < count; i++) {
      this.v0 = (this.v0 + this.v1) & MASK;
      this.v1 = rotateLeft(this.v1, 13n) ^ this.v0;
      this.v0 = rotateLeft(this.v0, 32n);
      this.v2 = (this.v2 + this.v3) & MASK;
      this.v3 = rotateLeft(this.v3, 16n) ^ this.v2;
      this.v0 = (this.v0 + this.v3) & MASK;
      this.v3 = rotateLeft(this.v3, 21n) ^ this.v0;
      this.v2 = (this.v2 + this.v1) & MASK;
      this.v1 = rotateLeft(this.v1, 17n) ^ this.v2;
      this.v2 = rotateLeft(this.v2, 32n);
    }
  }

  absorb(c: number, message: Uint8Array): void {
    const whole = message.length - (message.length % 8);
    for (let at = 0; at < whole; at += 8) this.word(c, littleEndian(message, at, 8));
    const length = BigInt(message.length & 0xff) << 56n;
    this.word(c, length | littleEndian(message, whole, message.length - whole));
  }

  private word(c: number, word: bigint): void {
    this.v3 ^= word;
    this.rounds(c);
    this.v0 ^= word;
  }

  folded(): bigint {
    return this.v0 ^ this.v1 ^ this.v2 ^ this.v3;
  }
}

/** The 64-bit output; its bytes in print are little-endian. */
export function sipHash64(c: number, d: number, key: Uint8Array, message: Uint8Array): bigint {
  const state = new State(key);
  state.absorb(c, message);
  state.v2 ^= 0xffn;
  state.rounds(d);
  return state.folded();
}

/** The 128-bit output as [low, high]; in print the low word comes first, little-endian. */
export function sipHash128(c: number, d: number, key: Uint8Array, message: Uint8Array): [bigint, bigint] {
  const state = new State(key);
  state.v1 ^= 0xeen;
  state.absorb(c, message);
  state.v2 ^= 0xeen;
  state.rounds(d);
  const low = state.folded();
  state.v1 ^= 0xddn;
  state.rounds(d);
  return [low, state.folded()];
}
