// A fetch that keeps to a limit: every call waits for its turn, and a server that
// answers 429 or 503 with Retry-After (RFC 9110, section 10.2.3) gets a pause from
// all callers of that key.
//
// A pause is kept in two ways. In this thread the calls of the key wait until it
// is over, also those whose turn has come, and then wait for a turn. And the
// limiter is charged what it would give until then, so that calls in other threads
// wait as well: as far as a limiter of its kind can go into debt, and except for
// calls that wait there already.

import { Bucket } from "./engine/bucket/bucket.js";
import { wallMs, wallMsOf } from "./engine/clock.js";
import { checkCost, checkDuration, checkInteger, MAX_COST, SluiceError, unexpected } from "./engine/errors.js";
import type { KeyedLimiter } from "./engine/limiter/keyed-limiter.js";
import { type Limiter, policyOf } from "./engine/limiter/limiter.js";
import { checkOptions } from "./engine/options.js";
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
  /**
   * The bucket that a call takes from: a key, or a function of the URL such as `(url)
   * => url.host`. Default: the limiter's global bucket.
   */
  key?: Key | ((url: URL) => Key);
  /** The fetch to call. Default: the global one. */
  fetch?: Fetch;
  /** Tokens that each attempt takes: an integer from 0 to 2^31-1. Default: 1. */
  cost?: number;
  /** Longest time that a call may spend waiting for its turns, ms >= 0. Default: Infinity. */
  timeoutMs?: number;
  /** How often a call is repeated after an answer with Retry-After: an integer >= 0. Default: 2. */
  maxRetries?: number;
  /**
   * Longest pause that a server can ask for, ms >= 0. After a longer Retry-After the
   * pause lasts this long, and the caller gets the answer. Default: 60,000.
   */
  maxRetryAfterMs?: number;
}

const OPTIONS = ["key", "fetch", "cost", "timeoutMs", "maxRetries", "maxRetryAfterMs"];

/**
 * A fetch that waits for `limiter` before each attempt, and repeats a call when the
 * server asked for a pause: if its body, where it has one, can be sent again (not a
 * stream), and after a 503 only if its method is idempotent. Otherwise the caller
 * gets the answer, 429 or 503.
 *
 * A call rejects as `fetch` does, with the reason of its signal, or with a
 * SluiceError as `limiter.wait` does: ERR_SLUICE_TIMEOUT if its turn is not within
 * `timeoutMs`, ERR_SLUICE_COST_ABOVE_BURST, ERR_SLUICE_NEVER.
 *
 * @throws {TypeError | RangeError} if an option is wrong or unknown
 */
export function limitedFetch<Fetch extends AnyFetch = typeof globalThis.fetch>(
  limiter: Limiter,
  options: LimitedFetchOptions<Fetch> = {},
): Fetch {
  const policy = policyOf(limiter);
  if (!policy) throw unexpected("limiter", "a Limiter", limiter, "object");
  const { key, cost, timeoutMs, maxRetries, maxRetryAfterMs, fetch } = checked(options);
  const { clock } = policy.table;
  const pauses = new Pauses(policy);

  const limited: AnyFetch = async (input, init) => {
    const { url, method, signal, isReplayable } = readRequest(input, init);
    signal?.throwIfAborted();
    const own = typeof key === "function" ? key(new URL(url)) : key;
    const bucket = own === undefined && typeof key !== "function" ? limiter.global : limiter.key(own as Key);
    const deadlineMs = clock.now() + timeoutMs;
    const turn = async (): Promise<void> => {
      // A turn that comes during a pause is spent: the call takes another after it, so that not all of them go at once.
      do {
        await pauses.end(own, cost, timeoutMs, deadlineMs, signal);
        await bucket.wait(cost, { timeoutMs: Math.max(0, deadlineMs - clock.now()), ...(signal && { signal }) });
      } while (pauses.leftMs(own) > 0);
    };

    await turn();
    for (let retries = 0;; retries++) {
      // A Request's body can be sent once; a copy leaves it for the next attempt.
      const isLast = retries === maxRetries;
      const response = await fetch(!isLast && isRequest(input) && input.body ? input.clone() : input, init);
      const retryAfterMs = response.status === 429 || response.status === 503 ? retryAfterOf(response) : undefined;
      if (retryAfterMs === undefined) return response;
      pauses.begin(own, bucket, cost, Math.min(retryAfterMs, maxRetryAfterMs));
      const isRepeatable = isReplayable && (response.status === 429 || IDEMPOTENT.has(method));
      if (isLast || retryAfterMs > maxRetryAfterMs || !isRepeatable) return response;
      try {
        await turn();
      } catch (error) {
        // No turn for another attempt: the caller gets this answer.
        if (error instanceof SluiceError) return response;
        throw error;
      }
      await response.body?.cancel();
    }
  };
  return limited as Fetch;
}

/** The options with their defaults. */
function checked<Fetch extends AnyFetch>(options: LimitedFetchOptions<Fetch>) {
  checkOptions(options, OPTIONS);
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
  return { key, cost, timeoutMs, maxRetries, maxRetryAfterMs, fetch };
}

/** Equal for keys of the same bytes. */
function identityOf(key: Key | undefined): unknown {
  return key instanceof Uint8Array
    ? `bytes ${Buffer.from(key).toString("latin1")}`
    : typeof key === "string"
    ? `text ${key}`
    : key;
}

/** The pauses that servers asked one fetch for, by key. */
class Pauses {
  readonly #policy: Policy;
  /** When each pause ends, by identity of the key. */
  readonly #untilMs = new Map<unknown, number>();

  constructor(policy: Policy) {
    this.#policy = policy;
  }

  /** Begins a pause of `ms` from now, or prolongs the one that runs. */
  begin(key: Key | undefined, limiter: KeyedLimiter, cost: number, ms: number): void {
    const { rate, table, limits, kind } = this.#policy;
    const nowMs = table.clock.now();
    for (const [each, untilMs] of this.#untilMs) if (untilMs <= nowMs) this.#untilMs.delete(each);
    const identity = identityOf(key);
    this.#untilMs.set(identity, Math.max(nowMs + ms, this.#untilMs.get(identity) ?? 0));
    // Rate 0 gives nothing and an infinite rate has no end of tokens; of several limits
    // the slowest would take ages, and a queue would have no room for later waits.
    if (ms === 0 || rate === 0 || rate === Infinity || limits.length > 0 || kind.isQueue) return;
    const charge = Math.ceil((ms / 1000) * rate - cost + new Bucket(this.#policy, key).tokens(nowMs));
    if (charge > 0) limiter.charge(Math.min(charge, MAX_COST));
  }

  /** ms until the key's pause is over. */
  leftMs(key: Key | undefined): number {
    return Math.max(0, (this.#untilMs.get(identityOf(key)) ?? 0) - this.#policy.table.clock.now());
  }

  /**
   * Resolves when the key's pause is over. Rejects with the signal's reason, or with
   * ERR_SLUICE_TIMEOUT at once if that is after the deadline.
   */
  async end(
    key: Key | undefined,
    cost: number,
    timeoutMs: number,
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { table, name } = this.#policy;
    for (let leftMs; (leftMs = this.leftMs(key)) > 0;) {
      const untilMs = this.#untilMs.get(identityOf(key))!;
      if (untilMs > deadlineMs) {
        throw new SluiceError(
          "ERR_SLUICE_TIMEOUT",
          `timed out: the server asked for a pause of ${leftMs} ms more, timeoutMs is ${timeoutMs}`,
          { limiter: name, cost, retryAfterMs: leftMs },
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

/** A global Request, or one of undici's own. */
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
  // To fetch, null means no options.
  const init = options ?? {};
  const request = isRequest(input) ? input : undefined;
  return {
    url: request?.url ?? String(input),
    method: (init.method ?? request?.method ?? "GET").toUpperCase(),
    // A signal of null removes the Request's.
    signal: (init.signal === undefined ? request?.signal : init.signal) ?? undefined,
    isReplayable: isReplayable(init.body),
  };
}

/** RFC 9110, section 9.2.2. A 503 may come after the request took effect; a 429 does not. */
const IDEMPOTENT = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]);

/** Bodies that can be sent again, by tag: undici has classes of its own. */
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

/**
 * The pause that the server asked for, ms: a number of seconds, or a date by the
 * server's own clock where it sends that. Undefined without a readable Retry-After.
 */
function retryAfterOf({ headers }: FetchResponse): number | undefined {
  const value = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const thenMs = wallMsOf(value);
  if (Number.isNaN(thenMs)) return undefined;
  const serverMs = wallMsOf(headers.get("date") ?? "");
  return Math.max(0, thenMs - (Number.isNaN(serverMs) ? wallMs() : serverMs));
}
