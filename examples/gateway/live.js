/**
 * The view while it runs, from the counters in the shared table: a table drawn
 * over itself on a terminal, one line a second anywhere else.
 */
import { cursorTo, moveCursor, clearScreenDown } from 'node:readline'
import { CLASSES } from './classes.js'

const COLUMNS = ['requested', 'admitted', 'refused', 'allowance']

/** What a class's policy allows all its keys together in that time. */
function allowance({ keys, rate, burst }, seconds) {
  return keys * (burst + rate * seconds)
}

/** @returns {number[][]} a row of COLUMNS for every class */
function rows(stats, seconds) {
  return CLASSES.map((clientClass) => {
    const { allowed, denied } = stats.limiters[clientClass.name]
    return [allowed + denied, allowed, denied, Math.floor(allowance(clientClass, seconds))]
  })
}

/**
 * @param {import('node:tty').WriteStream} out
 * @returns {(stats: object, seconds: number) => void}  shows the next state
 */
export function openView(out) {
  return out.isTTY ? openTable(out) : openLines(out)
}

function openTable(out) {
  let lines = 0
  return (stats, seconds) => {
    if (lines > 0) {
      moveCursor(out, 0, -lines)
      cursorTo(out, 0)
      clearScreenDown(out)
    }
    const text = [
      `${seconds.toFixed(0).padStart(4)} s  ${COLUMNS.map((name) => name.padStart(10)).join('')}`,
      ...rows(stats, seconds).map((row, i) => CLASSES[i].name.padEnd(8) + row.map((n) => String(n).padStart(10)).join('')),
      'Ctrl-C ends it',
    ]
    out.write(`${text.join('\n')}\n`)
    lines = text.length
  }
}

function openLines(out) {
  const line = (first, groups) => `${[first.padStart(4), ...groups].join('|')}\n`
  const cells = (values) => values.map((value) => String(value).padStart(6)).join('')
  out.write(line('', CLASSES.map(({ name }) => ` ${name}`.padEnd(24))))
  out.write(line('s', CLASSES.map(() => cells(['asked', 'admit', 'refus', 'allow']))))
  return (stats, seconds) => {
    out.write(line(seconds.toFixed(0), rows(stats, seconds).map(cells)))
  }
}
