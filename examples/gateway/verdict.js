/**
 * Holds what the workers counted against what the policies allow, key by key.
 *
 * A key's time is measured on the clock all threads share. Two bounds follow
 * from the bucket alone, and neither needs a tolerance:
 *
 *   no more   from the first admitted request to the last, a key was admitted
 *             at most burst + rate x time.
 *   no less   a decision that found the bucket full had the whole burst before
 *             it, and a refusal found less than one token; if the bucket was
 *             not full again in between, all that came was taken: more than
 *             burst + rate x time - 1. That much is *owed*.
 */
import { CLASSES, className } from './classes.js'

/** In overload a key asks for at least so many times its rate, ... */
const OVERLOAD = 3
/** ... its bucket is never full after its first moments, ... */
const START_SECONDS = 1
/** ... and it gets at least this part of what it is owed, ... */
const USED = 0.99
/** ... if it is owed so much that the one token it may lack is no more than the rest. */
const ENOUGH_TOKENS = 100

const seconds = (fromNs, toNs) => Number(toNs - fromNs) / 1e9

/**
 * One key over all workers.
 * @typedef {object} KeyCount
 * @property {string} id
 * @property {number} requested
 * @property {number} admitted
 * @property {number} workers      that decided about it
 * @property {number} allowance    burst + rate x time, from its first decision to its last
 * @property {number} most         the same for `no more`
 * @property {number} owed         the same for `no less`; 0 if it was not refused since it was last full
 * @property {number} overload     how many times its rate it asked for
 * @property {number} fullSeconds  from its first decision until it was last full
 */

/**
 * Sums up the books of the workers.
 * @param {Map<string, import('./worker.js').Tally>[]} books
 * @returns {KeyCount[]}
 */
export function mergeTallies(books) {
  const merged = new Map()
  for (const [id, tally] of books.flatMap((book) => [...book])) {
    const sum = merged.get(id)
    if (sum === undefined) {
      merged.set(id, { ...tally, workers: 1 })
      continue
    }
    sum.workers++
    sum.requested += tally.requested
    sum.admitted += tally.admitted
    for (const first of ['firstNs', 'firstAdmittedNs']) {
      if (sum[first] === 0n || (tally[first] !== 0n && tally[first] < sum[first])) sum[first] = tally[first]
    }
    for (const last of ['lastNs', 'lastAdmittedNs', 'lastFullNs', 'lastRefusedNs']) {
      if (tally[last] > sum[last]) sum[last] = tally[last]
    }
  }
  return [...merged].map(([id, sum]) => countKey(id, sum))
}

/** @returns {KeyCount} */
function countKey(id, { requested, admitted, workers, ...times }) {
  const { rate, burst } = CLASSES.find(({ name }) => name === className(id))
  const allowance = (fromNs, toNs) => burst + rate * seconds(fromNs, toNs)
  return {
    id,
    requested,
    admitted,
    workers,
    allowance: allowance(times.firstNs, times.lastNs),
    most: allowance(times.firstAdmittedNs, times.lastAdmittedNs),
    owed: times.lastFullNs < times.lastRefusedNs ? allowance(times.lastFullNs, times.lastRefusedNs) : 0,
    overload: requested / (rate * seconds(times.firstNs, times.lastNs)),
    fullSeconds: seconds(times.firstNs, times.lastFullNs),
  }
}

/** The keys of one class, added up. */
export function sumClass({ name }, counts) {
  const sum = { keys: 0, requested: 0, admitted: 0, allowance: 0 }
  for (const { id, requested, admitted, allowance } of counts) {
    if (className(id) !== name) continue
    sum.keys++
    sum.requested += requested
    sum.admitted += admitted
    sum.allowance += allowance
  }
  return sum
}

/**
 * @typedef {object} Finding
 * @property {string} name
 * @property {boolean | undefined} holds  undefined: there was not enough to judge by
 * @property {string} text
 */

/**
 * @param {KeyCount[]} counts
 * @param {object} stats  of the table, read after the last decision
 * @param {object} audit
 * @returns {Finding[]}
 */
export function judge(counts, stats, audit) {
  const ofDemand = (demand) => {
    const names = CLASSES.filter((clientClass) => clientClass.demand === demand).map(({ name }) => name)
    return counts.filter(({ id }) => names.includes(className(id)))
  }
  return [
    { name: 'no more', ...judgeMost(counts) },
    { name: 'no less', ...judgeLeast(counts) },
    { name: 'overload', ...judgeOverload(ofDemand('over')) },
    { name: 'no wrong', ...judgeUnder(ofDemand('under')) },
    { name: 'counters', ...judgeTable(counts, stats, audit) },
  ]
}

function judgeMost(counts) {
  const spare = counts.map(({ admitted, most }) => most - admitted)
  if (spare.length === 0) return { holds: undefined, text: 'nothing was asked' }
  const over = spare.filter((tokens) => tokens < 0).length
  const closest = Math.min(...spare)
  return {
    holds: over === 0,
    text: `${over} of ${spare.length} keys over burst + rate x time; closest ${Math.abs(closest).toFixed(4)} ${closest < 0 ? 'over' : 'under'}`,
  }
}

function judgeLeast(counts) {
  const lack = counts.filter(({ owed }) => owed > 0).map(({ admitted, owed }) => owed - admitted)
  if (lack.length === 0) return { holds: undefined, text: 'nothing was refused' }
  const short = lack.filter((tokens) => tokens >= 1).length
  return {
    holds: short === 0,
    text: `${short} of ${lack.length} refused keys lack a token or more; most ${Math.max(0, ...lack).toFixed(4)}`,
  }
}

function judgeOverload(counts) {
  const owed = counts.reduce((sum, count) => sum + count.owed, 0)
  const admitted = counts.reduce((sum, count) => sum + count.admitted, 0)
  const demand = Math.min(...counts.map(({ overload }) => overload))
  if (owed < ENOUGH_TOKENS * Math.max(1, counts.length)) return { holds: undefined, text: `${owed.toFixed(0)} tokens are too few to judge by` }
  if (demand < OVERLOAD) return { holds: undefined, text: `a key asked only ${demand.toFixed(1)} x its rate` }
  if (counts.some(({ fullSeconds }) => fullSeconds > START_SECONDS)) return { holds: undefined, text: 'the load paused' }

  const used = [admitted / owed, ...counts.filter((count) => count.owed >= ENOUGH_TOKENS).map((count) => count.admitted / count.owed)]
  return {
    holds: used.every((part) => part >= USED),
    text: `asked ${demand.toFixed(1)} x the rate or more, got ${percent(used[0])} of what is owed`,
  }
}

function judgeUnder(counts) {
  const { requested, admitted } = counts.reduce((sum, count) => ({
    requested: sum.requested + count.requested,
    admitted: sum.admitted + count.admitted,
  }), { requested: 0, admitted: 0 })
  return {
    holds: requested === 0 ? undefined : requested === admitted,
    text: `${requested - admitted} of ${requested} requests refused to keys below their rate`,
  }
}

/** The table counted what the workers did, evicted no one and is in order. */
function judgeTable(counts, stats, audit) {
  const differ = CLASSES.filter((clientClass) => {
    const { requested, admitted } = sumClass(clientClass, counts)
    const { allowed, denied } = stats.limiters[clientClass.name]
    return allowed !== admitted || denied !== requested - admitted
  }).map(({ name }) => name)
  return {
    holds: differ.length === 0 && stats.evicted === 0 && audit.clean,
    text: `${differ.length === 0 ? 'as the workers counted' : `differ for ${differ}`}, ${stats.evicted} evicted, audit ${audit.clean ? 'clean' : 'not clean'}`,
  }
}

/** Rounded down, and never above: what came after the last refusal is not in what is owed. */
function percent(part) {
  return `${(Math.floor(Math.min(part, 1) * 1000) / 10).toFixed(1)} %`
}
