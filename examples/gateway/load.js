/**
 * The clients: one autocannon per class, all in this thread, so that asking
 * and answering do not share an event loop.
 *
 * Posts 'started' when the first request is on its way. Told 'stop', it hangs
 * up, posts `{ admitted, refused, wrong, errors }` as the clients saw them,
 * and ends.
 */
import { parentPort, workerData } from 'node:worker_threads'
import autocannon from 'autocannon'
import { CLASSES, clientId } from './classes.js'

/** More than any run: autocannon wants to know, but it is told when to stop. */
const FOREVER_SECONDS = 86_400

const seen = { admitted: 0, refused: 0, wrong: 0, errors: 0 }

/** Counts an answer; anything but a 200 or a 429 that says when to come back is wrong. */
function onResponse(status, body, context, headers) {
  if (status === 200) seen.admitted++
  else if (status === 429 && Number(headers['Retry-After']) >= 1) seen.refused++
  else seen.wrong++
}

const runs = CLASSES.map((clientClass) => {
  let i = 0
  const setupRequest = (request) => {
    request.headers['x-client-id'] = clientId(clientClass, i++)
    return request
  }
  return autocannon({
    url: workerData.url,
    connections: clientClass.connections,
    duration: FOREVER_SECONDS,
    sampleInt: 100, // It looks every so many ms whether it was told to stop.
    requests: [{ setupRequest, onResponse }],
  })
})
parentPort.postMessage('started')

parentPort.once('message', async () => {
  for (const run of runs) run.stop()
  for (const { errors } of await Promise.all(runs)) seen.errors += errors
  parentPort.postMessage(seen)
})
