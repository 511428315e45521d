// Keys as a server meets them: IPv4-like addresses, and orders to meet them in.
// All the same in every run.

/**
 * `count` different addresses, as bytes, and others for another `first`.
 * `fresh(i)` makes address `i` a new flat string, as one gets from a socket or
 * a parser.
 */
export function addresses(count, first = 0) {
  const bytes = Buffer.alloc(15 * count)
  const ends = new Uint32Array(count + 1)
  for (let i = 0; i < count; i++) {
    // An odd factor permutes the 32-bit numbers: no address comes twice.
    const address = Math.imul(first + i, 2654435761)
    const text = `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`
    ends[i + 1] = ends[i] + bytes.write(text, ends[i], 'latin1')
  }
  const fresh = (i) => bytes.latin1Slice(ends[i], ends[i + 1])
  return { fresh, all: () => Array.from({ length: count }, (_, i) => fresh(i)) }
}

/** The same strings as the engine's own unique copies, which a Map compares by address. */
export function interned(strings) {
  const names = {}
  for (const string of strings) names[string] = true
  return Object.keys(names)
}

/** Uniform integers below `n` (Marsaglia, "Xorshift RNGs", 2003). */
function random(seed) {
  let state = seed
  return (n) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % n
  }
}

/** `length` draws of 0 to `below` - 1. */
export function draws(length, below) {
  const next = random(20)
  return Uint32Array.from({ length }, () => next(below))
}

/** A shuffled copy; another order for another seed (a positive integer). */
export function shuffled(values, seed) {
  const next = random(seed)
  const copy = values.slice()
  for (let i = copy.length - 1; i > 0; i--) {
    const j = next(i + 1)
    const value = copy[i]
    copy[i] = copy[j]
    copy[j] = value
  }
  return copy
}
