// SipHash-1-3 with a 128-bit result (Aumasson and Bernstein, "SipHash: a fast
// short-input PRF", https://www.aumasson.jp/siphash/siphash.pdf; the 128-bit
// form as in the authors' reference code). Keyed at random per table, so that
// a client cannot choose keys that fall into one set.
//
// The round is written out twice, not called: with the four words in locals
// V8 keeps them in registers.

/** The result of the last `sipHash` that ended a message. */
export let sipLow: u64 = 0;
export let sipHigh: u64 = 0;

export const SIP_START: i32 = 1;
export const SIP_END: i32 = 2;

/**
 * Hashes the `length` bytes at `from`, which may be read as whole words. A
 * message in parts: SIP_START with the first, SIP_END with the last, whose
 * `total` is the length of the message; all parts but the last are a multiple
 * of 8 long, and `state` holds 32 bytes between them.
 */
export function sipHash(from: usize, length: u32, total: u32, key0: u64, key1: u64, state: usize, mode: i32): void {
  let v0: u64, v1: u64, v2: u64, v3: u64;
  if (mode & SIP_START) {
    v0 = key0 ^ 0x736f6d6570736575;
    v1 = key1 ^ 0x646f72616e646f6d ^ 0xee;
    v2 = key0 ^ 0x6c7967656e657261;
    v3 = key1 ^ 0x7465646279746573;
  } else {
    v0 = load<u64>(state, 0);
    v1 = load<u64>(state, 8);
    v2 = load<u64>(state, 16);
    v3 = load<u64>(state, 24);
  }

  const isEnd = mode & SIP_END;
  const last = from + (length & ~7);
  while (true) {
    let word: u64;
    if (from < last) {
      // Text is written in 32-bit words: loads of that size meet the stores halfway.
      word = u64(load<u32>(from)) | (u64(load<u32>(from, 4)) << 32);
    } else {
      if (!isEnd || from > last) break;
      word = ((u64(load<u32>(from)) | (u64(load<u32>(from, 4)) << 32)) & ((1 << (u64(length & 7) << 3)) - 1))
        | (u64(total) << 56);
    }
    v3 ^= word;
    v0 += v1;
    v1 = rotl<u64>(v1, 13);
    v1 ^= v0;
    v0 = rotl<u64>(v0, 32);
    v2 += v3;
    v3 = rotl<u64>(v3, 16);
    v3 ^= v2;
    v0 += v3;
    v3 = rotl<u64>(v3, 21);
    v3 ^= v0;
    v2 += v1;
    v1 = rotl<u64>(v1, 17);
    v1 ^= v2;
    v2 = rotl<u64>(v2, 32);
    v0 ^= word;
    from += 8;
  }

  if (!isEnd) {
    store<u64>(state, v0, 0);
    store<u64>(state, v1, 8);
    store<u64>(state, v2, 16);
    store<u64>(state, v3, 24);
    return;
  }
  finish(v0, v1, v2, v3);
}

/** The last rounds, and the result. */
@inline
function finish(v0: u64, v1: u64, v2: u64, v3: u64): void {
  v2 ^= 0xee;
  for (let i = 0; i < 6; i++) {
    if (i == 3) {
      sipLow = v0 ^ v1 ^ v2 ^ v3;
      v1 ^= 0xdd;
    }
    v0 += v1;
    v1 = rotl<u64>(v1, 13);
    v1 ^= v0;
    v0 = rotl<u64>(v0, 32);
    v2 += v3;
    v3 = rotl<u64>(v3, 16);
    v3 ^= v2;
    v0 += v3;
    v3 = rotl<u64>(v3, 21);
    v3 ^= v0;
    v2 += v1;
    v1 = rotl<u64>(v1, 17);
    v1 ^= v2;
    v2 = rotl<u64>(v2, 32);
  }
  sipHigh = v0 ^ v1 ^ v2 ^ v3;
}
