// A benchmark as a file of cases, each run in a fresh process of its own: one
// table in a process, as where it is used, and nothing that one case leaves
// behind (compiled code, shapes, garbage) weighs on the next.

import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { figureTable, machine } from './report.js'

/**
 * @typedef {{ text: string, figures: import('./report.js').Figure[] }} Report what a case found: its table, and its figures
 * @typedef {(quick: boolean) => Report | Promise<Report>} Case
 */

/** The options of every benchmark. */
export function options() {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      case: { type: 'string' },
    },
  })
  return values
}

/** Runs a module of this folder in a fresh process; resolves to the one message that it sends. */
export function inFreshProcess(url, args) {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(url), args, { execArgv: [...process.execArgv, '--expose-gc'] })
    let message
    child.on('message', (received) => (message = received))
    child.on('error', reject)
    child.on('close', (code, signal) => {
      if (code === 0 && message !== undefined) resolve(message)
      else reject(new Error(`${[fileURLToPath(url), ...args].join(' ')} ended with ${signal ?? code}${message === undefined ? ' and no report' : ''}`))
    })
  })
}

function send(message) {
  return new Promise((resolve) => process.send(message, resolve)).then(() => process.disconnect())
}

/**
 * The whole of a benchmark file: prints the machine, every case as it ends,
 * the figures, and what is not measured; or runs the one case of `--case`.
 * Whoever forked it is sent the figures.
 *
 * @param {string} url the file's own import.meta.url
 * @param {{ question: string, cases: Record<string, Case>, notMeasured: string[] }} benchmark
 */
export async function benchmark(url, { question, cases, notMeasured }) {
  const { quick, case: only } = options()
  if (only !== undefined) {
    if (!Object.hasOwn(cases, only)) throw new RangeError(`"--case" expected ${Object.keys(cases).join(' or ')}, got ${only}`)
    const report = await cases[only](quick)
    if (process.send) await send(report)
    else console.log(`${report.text}\n\n${figureTable(report.figures)}`)
    return
  }
  console.log(`# ${question}\n\n${machine()}`)
  if (quick) console.log('length   a short run: look at it to see that it works, not for its figures')
  const figures = []
  for (const name of Object.keys(cases)) {
    const report = await inFreshProcess(url, ['--case', name, ...(quick ? ['--quick'] : [])])
    console.log(`\n${report.text}`)
    figures.push(...report.figures)
  }
  console.log(`\n${figureTable(figures)}\n\nNot measured: ${notMeasured.join('; ')}.`)
  if (process.send) await send(figures)
}
