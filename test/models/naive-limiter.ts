// The models as limiters with the face of the real ones: a model for each key,
// at a clock that is moved by hand. No table, no threads, no waits.

import type { Decision, Key } from "sluice";
import type { AnyBucket, AnyLimiter, AnyReservation, Makers } from "../contract.js";
import { type Limit, ModelLimits } from "./limits-model.js";
import { ModelFixedWindow, ModelSlidingCounter, ModelSlottedWindow, type ModelWindow } from "./window-models.js";

interface Granted {
  delayNs: number;
  cancel(nowNs: bigint): boolean;
}

/** One key. Costs are integers >= 0, and times ns. */
interface Model {
  /** Until `cost` fits: 0 now, Infinity never. */
  waitNs(nowNs: bigint, cost: number): number;
  /** Whole tokens left, by limit. */
  remaining(nowNs: bigint): number[];
  untilFullNs(nowNs: bigint): number;
  /** Undefined: not within `maxWaitNs`. */
  reserve(nowNs: bigint, cost: number, maxWaitNs: number): Granted | undefined;
  refund(nowNs: bigint, cost: number): void;
  charge(nowNs: bigint, cost: number): void;
}

function ofLimits(limits: readonly Limit[], nowNs: bigint): Model {
  const model = new ModelLimits(limits, nowNs);
  return {
    waitNs: (nowNs, cost) => model.waitNs(nowNs, cost),
    remaining: (nowNs) => model.tokens(nowNs).map((tokens) => Math.max(0, Math.floor(tokens))),
    untilFullNs: (nowNs) => Math.max(...model.buckets.map((bucket) => bucket.waitNs(nowNs, bucket.burst))),
    reserve: (nowNs, cost, maxWaitNs) => {
      const delayNs = model.waitNs(nowNs, cost);
      const tickets = model.claim(nowNs, cost, maxWaitNs);
      const cancel = (atNs: bigint): boolean =>
        tickets!.map((ticket, i) => model.buckets[i].cancel(atNs, ticket)).includes(true);
      return tickets && { delayNs, cancel };
    },
    refund: (nowNs, cost) => model.buckets.forEach((bucket) => bucket.refund(nowNs, cost)),
    charge: (nowNs, cost) => model.buckets.forEach((bucket) => bucket.charge(nowNs, cost)),
  };
}

function ofWindow(limit: number, model: ModelWindow): Model {
  const waitNs = (nowNs: bigint, cost: number): number => {
    const firstNs = model.firstNs(nowNs, BigInt(cost));
    return firstNs === undefined ? Infinity : Number(firstNs - nowNs);
  };
  return {
    waitNs,
    untilFullNs: (nowNs) => waitNs(nowNs, limit),
    remaining: (nowNs) => [model.isAhead(nowNs) ? 0 : Number(model.remaining(nowNs))],
    reserve: (nowNs, cost, maxWaitNs) => {
      const ticket = model.reserve(nowNs, BigInt(cost), BigInt(Math.min(maxWaitNs, Number.MAX_SAFE_INTEGER)));
      return ticket && {
        delayNs: Number(ticket.actNs - nowNs),
        cancel: (atNs) => model.cancel(atNs, ticket),
      };
    },
    refund: (nowNs, cost) => model.refund(nowNs, BigInt(cost)),
    charge: (nowNs, cost) => model.charge(nowNs, BigInt(cost)),
  };
}

/** A key by its type and value: `1` and `"1"` are two. */
const nameOf = (key: Key): string => (key instanceof Uint8Array ? `bytes ${key}` : `${typeof key} ${key}`);

class NaiveBucket implements AnyBucket {
  #model: Model;

  constructor(
    readonly limits: readonly Limit[],
    readonly make: () => Model,
    readonly nowNs: () => bigint,
  ) {
    this.#model = make();
  }

  allow(cost = 1): boolean {
    return this.#model.reserve(this.nowNs(), cost, 0) !== undefined;
  }

  consume(cost = 1): Decision {
    return this.#decision(cost, this.allow(cost));
  }

  peek(cost = 1): Decision {
    return this.#decision(cost, this.#model.waitNs(this.nowNs(), cost) === 0);
  }

  reserve(cost = 1, { maxWaitMs = Infinity } = {}): AnyReservation {
    const granted = this.#model.reserve(this.nowNs(), cost, maxWaitMs * 1e6);
    return {
      granted: granted !== undefined,
      delayMs: (granted?.delayNs ?? this.#model.waitNs(this.nowNs(), cost)) / 1e6,
      cancel: () => granted?.cancel(this.nowNs()) ?? false,
    };
  }

  refund(cost = 1): void {
    this.#model.refund(this.nowNs(), cost);
  }

  charge(cost = 1): void {
    this.#model.charge(this.nowNs(), cost);
  }

  reset(): void {
    this.#model = this.make();
  }

  #decision(cost: number, allowed: boolean): Decision {
    const nowNs = this.nowNs();
    const remaining = this.#model.remaining(nowNs);
    const limitIndex = remaining.indexOf(Math.min(...remaining));
    return {
      allowed,
      limit: this.limits[limitIndex].burst,
      remaining: remaining[limitIndex],
      retryAfterMs: allowed ? 0 : this.#model.waitNs(nowNs, cost) / 1e6,
      resetMs: this.#model.untilFullNs(nowNs) / 1e6,
      ...(remaining.length > 1 && { limitIndex }),
    };
  }
}

/** Its keys have a model each, made when they are first seen. */
class NaiveLimiter implements AnyLimiter {
  readonly global: NaiveBucket;
  readonly #buckets = new Map<string, NaiveBucket>();

  constructor(
    readonly limits: readonly Limit[],
    readonly make: () => Model,
    readonly nowNs: () => bigint,
  ) {
    this.global = new NaiveBucket(limits, make, nowNs);
  }

  #of(key: Key): NaiveBucket {
    const name = nameOf(key);
    const bucket = this.#buckets.get(name) ?? new NaiveBucket(this.limits, this.make, this.nowNs);
    this.#buckets.set(name, bucket);
    return bucket;
  }

  allow(key: Key, cost?: number): boolean {
    return this.#of(key).allow(cost);
  }
  consume(key: Key, cost?: number): Decision {
    return this.#of(key).consume(cost);
  }
  peek(key: Key, cost?: number): Decision {
    return this.#of(key).peek(cost);
  }
  reserve(key: Key, cost?: number, options?: { maxWaitMs?: number }): AnyReservation {
    return this.#of(key).reserve(cost, options);
  }
  refund(key: Key, cost?: number): void {
    this.#of(key).refund(cost);
  }
  charge(key: Key, cost?: number): void {
    this.#of(key).charge(cost);
  }
  reset(key: Key): void {
    this.#of(key).reset();
  }
}

/** Makers of limiters without waits, at the time that `nowNs` says. */
export function naiveLimiters(nowNs: () => bigint): Makers {
  const buckets = (limits: readonly Limit[]): AnyLimiter =>
    new NaiveLimiter(limits, () => ofLimits(limits, nowNs()), nowNs);
  const windows = (limit: number, windowMs: number, make: () => ModelWindow): AnyLimiter =>
    new NaiveLimiter([{ rate: (1000 * limit) / windowMs, burst: limit }], () => ofWindow(limit, make()), nowNs);
  return {
    tokenBucket: (_, options) => buckets("limits" in options ? options.limits : [options]),
    leakyBucket: (_, { rate, burst = 1 }) => buckets([{ rate, burst }]),
    fixedWindow: (_, { limit, windowMs }) =>
      windows(limit, windowMs, () => new ModelFixedWindow(BigInt(limit), BigInt(windowMs * 1e6), 0n)),
    slidingWindow: (_, { limit, windowMs, slots }) =>
      windows(limit, windowMs, () =>
        slots === undefined
          ? new ModelSlidingCounter(BigInt(limit), BigInt(windowMs * 1e6), 0n)
          : new ModelSlottedWindow(BigInt(limit), BigInt(windowMs * 1e6), slots, 0n)),
  };
}
