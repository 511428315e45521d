// One limit of a guard: for each request, which limiter, which key and what cost.
// Each may be a value, or a function that gives or promises it.

import { checkCost, shown, unexpected } from "../../engine/errors.js";
import { checkOptions } from "../../engine/options.js";
import type { Key } from "../../engine/table/key.js";
import type { Reader } from "../client/reader.js";
import { type AnyLimiter, type Charge, isLimiter } from "./async-limiter.js";
import { type HeaderStyle, LimiterFields } from "./fields.js";
import { problems, type ProblemType } from "./problem.js";

/**
 * A function of a request that gives or promises its answer. `reader` is for functions
 * of this library, such as `clientAddress()`.
 */
export type Ask<Request, Answer> = (request: Request, reader: Reader<Request>) => Answer | PromiseLike<Answer>;

export interface LimitOptions<Request> {
  /**
   * The limiter, of a table or one that answers in promises; or a function that chooses
   * it, for example by tier or route. Null: this limit does not apply.
   */
  limiter: AnyLimiter | Ask<Request, AnyLimiter | null>;
  /**
   * A function that gives the key: `clientAddress(...)` or your own. Null: this limit
   * does not apply. Default: the limiter's one global bucket, for all requests.
   */
  key?: Ask<Request, Key | null>;
  /** Tokens that a request takes: an integer from 0 to 2^31-1, or a function that gives it. Default: 1. */
  cost?: number | Ask<Request, number>;
  /**
   * The problem type of a refusal: 'quota-exceeded' (default) and
   * 'abnormal-usage-detected' are 429, 'temporary-reduced-capacity' is 503.
   */
  problem?: ProblemType;
  /** Sends the key to the client, as `pk` in 'draft-11' headers. Default: false. */
  sendsKey?: boolean;
}

/** What a request is charged by a limit. */
export interface LimitCharge<Request> extends Charge {
  readonly limit: Limit<Request>;
  readonly fields: LimiterFields;
}

type Now<Value> = Value | PromiseLike<Value>;

export function isThenable<Value>(value: Now<Value>): value is PromiseLike<Value> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

export class Limit<Request> {
  readonly problem: ProblemType;
  readonly sendsKey: boolean;
  readonly #option: string;
  readonly #style: HeaderStyle;
  readonly #limiter: LimitOptions<Request>["limiter"];
  readonly #key: LimitOptions<Request>["key"];
  readonly #cost: number | Ask<Request, number>;
  readonly #fields = new WeakMap<AnyLimiter, LimiterFields>();

  /** The `i`-th limit of a guard. Throws TypeError or RangeError for wrong options. */
  constructor(options: LimitOptions<Request>, i: number, style: HeaderStyle) {
    const option = `limits[${i}]`;
    checkOptions(options, ["limiter", "key", "cost", "problem", "sendsKey"], option);
    const { limiter, key, cost = 1, problem = "quota-exceeded", sendsKey = false } = options;
    if (typeof limiter !== "function" && !isLimiter(limiter)) {
      throw new TypeError(`"${option}.limiter" expected a limiter or a function, got ${shown(limiter)}`);
    }
    if (key !== undefined && typeof key !== "function") {
      throw new TypeError(`"${option}.key" expected a function, got ${shown(key)}`);
    }
    if (typeof cost !== "function") checkCost(cost);
    if (!Object.hasOwn(problems, problem)) {
      const known = Object.keys(problems).map((each) => `'${each}'`).join(", ");
      throw unexpected(`${option}.problem`, known, problem, "string");
    }
    if (typeof sendsKey !== "boolean") {
      throw new TypeError(`"${option}.sendsKey" expected true or false, got ${shown(sendsKey)}`);
    }
    this.#option = option;
    this.#style = style;
    this.#limiter = limiter;
    this.#key = key;
    this.#cost = cost;
    this.problem = problem;
    this.sendsKey = sendsKey;
    if (typeof limiter !== "function") this.#fieldsOf(limiter);
  }

  /** What to charge for a request; null if the limit does not apply to it. Takes nothing. */
  charge(
    request: Request,
    reader: Reader<Request>,
  ): LimitCharge<Request> | null | Promise<LimitCharge<Request> | null> {
    const limiter = typeof this.#limiter === "function" ? this.#limiter(request, reader) : this.#limiter;
    if (isThenable(limiter)) return this.#chargeLater(request, reader, limiter);
    if (limiter === null) return null;
    const key = this.#key?.(request, reader);
    if (isThenable(key)) return this.#chargeLater(request, reader, limiter, { key });
    if (key === null) return null;
    const cost = typeof this.#cost === "number" ? this.#cost : this.#cost(request, reader);
    if (isThenable(cost)) return this.#chargeLater(request, reader, limiter, { key, cost });
    return this.#checked(limiter, key, cost);
  }

  /**
   * The rest of `charge`, once a function has promised its answer. `known` are the
   * answers it has already.
   */
  async #chargeLater(
    request: Request,
    reader: Reader<Request>,
    limiter: Now<AnyLimiter | null>,
    known: { key?: Now<Key | null> | undefined; cost?: Now<number> } = {},
  ): Promise<LimitCharge<Request> | null> {
    const chosen = await limiter;
    if (chosen === null) return null;
    const key = await ("key" in known ? known.key : this.#key?.(request, reader));
    if (key === null) return null;
    const cost = await (known.cost ?? (typeof this.#cost === "number" ? this.#cost : this.#cost(request, reader)));
    return this.#checked(chosen, key, cost);
  }

  #checked(limiter: AnyLimiter, key: Key | undefined, cost: number): LimitCharge<Request> {
    if (key === undefined && this.#key) {
      throw new TypeError(`"${this.#option}.key" expected a key, or null if the limit does not apply, got undefined`);
    }
    return { limit: this, limiter, key, cost, fields: this.#fieldsOf(limiter) };
  }

  /**
   * The fields of a limiter. Throws TypeError if it is not a limiter, RangeError if its
   * name cannot be sent.
   */
  #fieldsOf(limiter: AnyLimiter): LimiterFields {
    const known = this.#fields.get(limiter);
    if (known?.isCurrent) return known;
    if (!isLimiter(limiter)) {
      throw new TypeError(
        `"${this.#option}.limiter" expected a limiter, or null if the limit does not apply, got ${shown(limiter)}`,
      );
    }
    const fields = new LimiterFields(limiter, this.#style, this.problem, `${this.#option}.limiter`);
    this.#fields.set(limiter, fields);
    return fields;
  }
}
