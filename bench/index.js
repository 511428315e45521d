// All benchmarks in turn, each in a fresh process, and their figures together.
// A figure that is not met is a finding, not an error.

import { basename } from 'node:path'
import { inFreshProcess, options } from './cases.js'
import { figureTable } from './report.js'

const benchmarks = ['hot.js', 'keys.js', 'million.js', 'memory.js', 'threads.js', 'kinds.js', 'calls.js']

const { quick } = options()
const figures = []
const failed = []
for (const file of benchmarks) {
  try {
    const own = await inFreshProcess(new URL(file, import.meta.url), quick ? ['--quick'] : [])
    for (const figure of own) figures.push({ ...figure, name: `${basename(file, '.js')}: ${figure.name}` })
  } catch (error) {
    failed.push(file)
    console.error(error)
  }
  console.log()
}
console.log(`# All figures\n\n${figureTable(figures)}`)
if (failed.length > 0) {
  console.error(`\nfailed: ${failed.join(', ')}`)
  process.exitCode = 1
}
