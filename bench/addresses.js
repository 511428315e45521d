// Keys as a server meets them: IPv4 addresses as text, user ids, and orders to
// meet them in. All the same in every run.

/** An odd factor permutes the 32-bit numbers: nothing comes twice, nor in order. */
const FACTOR = 2654435761;
const text = Buffer.alloc(15);

/** Address `i` of 2^32 different ones, each time as a new flat string, as one gets from a socket or a parser. */
export function address(i) {
  const bits = Math.imul(i, FACTOR);
  const length = text.write(`${bits >>> 24}.${(bits >>> 16) & 255}.${(bits >>> 8) & 255}.${bits & 255}`, "latin1");
  return text.latin1Slice(0, length);
}

/** User id `i` of 2^30 different ones: a small integer, but not 0, 1, 2. */
export function userId(i) {
  return Math.imul(i + 1, FACTOR) & 0x3fffffff;
}

/** The same strings as the engine's own unique copies, which a Map compares by address. */
export function interned(strings) {
  const names = {};
  for (const string of strings) names[string] = true;
  return Object.keys(names);
}

/** Uniform 32-bit numbers (Marsaglia, "Xorshift RNGs", 2003). */
function random(seed) {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

/** `length` draws of 0 to `below` - 1, all alike. */
export function draws(length, below, seed = 20) {
  const next = random(seed);
  return Uint32Array.from({ length }, () => next() % below);
}

/** `length` draws of 0 to `below` - 1, where rank k comes with a probability as k^-s (Zipf's law): few of them most of the time. */
export function zipfDraws(length, below, s, seed = 20) {
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

/** A shuffled copy; another order for another seed (a positive integer). */
export function shuffled(values, seed) {
  const next = random(seed);
  const copy = values.slice();
  for (let i = copy.length - 1; i > 0; i--) {
    const j = next() % (i + 1);
    const value = copy[i];
    copy[i] = copy[j];
    copy[j] = value;
  }
  return copy;
}
