// One limit of a guard: which limiter, whose bucket and what cost, request by
// request. Each may be a value, or a function that tells it or promises it.

import { checkCost, checkOptions, shown, unexpected } from "../../engine/errors.js";
import type { Key } from "../../engine/table/key.js";
import type { Reader } from "../client/reader.js";
import { type AnyLimiter, type AnyPart, isLimiter } from "./async-limiter.js";
import { Described, type HeaderStyle } from "./fields.js";
import { problems, type ProblemType } from "./problem.js";

/** Tells something about a request, at once or later. `reader` is for functions of this library, as `clientAddress()`. */
export type Ask<Request, Answer> = (request: Request, reader: Reader<Request>) => Answer | PromiseLike<Answer>;

export interface LimitOptions<Request> {
  /** The limiter, of a table or one that answers in promises; or a function that chooses it, by tier or by route; null where this limit does not apply. */
  limiter: AnyLimiter | Ask<Request, AnyLimiter | null>;
  /** Whose bucket: `clientAddress(...)` or a function; null where this limit does not apply. Left out, all requests share the limiter's one global bucket. */
  key?: Ask<Request, Key | null>;
  /** Tokens that a request takes, an integer from 0 to 2^31-1, or a function that tells; 1 by default. */
  cost?: number | Ask<Request, number>;
  /** What a refusal is called: 'quota-exceeded' (default) and 'abnormal-usage-detected' answer 429, 'temporary-reduced-capacity' 503. */
  problem?: ProblemType;
  /** Tells the client its key, as `pk` of 'draft-11' headers; false by default. */
  tellsKey?: boolean;
}

export function isThenable<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

export class Limit<Request> {
  readonly problem: ProblemType;
  readonly tellsKey: boolean;
  readonly #option: string;
  readonly #style: HeaderStyle;
  readonly #limiter: LimitOptions<Request>["limiter"];
  readonly #key: LimitOptions<Request>["key"];
  readonly #cost: number | Ask<Request, number>;
  readonly #described = new Map<AnyLimiter, Described>();
  #latest: Described | undefined;
  #latestOf: AnyLimiter | undefined;

  constructor(options: LimitOptions<Request>, i: number, style: HeaderStyle) {
    const option = `limits[${i}]`;
    checkOptions(options, option);
    const { limiter, key, cost = 1, problem = "quota-exceeded", tellsKey = false } = options;
    if (typeof limiter !== "function" && !isLimiter(limiter)) {
      throw new TypeError(`"${option}.limiter" expected a limiter or a function, got ${shown(limiter)}`);
    }
    if (key !== undefined && typeof key !== "function") {
      throw new TypeError(`"${option}.key" expected a function, got ${shown(key)}`);
    }
    if (typeof cost !== "function") checkCost(cost);
    if (!Object.hasOwn(problems, problem)) {
      throw unexpected(
        `${option}.problem`,
        Object.keys(problems).map((each) => `'${each}'`).join(", "),
        problem,
        "string",
      );
    }
    if (typeof tellsKey !== "boolean") {
      throw new TypeError(`"${option}.tellsKey" expected true or false, got ${shown(tellsKey)}`);
    }
    this.#option = option;
    this.#style = style;
    this.#limiter = limiter;
    this.#key = key;
    this.#cost = cost;
    this.problem = problem;
    this.tellsKey = tellsKey;
    if (typeof limiter !== "function") this.describe(limiter);
  }

  /** What to charge for this request; null if the limit does not apply to it. */
  part(request: Request, reader: Reader<Request>): AnyPart | null | Promise<AnyPart | null> {
    const limiter = typeof this.#limiter === "function" ? this.#limiter(request, reader) : this.#limiter;
    if (isThenable(limiter)) return this.#partLater(request, reader, limiter);
    if (limiter === null) return null;
    const key = this.#key?.(request, reader);
    if (isThenable(key)) return this.#partLater(request, reader, limiter, { key });
    if (key === null) return null;
    const cost = typeof this.#cost === "number" ? this.#cost : this.#cost(request, reader);
    if (isThenable(cost)) return this.#partLater(request, reader, limiter, { key, cost });
    return this.#checked(limiter, key, cost);
  }

  async #partLater(
    request: Request,
    reader: Reader<Request>,
    limiter: AnyLimiter | null | PromiseLike<AnyLimiter | null>,
    told: { key?: Key | null | undefined | PromiseLike<Key | null>; cost?: number | PromiseLike<number> } = {},
  ): Promise<AnyPart | null> {
    const chosen = await limiter;
    if (chosen === null) return null;
    const key = await ("key" in told ? told.key : this.#key?.(request, reader));
    if (key === null) return null;
    const cost = await (told.cost ?? (typeof this.#cost === "number" ? this.#cost : this.#cost(request, reader)));
    return this.#checked(chosen, key, cost);
  }

  #checked(limiter: AnyLimiter, key: Key | undefined, cost: number): AnyPart {
    if (key === undefined && this.#key) {
      throw new TypeError(`"${this.#option}.key" expected a key, or null if the limit does not apply, got undefined`);
    }
    if (!isLimiter(limiter)) {
      throw new TypeError(
        `"${this.#option}.limiter" expected a limiter, or null if the limit does not apply, got ${shown(limiter)}`,
      );
    }
    return [limiter, key, cost];
  }

  /** What the header fields tell of a limiter of this limit. */
  describe(limiter: AnyLimiter): Described {
    if (limiter === this.#latestOf && this.#latest!.isCurrent) return this.#latest!;
    let described = this.#described.get(limiter);
    if (!described?.isCurrent) {
      this.#described.set(
        limiter,
        described = new Described(limiter, this.#style, this.problem, `${this.#option}.limiter`),
      );
    }
    this.#latestOf = limiter;
    return (this.#latest = described);
  }
}
