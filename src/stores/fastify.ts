// A store for @fastify/rate-limit, which constructs it itself. That package is not
// imported: a store is any object with these methods.

import { checkInteger } from "../engine/errors.js";
import {
  checkStoreOptions,
  MAX_WINDOW_MS,
  scoped,
  type StoreOptions,
  type WindowCount,
  WindowCounts,
} from "./counts.js";

export type { StoreOptions };

/** The options of the plugin, and of a route, that a store reads. */
export interface FastifyStoreOptions {
  /** A request beyond the maximum begins the window anew, to a sixteenth of it. */
  continueExceeding?: boolean;
  /**
   * The first request beyond the maximum makes the window last one timeWindow, the next
   * two, then four, up to 64.
   */
  exponentialBackoff?: boolean;
  /** The route of a child. */
  routeInfo?: { method?: string | readonly string[]; url?: string };
}

/** Receives the requests in the window, `current`, and the ms until they are forgotten, `ttl`. */
export type FastifyStoreCallback = (error: Error | null, result?: { current: number; ttl: number }) => void;

/** A store as the plugin uses it. `timeWindow` is an integer, ms, up to 366 days. */
export interface FastifyStore {
  /** Counts a request. */
  incr(key: string, callback: FastifyStoreCallback, timeWindow: number, max: number): void;
  /** Where a key stands; changes nothing. */
  read(key: string, callback: FastifyStoreCallback, timeWindow: number): void;
  /** The store of a route, which counts on its own; of the route's options it reads FastifyStoreOptions. */
  child(routeOptions: object): FastifyStore;
}

/** Longest window that a request beyond the maximum can make, in time windows. */
const MAX_BACKOFF = 64;
/**
 * Least share of a window that its end is moved by. Each move takes a slot of the
 * table, and a client can cause as many as it likes.
 */
const MIN_STEP = 1 / 16;

class RouteStore implements FastifyStore {
  readonly #options: StoreOptions;
  readonly #scope: string;
  readonly #continues: boolean;
  readonly #backsOff: boolean;
  readonly #counts = new Map<number, WindowCounts>();
  #unnamedChildren = 0;

  constructor(
    options: StoreOptions,
    scope: string,
    { continueExceeding = false, exponentialBackoff = false }: FastifyStoreOptions,
  ) {
    this.#options = options;
    this.#scope = scope;
    this.#continues = continueExceeding;
    this.#backsOff = exponentialBackoff && !continueExceeding;
  }

  incr(key: string, callback: FastifyStoreCallback, timeWindow: number, max: number): void {
    answer(callback, () => {
      const counts = this.#countsOf(timeWindow);
      const name = scoped(this.#scope, key);
      const counted = counts.add(name);
      const beyond = counted.count - max;
      if (beyond <= 0 || !(this.#continues || this.#backsOff)) return counted;
      const forMs = this.#backsOff ? Math.min(timeWindow * 2 ** (beyond - 1), longest(timeWindow)) : timeWindow;
      return forMs - counted.endsInMs < forMs * MIN_STEP ? counted : counts.extend(name, forMs, counted.count);
    });
  }

  read(key: string, callback: FastifyStoreCallback, timeWindow: number): void {
    answer(callback, () => this.#countsOf(timeWindow).peek(scoped(this.#scope, key)) ?? { count: 0, endsInMs: 0 });
  }

  /**
   * Limiters without a route (`createRateLimit`, `rateLimit`) are numbered in their
   * order, which is the same in every thread.
   */
  child(routeOptions: object): RouteStore {
    const options: FastifyStoreOptions = routeOptions;
    const { method, url } = options.routeInfo ?? {};
    const name = url === undefined ? `${++this.#unnamedChildren}` : `${method} ${url}`;
    return new RouteStore(this.#options, scoped(this.#scope, name), options);
  }

  #countsOf(timeWindow: number): WindowCounts {
    let counts = this.#counts.get(timeWindow);
    if (!counts) {
      checkInteger("timeWindow", timeWindow, 1, MAX_WINDOW_MS);
      counts = new WindowCounts(this.#options.sluice, timeWindow, this.#backsOff ? longest(timeWindow) : timeWindow);
      this.#counts.set(timeWindow, counts);
    }
    return counts;
  }
}

function longest(timeWindow: number): number {
  return Math.min(timeWindow * MAX_BACKOFF, MAX_WINDOW_MS);
}

function answer(callback: FastifyStoreCallback, count: () => WindowCount): void {
  let result: { current: number; ttl: number };
  try {
    const counted = count();
    result = { current: counted.count, ttl: Math.ceil(counted.endsInMs) };
  } catch (error) {
    callback(error as Error);
    return;
  }
  callback(null, result);
}

/**
 * The constructor for the plugin's `store` option:
 *
 *   fastify.register(rateLimit, { max: 100, timeWindow: '1 minute', store: sluiceStore({ sluice, prefix: 'api' }) })
 *
 * @throws {TypeError | RangeError} if an option is wrong or unknown
 */
export function sluiceStore(options: StoreOptions): new(options: FastifyStoreOptions) => FastifyStore {
  checkStoreOptions(options);
  return class extends RouteStore {
    constructor(own: FastifyStoreOptions) {
      super(options, options.prefix, own);
    }
  };
}
