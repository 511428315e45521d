// Rivals in turn. A shared machine is never quiet, so rivals are not measured
// one after the other: every round gives each of them one short slot of the
// same work, in an order that moves on by one a round, and a ratio is taken
// within its round. What disturbs a round disturbs all of them; what disturbs
// a slot makes one ratio of hundreds wrong, and the median does not mind.

/**
 * One way to make decisions. `run(slot)` makes the decisions of that slot and
 * returns a number that depends on every answer; `isRight` judges it, outside
 * of the time that is measured. `slot` counts up over all rounds, so that a
 * rival can walk through its keys.
 *
 * @typedef {{ name: string, run: (slot: number) => number, isRight: (answer: number) => boolean, than?: string }} Rival
 */

/** How a slot begins: a rival may find in the caches what it used last, or nothing. */
export const WARM = true
export const COLD = false

/**
 * Runs the rivals in rounds and returns, by name, the nanoseconds a decision
 * took in each round. In a WARM slot the rival does its work once before it is
 * timed: otherwise the one with the larger memory would pay for being
 * interleaved, which it would not where it is used.
 *
 * @param {Rival[]} rivals
 * @param {{ rounds: number, decisions: number, slots: boolean }} options
 * @returns {Map<string, Float64Array>}
 */
export function interleave(rivals, { rounds, decisions, slots }) {
  const times = new Map(rivals.map(({ name }) => [name, new Float64Array(rounds)]))
  const once = (rival, slot) => {
    const startMs = performance.now()
    const answer = rival.run(slot)
    const endMs = performance.now()
    if (!rival.isRight(answer)) throw new Error(`${rival.name}: wrong answers, they sum up to ${answer} in slot ${slot}`)
    return ((endMs - startMs) * 1e6) / decisions
  }
  const warmUps = Math.max(20, rounds >> 3)
  for (let slot = 0; slot < warmUps; slot++) for (const rival of rivals) once(rival, slot)
  globalThis.gc?.()
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < rivals.length; turn++) {
      const rival = rivals[(round + turn) % rivals.length]
      if (slots === WARM) once(rival, warmUps + round)
      times.get(rival.name)[round] = once(rival, warmUps + round)
    }
  }
  return times
}

/** The lower quartile, the median and the upper quartile. */
export function quartiles(values) {
  const sorted = Float64Array.from(values).sort()
  const at = (share) => {
    const place = share * (sorted.length - 1)
    const below = Math.floor(place)
    return sorted[below] + (sorted[Math.ceil(place)] - sorted[below]) * (place - below)
  }
  return { lower: at(0.25), median: at(0.5), upper: at(0.75) }
}

/** Round by round, how many times the cost of `reference` is that of `name`. */
export function costRatio(times, name, reference) {
  const own = times.get(name)
  const other = times.get(reference)
  return quartiles(own.map((ns, round) => ns / other[round]))
}

/** Round by round, how many times the decisions a second of `reference` are those of `name`. */
export function speedRatio(times, name, reference) {
  return costRatio(times, reference, name)
}
