/**
 * An HTTP gateway on the loopback: several worker threads behind one port,
 * one sluice table between them, and a load of a few hundred clients. At the
 * end it holds every client's admitted requests against its policy.
 *
 *   node examples/gateway.js --help
 */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { Sluice } from 'sluice'
import { openBalancer } from './gateway/balancer.js'
import { CLASSES } from './gateway/classes.js'
import { openView } from './gateway/live.js'
import { summary } from './gateway/summary.js'
import { judge, mergeTallies } from './gateway/verdict.js'

const USAGE = `Usage: node examples/gateway.js [options]

An HTTP gateway with several worker threads behind one port of 127.0.0.1, one
sluice table between them, and a load that asks for more than it may have. Ends
with a verdict; exits with 1 if a client got more, or less, than its policy says.

  --seconds <n>  how long to run (default 10)
  --workers <n>  how many worker threads (default 4)
  --help         this text

Ctrl-C ends it early, with the summary of what was done so far.`

const HOST = '127.0.0.1'

const { seconds, workers: workerCount } = readOptions()

/** Aborted to end the run early: by a signal, or with the error of a thread that failed. */
const early = new AbortController()
// `on`, not `once`: under npm a Ctrl-C arrives twice, from the terminal and from npm.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => early.abort())

const sluice = Sluice.create({ capacity: 10_000 })
for (const { name, rate, burst } of CLASSES) sluice.tokenBucket(name, { rate, burst })

const workers = Array.from({ length: workerCount }, () => start('worker.js', { handle: sluice.handle, host: HOST }))
const ports = (await Promise.all(workers.map(reply))).map(({ port }) => port)
const balancer = await openBalancer(HOST, ports)
const url = `http://${HOST}:${balancer.port}`
console.log(`${url}: ${workerCount} workers, one table; load for ${seconds} s\n`)

const load = start('load.js', { url })
await reply(load)
const startedMs = performance.now()
const elapsed = () => (performance.now() - startedMs) / 1000

const show = openView(process.stdout)
const ticker = setInterval(() => show(sluice.stats(), elapsed()), 1000)
await sleep(seconds * 1000, undefined, { signal: early.signal }).catch(() => {})
clearInterval(ticker)
const ran = elapsed()

const ended = [load, ...workers].map((worker) => once(worker, 'exit'))
// From the outside in, so that nothing is decided after it was counted.
const seen = await ask(load, 'stop')
await balancer.close()
const books = (await Promise.all(workers.map((worker) => ask(worker, 'close')))).map(({ tallies }) => tallies)
await Promise.all(ended)

const counts = mergeTallies(books)
const findings = judge(counts, sluice.stats(), sluice.audit())
const served = books.map((book) => [...book.values()].reduce((sum, { requested }) => sum + requested, 0))
console.log(`\n${summary({ seconds: ran, interrupted: early.signal.aborted, counts, served, seen, findings })}`)
sluice.close()
process.exitCode = findings.some(({ holds }) => holds === false) ? 1 : 0

/** A thread of the example. Should it fail, its error ends the process: nobody handles it. */
function start(file, workerData) {
  return new Worker(new URL(`gateway/${file}`, import.meta.url), { workerData })
}

/** The next message from a thread. */
async function reply(worker) {
  const [message] = await once(worker, 'message')
  return message
}

function ask(worker, message) {
  worker.postMessage(message)
  return reply(worker)
}

/** The options, checked; ends the process for `--help` and for what it does not understand. */
function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        seconds: { type: 'string', default: '10' },
        workers: { type: 'string', default: '4' },
        help: { type: 'boolean', default: false },
      },
    })
    if (values.help) {
      console.log(USAGE)
      process.exit(0)
    }
    const seconds = Number(values.seconds)
    const workers = Number(values.workers)
    if (!(seconds > 0 && seconds <= 3600)) throw new RangeError(`"seconds" expected a number above 0 up to 3600, got ${values.seconds}`)
    if (!(Number.isInteger(workers) && workers >= 1 && workers <= 64)) throw new RangeError(`"workers" expected an integer from 1 to 64, got ${values.workers}`)
    return { seconds, workers }
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`)
    process.exit(2)
  }
}
