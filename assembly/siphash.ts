// SipHash-1-3 with a 128-bit result (Aumasson and Bernstein, "SipHash: a fast
// short-input PRF", https://www.aumasson.jp/siphash/siphash.pdf; the 128-bit
// form as in the authors' reference code). Keyed at random per table, so that
// a client cannot choose keys that fall into one set.
//
// The four words of state are globals: an instance belongs to one thread.

let v0: u64 = 0;
let v1: u64 = 0;
let v2: u64 = 0;
let v3: u64 = 0;

/** The result of the last `sipFinish`. */
export let sipLow: u64 = 0;
export let sipHigh: u64 = 0;

// @ts-ignore: decorator
@inline
function round(): void {
  let a = v0, b = v1, c = v2, d = v3;
  a += b; b = rotl<u64>(b, 13); b ^= a; a = rotl<u64>(a, 32);
  c += d; d = rotl<u64>(d, 16); d ^= c;
  a += d; d = rotl<u64>(d, 21); d ^= a;
  c += b; b = rotl<u64>(b, 17); b ^= c; c = rotl<u64>(c, 32);
  v0 = a; v1 = b; v2 = c; v3 = d;
}

// @ts-ignore: decorator
@inline
export function sipStart(key0: u64, key1: u64): void {
  v0 = key0 ^ 0x736f6d6570736575;
  v1 = key1 ^ 0x646f72616e646f6d ^ 0xee;
  v2 = key0 ^ 0x6c7967656e657261;
  v3 = key1 ^ 0x7465646279746573;
}

// @ts-ignore: decorator
@inline
export function sipWord(word: u64): void {
  v3 ^= word;
  round();
  v0 ^= word;
}

/** Absorbs `length` bytes at `from`; a multiple of 8. */
// @ts-ignore: decorator
@inline
export function sipWords(from: usize, length: u32): void {
  const end = from + length;
  for (; from < end; from += 8) sipWord(load<u64>(from));
}

/** Absorbs the last `total` % 8 bytes at `from`, which may be read as a whole word. */
// @ts-ignore: decorator
@inline
export function sipFinish(from: usize, total: u32): void {
  const bits = u64(total & 7) << 3;
  sipWord((load<u64>(from) & ((1 << bits) - 1)) | (u64(total) << 56));
  v2 ^= 0xee;
  round(); round(); round();
  sipLow = v0 ^ v1 ^ v2 ^ v3;
  v1 ^= 0xdd;
  round(); round(); round();
  sipHigh = v0 ^ v1 ^ v2 ^ v3;
}

/** Puts the state aside, for a key that does not fit its lane at once. */
export function sipSave(to: usize): void {
  store<u64>(to, v0, 0);
  store<u64>(to, v1, 8);
  store<u64>(to, v2, 16);
  store<u64>(to, v3, 24);
}

export function sipLoad(from: usize): void {
  v0 = load<u64>(from, 0);
  v1 = load<u64>(from, 8);
  v2 = load<u64>(from, 16);
  v3 = load<u64>(from, 24);
}
