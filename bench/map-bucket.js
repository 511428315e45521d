// The rival: what one writes who needs a rate limiter in one thread. A Map of
// token buckets, a correct one, in the quickest form we found: a closure over
// the Map, objects of one shape, one look-up, Date.now() as its clock.
// Unlike a table it is never full, keeps every key for ever, and serves one
// thread.

/** @returns {(key: string | number) => boolean} */
export function mapBucket({ rate, burst }) {
  const buckets = new Map()
  const tokensPerMs = rate / 1000
  return (key) => {
    const now = Date.now()
    const bucket = buckets.get(key)
    if (bucket === undefined) {
      buckets.set(key, { tokens: burst - 1, last: now })
      return true
    }
    const tokens = Math.min(burst, bucket.tokens + (now - bucket.last) * tokensPerMs)
    bucket.last = now
    if (tokens < 1) {
      bucket.tokens = tokens
      return false
    }
    bucket.tokens = tokens - 1
    return true
  }
}
