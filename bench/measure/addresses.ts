// Keys as a server meets them (IPv4 addresses as text, user ids) and orders to
// ask for them in. All are the same in every run.

/** An odd factor permutes the 32-bit numbers: no number comes twice, and they are out of order. */
const FACTOR = 2654435761;
const text = Buffer.alloc(15);

/** Address `i` of 2^32 different ones: a new flat string each time, as from a socket or a parser. */
export function address(i: number): string {
  const bits = Math.imul(i, FACTOR);
  const length = text.write(`${bits >>> 24}.${(bits >>> 16) & 255}.${(bits >>> 8) & 255}.${bits & 255}`, "latin1");
  return text.toString("latin1", 0, length);
}

/** User id `i` of 2^30 different ones: a small integer, but not 0, 1, 2. */
export function userId(i: number): number {
  return Math.imul(i + 1, FACTOR) & 0x3fffffff;
}

/** The same strings as the engine's own unique copies, which a Map compares by address. */
export function interned(strings: readonly string[]): string[] {
  const names: Record<string, true> = {};
  for (const string of strings) names[string] = true;
  return Object.keys(names);
}

/** Uniform 32-bit numbers (Marsaglia, "Xorshift RNGs", 2003). */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

/** `length` draws of 0 to `below` - 1, each equally likely. */
export function draws(length: number, below: number, seed = 20): Uint32Array {
  const next = random(seed);
  return Uint32Array.from({ length }, () => next() % below);
}

/**
 * `length` draws of 0 to `below` - 1. Rank k has a probability proportional to k^-s
 * (Zipf's law), so a few come most of the time.
 */
export function zipfDraws(length: number, below: number, s: number, seed = 20): Uint32Array {
  const shares = new Float64Array(below);
  let sum = 0;
  for (let i = 0; i < below; i++) shares[i] = sum += (i + 1) ** -s;
  const next = random(seed);
  return Uint32Array.from({ length }, () => {
    const share = (next() / 2 ** 32) * sum;
    let low = 0;
    for (let high = below - 1; low < high;) {
      const middle = (low + high) >>> 1;
      if (shares[middle] > share) high = middle;
      else low = middle + 1;
    }
    return low;
  });
}
