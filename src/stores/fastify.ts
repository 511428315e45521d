// A store for @fastify/rate-limit, which makes it itself, from a constructor.
// That package is not imported: a store is what has these methods.

import { checkInteger } from "../engine/errors.js";
import { checkStoreOptions, type Count, Hits, MOST_MS, scoped, type StoreOptions } from "./counts.js";

export type { StoreOptions };

/** What the plugin passes on of its options, and of a route's. */
export interface FastifyStoreOptions {
  /** A hit beyond the maximum begins the window anew, to a sixteenth of it. */
  continueExceeding?: boolean;
  /** A hit beyond the maximum makes the window last a timeWindow, the next one two, then four, up to 64 of them. */
  exponentialBackoff?: boolean;
  /** The route of a child. */
  routeInfo?: { method?: string | readonly string[]; url?: string };
}

/** `current` hits, and ms until they are forgotten. */
export type FastifyStoreCallback = (error: Error | null, result?: { current: number; ttl: number }) => void;

export interface FastifyStore {
  /** Counts a hit. */
  incr(key: string, callback: FastifyStoreCallback, timeWindow: number, max: number): void;
  /** Where a key stands; changes nothing. */
  read(key: string, callback: FastifyStoreCallback, timeWindow: number): void;
  /** A route's store, with counts of its own; of the route's options it reads FastifyStoreOptions. */
  child(routeOptions: object): FastifyStore;
}

/** Longest window that a hit beyond the maximum can make, in time windows. */
const MOST_BACKOFF = 64;
/** Smallest part of a window that its end is moved by. Each move takes a slot of the table, and a client makes as many as it likes. */
const STEP = 1 / 16;

class RouteStore implements FastifyStore {
  readonly #home: StoreOptions;
  readonly #scope: string;
  readonly #continues: boolean;
  readonly #backsOff: boolean;
  readonly #hits = new Map<number, Hits>();
  #nameless = 0;

  constructor(
    home: StoreOptions,
    scope: string,
    { continueExceeding = false, exponentialBackoff = false }: FastifyStoreOptions,
  ) {
    this.#home = home;
    this.#scope = scope;
    this.#continues = continueExceeding;
    this.#backsOff = exponentialBackoff && !continueExceeding;
  }

  incr(key: string, callback: FastifyStoreCallback, timeWindow: number, max: number): void {
    answer(callback, () => {
      const counts = this.#counts(timeWindow);
      const name = scoped(this.#scope, key);
      const count = counts.hit(name);
      const beyond = count.hits - max;
      if (beyond <= 0 || !(this.#continues || this.#backsOff)) return count;
      const forMs = this.#backsOff ? Math.min(timeWindow * 2 ** (beyond - 1), longest(timeWindow)) : timeWindow;
      return forMs - count.endsInMs < forMs * STEP ? count : counts.extend(name, forMs, count.hits);
    });
  }

  read(key: string, callback: FastifyStoreCallback, timeWindow: number): void {
    answer(callback, () => this.#counts(timeWindow).peek(scoped(this.#scope, key)) ?? { hits: 0, endsInMs: 0 });
  }

  /** Limiters that are no route's (`createRateLimit`, `rateLimit`) are told by their order, which is the same in every thread. */
  child(routeOptions: object): RouteStore {
    const options: FastifyStoreOptions = routeOptions;
    const { method, url } = options.routeInfo ?? {};
    const name = url === undefined ? `${++this.#nameless}` : `${method} ${url}`;
    return new RouteStore(this.#home, scoped(this.#scope, name), options);
  }

  #counts(timeWindow: number): Hits {
    let hits = this.#hits.get(timeWindow);
    if (!hits) {
      checkInteger("timeWindow", timeWindow, 1, MOST_MS);
      hits = new Hits(this.#home.sluice, timeWindow, this.#backsOff ? longest(timeWindow) : timeWindow);
      this.#hits.set(timeWindow, hits);
    }
    return hits;
  }
}

function longest(timeWindow: number): number {
  return Math.min(timeWindow * MOST_BACKOFF, MOST_MS);
}

function answer(callback: FastifyStoreCallback, count: () => Count): void {
  let result: { current: number; ttl: number };
  try {
    const { hits, endsInMs } = count();
    result = { current: hits, ttl: Math.ceil(endsInMs) };
  } catch (error) {
    callback(error as Error);
    return;
  }
  callback(null, result);
}

/**
 * The constructor that the plugin's `store` option takes:
 *
 *   fastify.register(rateLimit, { max: 100, timeWindow: '1 minute', store: sluiceStore({ sluice, prefix: 'api' }) })
 *
 * Throws TypeError or RangeError for options that are wrong.
 */
export function sluiceStore(options: StoreOptions): new(options: FastifyStoreOptions) => FastifyStore {
  checkStoreOptions(options);
  return class extends RouteStore {
    constructor(own: FastifyStoreOptions) {
      super(options, options.prefix, own);
    }
  };
}
