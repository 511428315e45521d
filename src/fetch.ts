// A fetch that keeps to a limit: every call waits for its turn, and a server
// that answers 429 or 503 with Retry-After (RFC 9110, section 10.2.3) is left
// alone for so long, by all callers of that key.
//
// A key that is held back is so twice. In this thread its calls wait until the
// time has passed, those whose turn had come too, and then for a turn. And the
// limiter is charged what it would give until then, so that calls of other threads
// wait as well: as far as a limiter of its kind goes into debt, and but for those
// already waiting there.

import { Bucket } from "./engine/bucket/bucket.js";
import { wallMs, wallMsOf } from "./engine/clock.js";
import {
  checkCost,
  checkDuration,
  checkInteger,
  checkOptions,
  MAX_COST,
  SluiceError,
  unexpected,
} from "./engine/errors.js";
import { type Limiter, policyOf } from "./engine/limiter/limiter.js";
import type { Policy } from "./engine/policy/policy.js";
import type { Key } from "./engine/table/key.js";
import { sleepUntil } from "./engine/waiting/sleep.js";

/** What the global fetch and undici's have in common. */
export type AnyFetch = (input: any, init?: any) => Promise<FetchResponse>;

interface FetchResponse {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: { cancel(): Promise<void> } | null;
}

export interface LimitedFetchOptions<Fetch extends AnyFetch = typeof globalThis.fetch> {
  /** Which bucket a call takes from: a key, or what gives one for an address, such as `(url) => url.host`. Left out: the limiter's global bucket. */
  key?: Key | ((url: URL) => Key);
  /** The fetch to call: the global one by default. */
  fetch?: Fetch;
  /** Tokens that each attempt takes: an integer >= 0, 1 by default. */
  cost?: number;
  /** Longest time that a call may spend waiting for its turns, ms; Infinity by default. */
  timeoutMs?: number;
  /** How often a call that was answered with Retry-After is tried again: an integer >= 0, 2 by default. */
  maxRetries?: number;
  /** Longest Retry-After to believe, ms: 60,000 by default. A longer one holds the key back for so long, and the answer goes to the caller. */
  maxRetryAfterMs?: number;
}

/**
 * A fetch that waits for `limiter` before each attempt, and tries again when the
 * server asked for a pause. It rejects as `fetch` does, with the reason of the
 * request's signal, or as `limiter.wait` does when its turn is not within
 * `timeoutMs`; an answer of 429 or 503 that is not tried again is the caller's.
 *
 * Tried again is a request whose body, if it has one, can be sent anew (no
 * stream), and on 503 only if its method is idempotent. Throws RangeError or
 * TypeError for options that are wrong.
 */
export function limitedFetch<Fetch extends AnyFetch = typeof globalThis.fetch>(
  limiter: Limiter,
  options: LimitedFetchOptions<Fetch> = {},
): Fetch {
  const policy = policyOf(limiter);
  if (!policy) throw unexpected("limiter", "a Limiter", limiter, "object");
  checkOptions(options);
  const {
    key,
    cost = 1,
    timeoutMs = Infinity,
    maxRetries = 2,
    maxRetryAfterMs = 60_000,
    fetch = globalThis.fetch as AnyFetch,
  } = options;
  checkCost(cost);
  checkDuration("timeoutMs", timeoutMs);
  checkInteger("maxRetries", maxRetries, 0, Number.MAX_SAFE_INTEGER);
  checkDuration("maxRetryAfterMs", maxRetryAfterMs);
  if (typeof fetch !== "function") throw unexpected("fetch", "a function", fetch, "function");

  const held = new Held(limiter, policy);
  const limited: AnyFetch = async (input, init) => {
    const { url, method, signal, isReplayable } = readRequest(input, init);
    signal?.throwIfAborted();
    const own = typeof key === "function" ? key(new URL(url)) : key;
    const { clock } = policy.table;
    const deadlineMs = clock.now() + timeoutMs;
    const turn = async (): Promise<void> => {
      // Who is held back when the turn comes takes another one later, else all of them would go at once.
      do {
        await held.released(own, deadlineMs, signal);
        await limiter.wait(own, cost, { timeoutMs: Math.max(0, deadlineMs - clock.now()), ...(signal && { signal }) });
      } while (held.leftMs(own) > 0);
    };

    await turn();
    for (let retries = 0;; retries++) {
      // A Request's body can be sent once; a copy leaves it for the next attempt.
      const isLast = retries === maxRetries;
      const response = await fetch(!isLast && isRequest(input) && input.body ? input.clone() : input, init);
      const retryAfterMs = response.status === 429 || response.status === 503 ? retryAfterOf(response) : undefined;
      if (retryAfterMs === undefined) return response;
      held.hold(own, cost, Math.min(retryAfterMs, maxRetryAfterMs));
      if (
        isLast || retryAfterMs > maxRetryAfterMs || !isReplayable
        || (response.status === 503 && !IDEMPOTENT.has(method))
      ) return response;
      try {
        await turn();
      } catch (error) {
        // No turn for another attempt: the answer is what there is.
        if (error instanceof SluiceError) return response;
        throw error;
      }
      await response.body?.cancel();
    }
  };
  return limited as Fetch;
}

/** The same for keys of the same bytes. */
function identityOf(key: Key | undefined): unknown {
  return key instanceof Uint8Array
    ? `bytes ${Buffer.from(key).toString("latin1")}`
    : typeof key === "string"
    ? `text ${key}`
    : key;
}

/** The keys of one fetch that a server wants to be left alone. */
class Held {
  readonly #limiter: Limiter;
  readonly #policy: Policy;
  /** By identity of the key. */
  readonly #untilMs = new Map<unknown, number>();

  constructor(limiter: Limiter, policy: Policy) {
    this.#limiter = limiter;
    this.#policy = policy;
  }

  /** Holds `key` back for `ms` from now, or longer if it is already. */
  hold(key: Key | undefined, cost: number, ms: number): void {
    const { rate, table, limits, kind } = this.#policy;
    const nowMs = table.clock.now();
    for (const [each, untilMs] of this.#untilMs) if (untilMs <= nowMs) this.#untilMs.delete(each);
    const identity = identityOf(key);
    this.#untilMs.set(identity, Math.max(nowMs + ms, this.#untilMs.get(identity) ?? 0));
    // Rate 0 gives nothing to take and an infinite one no end of it; of several limits
    // the slowest would take ages, and a queue would be full for those who may wait.
    if (ms === 0 || rate === 0 || rate === Infinity || limits.length > 0 || kind.isQueue) return;
    const charge = Math.ceil((ms / 1000) * rate - cost + new Bucket(this.#policy, key).tokens(nowMs));
    if (charge > 0) this.#limiter.charge(key, Math.min(charge, MAX_COST));
  }

  /** ms until `key` may be asked again. */
  leftMs(key: Key | undefined): number {
    return Math.max(0, (this.#untilMs.get(identityOf(key)) ?? 0) - this.#policy.table.clock.now());
  }

  /** Resolves when `key` may be asked again. Rejects with the signal's reason, or ERR_SLUICE_TIMEOUT at once if that is after the deadline. */
  async released(key: Key | undefined, deadlineMs: number, signal: AbortSignal | undefined): Promise<void> {
    const { table } = this.#policy;
    for (let leftMs; (leftMs = this.leftMs(key)) > 0;) {
      const untilMs = this.#untilMs.get(identityOf(key))!;
      if (untilMs > deadlineMs) {
        throw new SluiceError(
          "ERR_SLUICE_TIMEOUT",
          `the server asked to be left alone for ${leftMs} ms more, which is longer than "timeoutMs" allows`,
        );
      }
      signal?.throwIfAborted();
      await sleepUntil(table, untilMs, signal);
    }
  }
}

interface RequestLike {
  readonly url: string;
  readonly method: string;
  readonly signal: AbortSignal;
  readonly body: unknown;
  clone(): RequestLike;
}

/** A Request of the global kind, or of undici's own. */
function isRequest(input: unknown): input is RequestLike {
  return typeof input === "object" && input !== null && "clone" in input && "url" in input;
}

interface RequestFacts {
  url: string;
  method: string;
  signal: AbortSignal | undefined;
  isReplayable: boolean;
}

function readRequest(
  input: unknown,
  options?: { method?: string; signal?: AbortSignal | null; body?: unknown } | null,
): RequestFacts {
  // As fetch has it, null is no options.
  const init = options ?? {};
  const request = isRequest(input) ? input : undefined;
  return {
    url: request?.url ?? String(input),
    method: (init.method ?? request?.method ?? "GET").toUpperCase(),
    // A signal of null takes the Request's away.
    signal: (init.signal === undefined ? request?.signal : init.signal) ?? undefined,
    isReplayable: isReplayable(init.body),
  };
}

/** RFC 9110, section 9.2.2. A 503 may come after the request took effect; a 429 does not. */
const IDEMPOTENT = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]);

/** By tag, since undici has classes of its own. */
const REPLAYABLE = new Set([
  "Null",
  "Undefined",
  "String",
  "URLSearchParams",
  "FormData",
  "Blob",
  "File",
  "ArrayBuffer",
  "SharedArrayBuffer",
]);

function isReplayable(body: unknown): boolean {
  return ArrayBuffer.isView(body) || REPLAYABLE.has(Object.prototype.toString.call(body).slice("[object ".length, -1));
}

/** ms that the server asked for: a number of seconds or a date, by its own clock if it tells that. undefined if it said nothing that can be read. */
function retryAfterOf({ headers }: FetchResponse): number | undefined {
  const value = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const thenMs = wallMsOf(value);
  if (Number.isNaN(thenMs)) return undefined;
  const serverMs = wallMsOf(headers.get("date") ?? "");
  return Math.max(0, thenMs - (Number.isNaN(serverMs) ? wallMs() : serverMs));
}
