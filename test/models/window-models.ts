// Windows, slow and obvious: counts in maps by window or slot, moments found by
// trying, exact in BigInt; no rings, packed words or estimates in doubles. Also
// an exact log, which knows no algorithm: it says how much was admitted in the
// worst interval of a given length.

import fc from "fast-check";
import { type Limiter, ManualClock, type Reservation, Sluice } from "sluice";

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

/** What was granted, and where it was counted. */
export interface WindowTicket {
  cost: bigint;
  place: bigint;
  /** When it may act. */
  actNs: bigint;
  isOpen: boolean;
}

/** One key of a window of any kind: counts by place, the number of a window or slot. */
export abstract class ModelWindow {
  protected readonly counts = new Map<bigint, bigint>();
  protected newest = 0n;

  constructor(protected limit: bigint, protected readonly placeNs: bigint, protected readonly startNs: bigint) {}

  protected count(place: bigint): bigint {
    return this.counts.get(place) ?? 0n;
  }

  protected placeAt(nowNs: bigint): bigint {
    return (nowNs - this.startNs) / this.placeNs;
  }

  protected beginning(place: bigint): bigint {
    return this.startNs + place * this.placeNs;
  }

  /** The later of the present place and the one in which the last grant acts: no later call acts before that. */
  protected front(nowNs: bigint): bigint {
    return larger(this.placeAt(nowNs), this.newest);
  }

  /** The first moment from now on at which `cost` fits; undefined if never. */
  abstract firstNs(nowNs: bigint, cost: bigint): bigint | undefined;

  /** What fits now, if nothing is reserved ahead. */
  abstract remaining(nowNs: bigint): bigint;

  isAhead(nowNs: bigint): boolean {
    return this.newest > this.placeAt(nowNs);
  }

  /** A ticket if `cost` fits within the wait; a cost of 0 changes nothing. */
  reserve(nowNs: bigint, cost: bigint, maxWaitNs: bigint): WindowTicket | undefined {
    const actNs = this.firstNs(nowNs, cost);
    if (actNs === undefined || actNs - nowNs > maxWaitNs) return undefined;
    const place = larger(this.placeAt(actNs), this.newest);
    if (cost > 0n) this.put(nowNs, place, cost);
    return { cost, place, actNs, isOpen: cost > 0n };
  }

  protected put(_nowNs: bigint, place: bigint, cost: bigint): void {
    this.counts.set(place, this.count(place) + cost);
    this.newest = place;
  }

  /** Whether anything was given back. */
  cancel(nowNs: bigint, ticket: WindowTicket): boolean {
    if (!ticket.isOpen) return false;
    ticket.isOpen = false;
    if (nowNs > ticket.actNs) return false;
    const before = this.all();
    this.giveBack(nowNs, ticket);
    return this.all() < before;
  }

  private all(): bigint {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0n);
  }

  protected abstract giveBack(nowNs: bigint, ticket: WindowTicket): void;

  charge(nowNs: bigint, cost: bigint): void {
    if (cost > 0n) this.put(nowNs, this.front(nowNs), cost);
  }

  /** Takes `cost` out of the places from `from` down to `to`, the newest first. */
  protected takeOut(cost: bigint, from: bigint, to: bigint): void {
    for (let place = from; place >= to && cost > 0n; place--) {
      const some = smaller(cost, this.count(place));
      this.counts.set(place, this.count(place) - some);
      cost -= some;
    }
  }

  abstract refund(nowNs: bigint, cost: bigint): void;

  setLimit(limit: bigint): void {
    this.limit = limit;
  }

  reset(): void {
    this.counts.clear();
    this.newest = 0n;
  }
}

/** A fixed window: a count for each. A reservation never spans two: the rest of a window lapses. */
export class ModelFixedWindow extends ModelWindow {
  firstNs(nowNs: bigint, cost: bigint): bigint | undefined {
    if (cost > this.limit) return undefined;
    const front = this.front(nowNs);
    const place = this.count(front) + cost <= this.limit ? front : front + 1n;
    return larger(nowNs, this.beginning(place));
  }

  remaining(nowNs: bigint): bigint {
    return larger(0n, this.limit - this.count(this.placeAt(nowNs)));
  }

  protected override put(nowNs: bigint, place: bigint, cost: bigint): void {
    for (let lapsed = this.front(nowNs); lapsed < place; lapsed++) this.counts.set(lapsed, this.limit);
    super.put(nowNs, place, cost);
  }

  /** A charge lets nothing lapse: what does not fit a window fills those to come. */
  override charge(nowNs: bigint, cost: bigint): void {
    for (let place = this.front(nowNs); cost > 0n; place++) {
      const some = smaller(cost, this.limit - this.count(place));
      if (some > 0n) super.put(nowNs, place, some);
      cost -= some;
    }
  }

  /** Nothing once a later window is reserved too: a reservation there relies on the windows before it. */
  protected giveBack(_nowNs: bigint, { cost, place }: WindowTicket): void {
    if (place === this.newest) this.takeOut(cost, place, place);
  }

  refund(nowNs: bigint, cost: bigint): void {
    const present = this.placeAt(nowNs);
    this.takeOut(cost, this.newest, present);
    while (this.newest > present && this.count(this.newest) === 0n) this.newest--;
  }
}

/** The counter of two windows: the present one, and the share of the one before that still overlaps. */
export class ModelSlidingCounter extends ModelWindow {
  /** Whether `cost` fits `elapsed` ns after the beginning of a window. */
  private fits(place: bigint, elapsed: bigint, cost: bigint): boolean {
    const estimate = this.count(place - 1n) * (this.placeNs - elapsed) + this.count(place) * this.placeNs;
    return estimate + cost * this.placeNs <= this.limit * this.placeNs;
  }

  firstNs(nowNs: bigint, cost: bigint): bigint | undefined {
    if (cost > this.limit) return undefined;
    for (let place = this.front(nowNs);; place++) {
      let low = larger(0n, nowNs - this.beginning(place));
      let high = this.placeNs - 1n;
      if (!this.fits(place, high, cost)) continue;
      while (low < high) {
        const middle = (low + high) / 2n;
        if (this.fits(place, middle, cost)) high = middle;
        else low = middle + 1n;
      }
      return this.beginning(place) + low;
    }
  }

  remaining(nowNs: bigint): bigint {
    const place = this.placeAt(nowNs);
    let left = this.limit;
    while (left > 0n && !this.fits(place, nowNs - this.beginning(place), left)) left--;
    return left;
  }

  protected giveBack(_nowNs: bigint, { cost, place }: WindowTicket): void {
    if (place >= this.newest - 1n) this.takeOut(cost, place, place);
  }

  refund(_nowNs: bigint, cost: bigint): void {
    this.takeOut(cost, this.newest, this.newest - 1n);
  }
}

/** The window of `slots` slots: the counts of the present slot and as many before it. */
export class ModelSlottedWindow extends ModelWindow {
  private readonly slots: bigint;

  constructor(limit: bigint, windowNs: bigint, slots: number, startNs: bigint) {
    super(limit, (windowNs + BigInt(slots) - 1n) / BigInt(slots), startNs);
    this.slots = BigInt(slots);
  }

  private seen(slot: bigint): bigint {
    let all = 0n;
    for (let each = slot - this.slots; each <= slot; each++) all += this.count(each);
    return all;
  }

  firstNs(nowNs: bigint, cost: bigint): bigint | undefined {
    if (cost > this.limit) return undefined;
    let slot = this.front(nowNs);
    while (this.seen(slot) + cost > this.limit) slot++;
    return larger(nowNs, this.beginning(slot));
  }

  remaining(nowNs: bigint): bigint {
    return larger(0n, this.limit - this.seen(this.placeAt(nowNs)));
  }

  protected giveBack(_nowNs: bigint, { cost, place }: WindowTicket): void {
    if (place >= this.newest - this.slots) this.takeOut(cost, place, place);
  }

  refund(_nowNs: bigint, cost: bigint): void {
    this.takeOut(cost, this.newest, this.newest - this.slots);
  }
}

/** What was admitted, and when: no window, no slot. */
export class ExactLog {
  readonly entries: { atNs: bigint; cost: bigint }[] = [];

  admit(atNs: bigint, cost: bigint | number): void {
    this.entries.push({ atNs, cost: BigInt(cost) });
  }

  /** The most that any interval [t, t + lengthNs) has seen; with both ends, if `isClosed`. */
  most(lengthNs: bigint, isClosed = false): bigint {
    let most = 0n;
    for (const { atNs: from } of this.entries) {
      let seen = 0n;
      for (const { atNs, cost } of this.entries) {
        if (atNs >= from && (isClosed ? atNs <= from + lengthNs : atNs < from + lengthNs)) seen += cost;
      }
      most = larger(most, seen);
    }
    return most;
  }
}

// --- a limiter against its model -----------------------------------------------

export type WindowStep =
  | { do: "allow" | "consume" | "peek" | "charge" | "refund"; cost: number }
  | { do: "reserve"; cost: number; waitNs: number }
  | { do: "cancel"; which: number }
  | { do: "limit"; limit: number }
  | { do: "reset" }
  | { do: "pass"; ns: number }
  /** Until `past` ns after the next multiple of `alignNs` since the beginning. */
  | { do: "align"; past: number };

export interface Sizes {
  limit: number;
  windowNs: number;
}

/** Steps for a window: costs around its limit, times around its length. */
export function windowSteps(
  { limit, windowNs }: Sizes,
  kinds: readonly WindowStep["do"][],
  maxLength = 60,
): fc.Arbitrary<WindowStep[]> {
  const cost = fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 0, max: Math.ceil(limit / 4) + 1 }) }, {
    weight: 1,
    arbitrary: fc.integer({ min: 0, max: limit + 1 }),
  });
  const ns = fc.oneof(
    fc.integer({ min: 1, max: Math.ceil(windowNs / 5) }),
    fc.integer({ min: 1, max: 3 * windowNs }),
    fc.integer({ min: 1, max: 3 }),
  );
  const each: Record<WindowStep["do"], fc.Arbitrary<WindowStep>> = {
    allow: fc.record({ do: fc.constant("allow" as const), cost }),
    consume: fc.record({ do: fc.constant("consume" as const), cost }),
    peek: fc.record({ do: fc.constant("peek" as const), cost }),
    charge: fc.record({ do: fc.constant("charge" as const), cost }),
    refund: fc.record({ do: fc.constant("refund" as const), cost }),
    reserve: fc.record({
      do: fc.constant("reserve" as const),
      cost,
      waitNs: fc.oneof(fc.constant(0), ns, fc.constant(10 * windowNs)),
    }),
    cancel: fc.record({ do: fc.constant("cancel" as const), which: fc.nat(5) }),
    limit: fc.record({ do: fc.constant("limit" as const), limit: fc.integer({ min: 1, max: 2 * limit }) }),
    reset: fc.constant({ do: "reset" as const }),
    pass: fc.record({ do: fc.constant("pass" as const), ns }),
    align: fc.record({ do: fc.constant("align" as const), past: fc.integer({ min: -1, max: 1 }) }),
  };
  return fc.array(fc.oneof(...kinds.map((kind) => each[kind])), { maxLength });
}

export const EVERY_STEP: readonly WindowStep["do"][] = [
  "allow",
  "allow",
  "consume",
  "peek",
  "charge",
  "refund",
  "reserve",
  "cancel",
  "reset",
  "pass",
  "pass",
  "align",
];

export function toNs(ms: number): number {
  return Math.round(ms * 1e6);
}

/** Where every comparison begins, ns: not at 0, and at no multiple of a window. */
export const START_NS = 1_234_567;

/**
 * Does the same to a limiter and to its model. Returns the first difference, or
 * undefined. `alignNs` is what 'align' steps align to.
 */
export function firstDifference(
  make: (sluice: Sluice) => Limiter,
  model: ModelWindow,
  steps: readonly WindowStep[],
  alignNs: number,
  log?: ExactLog,
): string | undefined {
  const clock = new ManualClock(START_NS / 1e6);
  const sluice = Sluice.create({ capacity: 64, lineCapacity: 64, maxThreads: 1, clock });
  try {
    const limiter = make(sluice);
    let now = START_NS;
    const taken: { reservation: Reservation; ticket: WindowTicket }[] = [];
    for (const [i, step] of steps.entries()) {
      const at = `step ${i} ${JSON.stringify(step)} at ${now - START_NS} ns: `;
      const nowNs = BigInt(now);
      switch (step.do) {
        case "pass":
          now += step.ns;
          clock.set(now / 1e6);
          continue;
        case "align":
          now = Math.max(now, START_NS + (Math.floor((now - START_NS) / alignNs) + 1) * alignNs + step.past);
          clock.set(now / 1e6);
          continue;
        case "charge":
          limiter.charge("key", step.cost);
          model.charge(nowNs, BigInt(step.cost));
          break;
        case "refund":
          limiter.refund("key", step.cost);
          model.refund(nowNs, BigInt(step.cost));
          break;
        case "reset":
          limiter.reset("key");
          model.reset();
          taken.length = 0;
          break;
        case "limit":
          limiter.setLimit(step.limit);
          model.setLimit(BigInt(step.limit));
          break;
        case "cancel": {
          if (taken.length === 0) continue;
          const { reservation, ticket } = taken[step.which % taken.length];
          reservation.cancel();
          model.cancel(nowNs, ticket);
          break;
        }
        default: {
          const cost = BigInt(step.cost);
          const firstNs = model.firstNs(nowNs, cost);
          const waitNs = firstNs === undefined ? Infinity : Number(firstNs - nowNs);
          if (step.do === "reserve") {
            const reservation = limiter.reserve("key", step.cost, { maxWaitMs: step.waitNs / 1e6 });
            const ticket = model.reserve(nowNs, cost, BigInt(step.waitNs));
            if (reservation.granted !== (ticket !== undefined)) {
              return `${at}granted ${reservation.granted}, the model after ${waitNs} ns`;
            }
            if (toNs(reservation.delayMs) !== waitNs) {
              return `${at}delay ${toNs(reservation.delayMs)}, the model ${waitNs}`;
            }
            if (ticket) taken.push({ reservation, ticket });
            if (ticket) log?.admit(ticket.actNs, step.cost);
            break;
          }
          const isThere = waitNs === 0;
          if (step.do === "allow") {
            if (limiter.allow("key", step.cost) !== isThere) {
              return `${at}allowed ${!isThere}, the model after ${waitNs} ns`;
            }
          } else {
            const decision = step.do === "consume" ? limiter.consume("key", step.cost) : limiter.peek("key", step.cost);
            if (decision.allowed !== isThere) return `${at}allowed ${!isThere}, the model after ${waitNs} ns`;
            if (toNs(decision.retryAfterMs) !== waitNs) {
              return `${at}retry after ${toNs(decision.retryAfterMs)}, the model ${waitNs}`;
            }
          }
          if (step.do !== "peek" && isThere) {
            model.reserve(nowNs, cost, 0n);
            log?.admit(nowNs, step.cost);
          }
        }
      }
      if (!model.isAhead(nowNs)) {
        const { remaining } = limiter.peek("key", 0);
        const left = Number(model.remaining(nowNs));
        if (remaining !== left) return `${at}${remaining} remain, the model ${left}`;
      }
    }
    return undefined;
  } finally {
    sluice.close();
  }
}
