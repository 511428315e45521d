/**
 * The last screen: what was asked, admitted and allowed, and the verdict.
 * At most 24 lines of 80 columns.
 */
import { CLASSES } from './classes.js'
import { sumClass } from './verdict.js'

const MARKS = new Map([[true, 'ok'], [false, 'VIOLATED'], [undefined, 'not judged']])

/** @param {(string | number)[]} cells */
function row([name, ...cells]) {
  return name.padEnd(8) + cells.map((cell) => String(cell).padStart(10)).join('')
}

/**
 * @param {object} run
 * @param {number} run.seconds   it ran for
 * @param {boolean} run.interrupted
 * @param {import('./verdict.js').KeyCount[]} run.counts
 * @param {number[]} run.served  requests decided by each worker
 * @param {{ admitted: number, refused: number, wrong: number, errors: number }} run.seen  by the clients
 * @param {import('./verdict.js').Finding[]} run.findings
 */
export function summary({ seconds, interrupted, counts, served, seen, findings }) {
  const shared = counts.filter(({ workers }) => workers > 1).length
  return [
    `${interrupted ? 'Interrupted after' : 'Done:'} ${seconds.toFixed(1)} s, ${served.length} workers, one table, one port`,
    '',
    row(['class', 'keys', 'rate/s', 'burst', 'requested', 'admitted', 'refused', 'allowance']),
    ...CLASSES.map((clientClass) => {
      const { requested, admitted, allowance, keys } = sumClass(clientClass, counts)
      const { name, rate, burst } = clientClass
      return row([name, keys, rate, burst, requested, admitted, requested - admitted, allowance.toFixed(1)])
    }),
    '',
    'allowance: burst + rate x time, summed over the keys; a key\'s time runs from',
    'its first decision to its last, on the clock that all threads share',
    '',
    `workers     decided ${served.join(' + ')}`,
    `contention  ${shared} of ${counts.length} keys were decided by more than one worker`,
    `clients     saw ${seen.admitted} x 200, ${seen.refused} x 429 + Retry-After, ${seen.wrong} else, ${seen.errors} errors`,
    '',
    ...findings.map(({ name, holds, text }) => `${name.padEnd(11)} ${MARKS.get(holds)}: ${text}`),
    '',
    verdict(findings),
  ].join('\n')
}

function verdict(findings) {
  if (findings.some(({ holds }) => holds === false)) return 'VERDICT: VIOLATED'
  if (findings.some(({ holds }) => holds === undefined)) return 'VERDICT: nothing violated, but not all could be judged'
  return 'VERDICT: EXACT'
}
