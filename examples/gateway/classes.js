/**
 * The client classes of the example: what each may do, and how its clients
 * behave. Policies and load are made from this one table.
 *
 * The load is a closed loop: every connection has one request under way, and
 * the gateway takes ANSWER_MS over each answer, so `connections` bounds the
 * requests per second (connections / ANSWER_MS) on any machine, and a class
 * asks evenly instead of all at once.
 */
import { perSecond } from 'sluice'

/**
 * How long the gateway takes over an answer, in ms. For an admitted request it
 * stands for the upstream's work; a refusal is held back as long, so that
 * a client who comes straight back gains nothing by it.
 */
export const ANSWER_MS = 10

/**
 * @typedef {object} ClientClass
 * @property {string} name         of the class and of its policy
 * @property {number} keys         clients in it, each with a bucket of its own
 * @property {number} rate         tokens a client gets per second
 * @property {number} burst        most tokens it can have at once
 * @property {number} connections  under way at the same time, for all its keys
 * @property {number} turn         requests in a row for one key before the next
 * @property {'under' | 'mixed' | 'over'} demand  against the rate
 */

/** @type {ClientClass[]} */
export const CLASSES = [
  // At most 300 requests/s over 200 keys: 1.5 per key and second of 5 allowed.
  { name: 'steady', keys: 200, rate: perSecond(5), burst: 10, connections: 3, turn: 1, demand: 'under' },
  // 30 requests at once on a burst of 20, then silence while the others have their turn.
  { name: 'bursty', keys: 40, rate: perSecond(20), burst: 20, connections: 5, turn: 30, demand: 'mixed' },
  // At most 1600 requests/s over 3 keys: up to 530 per key and second of 30 allowed.
  { name: 'greedy', keys: 3, rate: perSecond(30), burst: 80, connections: 16, turn: 1, demand: 'over' },
]

/** The client that makes a class's request number `i`. */
export function clientId({ name, keys, turn }, i) {
  return `${name}-${Math.floor(i / turn) % keys}`
}

/** The name of the class a client belongs to. A real gateway looks up the plan of an API key. */
export function className(id) {
  return id.slice(0, Math.max(0, id.indexOf('-')))
}
