// What a benchmark says: the machine first, then tables, then each figure
// beside what is asked of it, and last what was not measured.

import { execFileSync } from 'node:child_process'
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os'

/**
 * A figure and what is asked of it: `most` or `least`, or neither, then it is
 * for information. `spread` holds the quartiles of what was measured.
 *
 * @typedef {{ name: string, measured: number, spread?: { lower: number, upper: number }, unit?: string, most?: number, least?: number }} Figure
 */

function git(...words) {
  try {
    return execFileSync('git', words, { cwd: import.meta.dirname, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return undefined
  }
}

/** Where and of what the figures are. */
export function machine() {
  const models = new Set(cpus().map(({ model }) => model.trim()))
  const commit = git('rev-parse', '--short', 'HEAD')
  const isDirty = git('status', '--porcelain') !== ''
  return [
    `machine  ${[...models].join(', ')}; ${availableParallelism()} cores, ${(totalmem() / 2 ** 30).toFixed(0)} GiB, ${process.platform} ${process.arch}`,
    `load     ${loadavg().map((load) => load.toFixed(2)).join(' ')} (1, 5, 15 minutes)`,
    `node     ${process.version}, V8 ${process.versions.v8}`,
    `commit   ${commit === undefined ? 'unknown' : commit + (isDirty ? ', dirty' : '')}`,
  ].join('\n')
}

/** Rows of cells in columns: the first to the left, the others to the right. */
export function table(head, rows) {
  const all = [head, ...rows]
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column].length)))
  const line = (row) => row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join('  ').trimEnd()
  return [line(head), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)].join('\n')
}

export function number(value, unit = '') {
  if (Number.isInteger(value)) return value + unit
  return (Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2)) + unit
}

export function between({ lower, upper }, unit = '') {
  return `${number(lower, unit)} to ${number(upper, unit)}`
}

/** Met or not, by the median; and whether the quartiles lie on both sides of what is asked. */
function verdict({ measured, spread, most, least }) {
  const asked = most ?? least
  if (asked === undefined) return 'for information'
  const isMet = most === undefined ? measured >= least : measured <= most
  const isClose = spread !== undefined && spread.lower < asked && asked < spread.upper
  return (isMet ? 'met' : 'NOT met') + (isClose ? ', within the spread' : '')
}

/** @param {Figure[]} figures */
export function figureTable(figures) {
  return table(
    ['figure', 'measured', 'quartiles', 'asked', 'verdict'],
    figures.map((figure) => {
      const { name, measured, spread, unit = '', most, least } = figure
      const asked = most !== undefined ? `at most ${number(most, unit)}` : least !== undefined ? `at least ${number(least, unit)}` : '-'
      return [name, number(measured, unit), spread ? between(spread, unit) : '-', asked, verdict(figure)]
    }),
  )
}
