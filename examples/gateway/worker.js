/**
 * One worker of the gateway: an HTTP server that asks the shared table about
 * every request, and keeps its own books by which the table is judged at the end.
 *
 * Posts `{ port }` once it listens. Told 'close', it stops, posts
 * `{ tallies }` and ends.
 */
import { createServer } from 'node:http'
import { parentPort, workerData } from 'node:worker_threads'
import { Sluice } from 'sluice'
import { ANSWER_MS, CLASSES, className } from './classes.js'

const sluice = Sluice.attach(workerData.handle)
const limiters = new Map(CLASSES.map(({ name }) => [name, sluice.limiter(name)]))

/**
 * What this worker decided for one key. Times are of `process.hrtime`, which
 * is one clock for all threads of the process, read just before a decision or
 * just after it, whichever makes the claim that rests on it the harder to hold.
 * @typedef {object} Tally
 * @property {number} requested
 * @property {number} admitted
 * @property {bigint} firstNs          before the first decision
 * @property {bigint} lastNs           after the last
 * @property {bigint} firstAdmittedNs  before the first that admitted; 0 while there was none
 * @property {bigint} lastAdmittedNs   after the last
 * @property {bigint} lastFullNs       after the last that found the bucket full
 * @property {bigint} lastRefusedNs    before the last that refused
 */

/** @type {Map<string, Tally>} */
const tallies = new Map()

const server = createServer((request, response) => {
  const id = String(request.headers['x-client-id'] ?? '')
  const limiter = limiters.get(className(id))
  if (limiter === undefined) {
    response.writeHead(401).end('who are you?\n')
    return
  }
  const beforeNs = process.hrtime.bigint()
  const decision = limiter.check(id)
  const afterNs = process.hrtime.bigint()

  record(id, decision, beforeNs, afterNs)
  setTimeout(answer, ANSWER_MS, response, decision)
})

/** @param {import('node:http').ServerResponse} response */
function answer(response, { allowed, retryAfterMs }) {
  if (allowed) {
    response.end('hello\n')
    return
  }
  // HTTP knows whole seconds only; rounded up, or the client would come too early.
  response.writeHead(429, { 'Retry-After': Math.ceil(retryAfterMs / 1000) }).end('slow down\n')
}

function record(id, { allowed, limit, remaining }, beforeNs, afterNs) {
  let tally = tallies.get(id)
  if (tally === undefined) {
    tally = {
      requested: 0,
      admitted: 0,
      firstNs: beforeNs,
      lastNs: afterNs,
      firstAdmittedNs: 0n,
      lastAdmittedNs: 0n,
      lastFullNs: 0n,
      lastRefusedNs: 0n,
    }
    tallies.set(id, tally)
  }
  tally.requested++
  tally.lastNs = afterNs
  if (!allowed) {
    tally.lastRefusedNs = beforeNs
    return
  }
  if (tally.admitted++ === 0) tally.firstAdmittedNs = beforeNs
  tally.lastAdmittedNs = afterNs
  if (remaining === limit - 1) tally.lastFullNs = afterNs
}

server.listen({ host: workerData.host, port: 0 }, () => {
  parentPort.postMessage({ port: server.address().port })
})

parentPort.once('message', () => {
  server.close()
  server.closeAllConnections()
  parentPort.postMessage({ tallies })
  sluice.close()
})
