/**
 * From the configuration to limits: the one place that makes limiters. The main
 * thread defines the policies, and changes them when the configuration does;
 * every worker asks the same buckets.
 */
import { clientAddress, forwardAuth, limitHttp } from 'sluice/http/node'

const tierPolicy = (tier) => `tier ${tier}`
const routePolicy = (path) => `route ${path}`

/**
 * In the main thread: returns what brings the table's policies to a
 * configuration. What a bucket holds stays; only its rate and burst change.
 * @param {import('sluice').Sluice} sluice
 * @returns {(config: import('./config.js').Config) => void}
 */
export function policiesOf(sluice) {
  /** @type {Map<string, import('sluice').Limiter>} */
  const limiters = new Map()
  return ({ tiers, routes }) => {
    const wanted = [
      ...[...tiers].map(([tier, limit]) => [tierPolicy(tier), limit]),
      ...[...routes].map(([path, limit]) => [routePolicy(path), limit]),
    ]
    // New ones first: a table that has no room for them is left as it was.
    for (const [name, limit] of wanted) if (!limiters.has(name)) limiters.set(name, sluice.tokenBucket(name, limit))
    for (const [name, { rate, burst }] of wanted) {
      const limiter = limiters.get(name)
      if (limiter.rate !== rate) limiter.setRate(rate)
      if (limiter.burst !== burst) limiter.setBurst(burst)
    }
  }
}

/**
 * In a worker: who asks, and whether they may.
 * @param {import('sluice').Sluice} sluice
 * @param {import('./config.js').Config} config
 */
export function limitsOf(sluice, { tiers, tenants, anonymous, routes, apiKeyHeader, trustedProxies, forwardAuth: authOptions }) {
  const client = clientAddress(trustedProxies.length > 0 ? { trusted: trustedProxies } : {})
  const ofTier = new Map([...tiers.keys()].map((tier) => [tier, sluice.limiter(tierPolicy(tier))]))
  const ofRoute = [...routes.keys()].map((path) => ({ path, below: path === '/' ? path : `${path}/`, limiter: sluice.limiter(routePolicy(path)) }))
  const tenantOf = (request) => tenants.get(request.headers[apiKeyHeader])

  const limits = []
  if (tiers.size > 0) {
    limits.push({
      // A wrong key is none: whoever guesses keys is limited by address.
      limiter: (request) => ofTier.get(tenantOf(request)?.tier ?? anonymous) ?? null,
      key: (request, reader) => tenantOf(request)?.name ?? client(request, reader),
    })
  }
  if (ofRoute.length > 0) {
    limits.push({
      limiter: (request) => {
        const path = pathOf(request.url)
        return ofRoute.find((route) => path === route.path || path.startsWith(route.below))?.limiter ?? null
      },
    })
  }

  return {
    tenantOf,
    /** Whether a request needs an API key that is known, and has none. */
    isStranger: (request) => tenants.size > 0 && !tenantOf(request) && (anonymous === undefined || apiKeyHeader in request.headers),
    /** The whole address of the client. */
    addressOf: client.address,
    /** Answers a request that may not go ahead. */
    guard: limits.length > 0 ? limitHttp({ limits }) : () => true,
    /** Answers another proxy that asks whether a request of its own may go ahead. */
    auth: authOptions && limits.length > 0 ? forwardAuth({ limits, client, ...(authOptions.limitedStatus && { limitedStatus: authOptions.limitedStatus }) }) : undefined,
  }
}

/** The path that routes are matched by: no query, no `%73` for `s`, no `//`, no `/../`. */
function pathOf(url) {
  const { pathname } = new URL(url.replace(/^[/\\]+/, '/'), 'http://gateway')
  try {
    return decodeURIComponent(pathname).replace(/\/+/g, '/')
  } catch {
    return pathname
  }
}
