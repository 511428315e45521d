// The numbers that seeded tests use. A seed is printed, and SLUICE_SEED repeats it.

/** A generator of uniform integers below `n`, the same for the same seed (Marsaglia, "Xorshift RNGs", 2003). */
export function seeded(seed: number): (n: number) => number {
  let state = seed | 0 || 1;
  return (n) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % n;
  };
}

/** A new seed, printed; or the one in SLUICE_SEED. */
export function announceSeed(test: string): number {
  const seed = Number(process.env.SLUICE_SEED) || (Date.now() % 2 ** 31) || 1;
  console.log(`${test}: SLUICE_SEED=${seed}`);
  return seed;
}
