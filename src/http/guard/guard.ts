// The core of every door: from a request to an answer, for any framework.
//
// A guard charges all of its limits or none, and takes nothing before every
// function of the user has given its answer. It answers at once if the functions
// and the limiters do, and in a promise if one of them promises.

import { shown } from "../../engine/errors.js";
import { all, type GroupDecision } from "../../engine/limiter/all.js";
import type { Entry } from "../../engine/limiter/entries.js";
import { type Limiter, policyOf } from "../../engine/limiter/limiter.js";
import { checkOptions } from "../../engine/options.js";
import type { Key } from "../../engine/table/key.js";
import type { ClientAddress } from "../client/client-address.js";
import type { Reader } from "../client/reader.js";
import { ADMITTED, type Answer, type OwnResponse, withOwnResponse } from "./answer.js";
import { type AsyncDecision, consume, consumeInTurn, isOfTable } from "./async-limiter.js";
import {
  checkHeaderStyle,
  fieldsFor,
  type HeaderStyle,
  MAX_SECONDS,
  partitionOf,
  Policies,
  wholeSeconds,
} from "./fields.js";
import { type Ask, isThenable, Limit, type LimitCharge, type LimitOptions } from "./limit.js";
import { List, type ListOptions } from "./lists.js";
import { FORBIDDEN, PROBLEM_JSON, problemBody, problems, type ProblemType } from "./problem.js";

/**
 * A guard asks in this order, and the first that applies decides: `skip`,
 * `deny.addresses`, `allow.addresses`, then the functions of all limits, `deny.keys`,
 * `allow.keys`, and last the limiters. So a denied address is refused whatever its
 * key is, and an allowed address proceeds even with a denied key.
 */
export interface GuardOptions<Request> {
  /** The limits of a request, one or more: all of them are charged, or none if one refuses. */
  limits: readonly LimitOptions<Request>[];
  /** The header fields that describe the limits to clients. Default: 'draft-11'. */
  headers?: HeaderStyle;
  /** Chooses requests that proceed uncounted, before anything else is asked. */
  skip?: Ask<Request, boolean>;
  /** How `allow` and `deny` find the address of a request: `clientAddress(...)`. */
  client?: ClientAddress;
  /** Requests that proceed uncounted, by address or key. */
  allow?: ListOptions;
  /** Requests that are refused uncounted with 403, by address or key. */
  deny?: ListOptions;
  /**
   * Called for every refusal, by a limit or by `deny`; in shadow mode for what would
   * have been one. If it returns a promise, the answer waits for it.
   */
  onLimited?: (request: Request, answer: Answer) => unknown;
  /** Replaces the response of a refusal, at once or in a promise. */
  respond?: (request: Request, answer: Answer) => OwnResponse | PromiseLike<OwnResponse>;
  /** Decides, counts, sends header fields and calls `onLimited`, but refuses no request. Default: false. */
  shadow?: boolean;
}

/** The names of a guard's options. */
export const GUARD_OPTIONS: readonly string[] = [
  "limits",
  "headers",
  "skip",
  "client",
  "allow",
  "deny",
  "onLimited",
  "respond",
  "shadow",
];

/** The problem type of a refusal if no decision was possible. */
const UNAVAILABLE: ProblemType = "temporary-reduced-capacity";

/** Decides about the requests of a framework that `reader` can read. */
export class Guard<Request> {
  readonly #reader: Reader<Request>;
  readonly #limits: readonly Limit<Request>[];
  readonly #style: HeaderStyle;
  readonly #skip: GuardOptions<Request>["skip"];
  readonly #allow: List | undefined;
  readonly #deny: List | undefined;
  readonly #onLimited: GuardOptions<Request>["onLimited"];
  readonly #respond: GuardOptions<Request>["respond"];
  readonly #isShadow: boolean;
  readonly #policies = new Policies();

  /**
   * `reader` reads a request: `plainReader`, or a framework's.
   * @throws {TypeError | RangeError} if an option is wrong or unknown
   */
  constructor(options: GuardOptions<Request>, reader: Reader<Request>) {
    checkGuardOptions(options);
    const { limits, headers = "draft-11", skip, client, allow, deny, onLimited, respond, shadow = false } = options;
    this.#reader = reader;
    this.#limits = limits.map((limit, i) => new Limit(limit, i, headers));
    checkOneTable(limits);
    this.#style = headers;
    this.#skip = skip;
    this.#allow = allow && new List("allow", allow, client);
    this.#deny = deny && new List("deny", deny, client);
    this.#onLimited = onLimited;
    this.#respond = respond;
    this.#isShadow = shadow;
  }

  /**
   * Decides about a request; in a promise if a function of the options or a limiter
   * promised its answer. Throws, or rejects with, what a function of the options
   * throws, and a TypeError or RangeError for a wrong answer of one; then nothing was
   * taken.
   */
  decide(request: Request): Answer | Promise<Answer> {
    const skips = this.#skip?.(request, this.#reader);
    if (isThenable(skips)) {
      return Promise.resolve(skips).then((isSkipped) => (isSkipped ? ADMITTED : this.#byAddress(request)));
    }
    return skips ? ADMITTED : this.#byAddress(request);
  }

  #byAddress(request: Request): Answer | Promise<Answer> {
    const reader = this.#reader;
    if (this.#deny?.hasAddress(request, reader)) return this.#denied(request);
    if (this.#allow?.hasAddress(request, reader)) return ADMITTED;
    const limits = this.#limits;
    const charges: LimitCharge<Request>[] = [];
    for (let i = 0; i < limits.length; i++) {
      const charge = limits[i].charge(request, reader);
      if (charge instanceof Promise) {
        // The other limits are asked in promises too: if one throws, no rejection of another goes unhandled.
        const rest = limits.slice(i + 1).map(async (limit) => limit.charge(request, reader));
        return Promise.all([...charges, charge, ...rest]).then((given) =>
          this.#byKey(request, given.filter((each) => each !== null))
        );
      }
      if (charge !== null) charges.push(charge);
    }
    return this.#byKey(request, charges);
  }

  #byKey(request: Request, charges: readonly LimitCharge<Request>[]): Answer | Promise<Answer> {
    if (this.#deny?.hasKeyOf(charges)) return this.#denied(request);
    if (this.#allow?.hasKeyOf(charges)) return ADMITTED;
    if (charges.length === 0) return ADMITTED;
    if (charges.length > 1) return this.#consumeAll(request, charges);
    const [charge] = charges;
    const decision = consume(charge);
    return isThenable(decision)
      ? Promise.resolve(decision).then((later) => this.#answer(request, charge, charge.fields.policy, later))
      : this.#answer(request, charge, charge.fields.policy, decision);
  }

  #consumeAll(request: Request, charges: readonly LimitCharge<Request>[]): Answer | Promise<Answer> {
    const policies = this.#policies.of(charges);
    const answer = (decision: GroupDecision): Answer | Promise<Answer> =>
      this.#answer(request, charges[decision.entryIndex], policies, decision);
    if (charges.every(({ limiter }) => isOfTable(limiter))) {
      return answer(all(charges.map(({ limiter, key, cost }) => entryOf(limiter as Limiter, key, cost))));
    }
    return consumeInTurn(charges).then(answer);
  }

  #answer(
    request: Request,
    { limit, key, fields: { name }, fields: about }: LimitCharge<Request>,
    policies: string,
    decision: AsyncDecision,
  ): Answer | Promise<Answer> {
    const { allowed, retryAfterMs, resetMs, unavailable } = decision;
    const canRetry = !allowed && retryAfterMs < Infinity;
    const seconds = wholeSeconds(canRetry ? retryAfterMs : resetMs);
    const partition = limit.sendsKey ? partitionOf(key) : "";
    const fields = fieldsFor(this.#style, policies, about, decision, seconds, partition);
    if (allowed) {
      return { allowed, status: 200, fields, body: undefined, refusal: undefined, policy: name, decision };
    }
    if (canRetry && seconds < MAX_SECONDS && !this.#isShadow) fields.push("Retry-After", `${Math.max(1, seconds)}`);
    const { status } = problems[unavailable ? UNAVAILABLE : limit.problem];
    const body = unavailable ? problemBody(UNAVAILABLE, name) : about.refusal;
    return this.#refused(request, "limited", status, fields, body, name, decision);
  }

  #denied(request: Request): Answer | Promise<Answer> {
    return this.#refused(request, "denied", 403, [], FORBIDDEN, undefined, undefined);
  }

  /** The answer of a refusal: in shadow mode the request proceeds, otherwise the user may respond. */
  #refused(
    request: Request,
    refusal: "limited" | "denied",
    status: number,
    fields: string[],
    body: string,
    policy: string | undefined,
    decision: AsyncDecision | undefined,
  ): Answer | Promise<Answer> {
    if (this.#isShadow) {
      return this.#reported(request, {
        allowed: true,
        status: 200,
        fields,
        body: undefined,
        refusal,
        policy,
        decision,
      });
    }
    fields.push("Content-Type", PROBLEM_JSON);
    const answer: Answer = { allowed: false, status, fields, body, refusal, policy, decision };
    if (!this.#respond) return this.#reported(request, answer);
    const own = this.#respond(request, answer);
    return isThenable(own)
      ? Promise.resolve(own).then((later) => this.#reported(request, withOwnResponse(answer, later)))
      : this.#reported(request, withOwnResponse(answer, own));
  }

  #reported(request: Request, answer: Answer): Answer | Promise<Answer> {
    const reported = this.#onLimited?.(request, answer);
    return isThenable(reported) ? Promise.resolve(reported).then(() => answer) : answer;
  }
}

function checkGuardOptions<Request>(options: GuardOptions<Request>): void {
  checkOptions(options, GUARD_OPTIONS);
  const { limits, headers = "draft-11", skip, client, onLimited, respond, shadow = false } = options;
  if (!Array.isArray(limits) || limits.length === 0) {
    throw new TypeError(`"limits" expected an array of one { limiter, key?, cost? } or more, got ${shown(limits)}`);
  }
  checkHeaderStyle(headers);
  for (const [name, value] of Object.entries({ skip, onLimited, respond, client })) {
    if (value !== undefined && typeof value !== "function") {
      throw new TypeError(`"${name}" expected a function, got ${shown(value)}`);
    }
  }
  if (client !== undefined && typeof client.address !== "function") {
    throw new TypeError("\"client\" expected clientAddress(...), got a function");
  }
  if (typeof shadow !== "boolean") throw new TypeError(`"shadow" expected true or false, got ${shown(shadow)}`);
}

function entryOf(limiter: Limiter, key: Key | undefined, cost: number): Entry {
  return key === undefined ? [limiter.global, cost] : [limiter, key, cost];
}

/**
 * Limiters of a table are charged in one call, which takes limiters of one table:
 * throws RangeError for two.
 */
function checkOneTable<Request>(limits: readonly LimitOptions<Request>[]): void {
  let table: unknown;
  limits.forEach(({ limiter }, i) => {
    const policy = typeof limiter === "function" ? undefined : policyOf(limiter as Limiter);
    if (!policy) return;
    table ??= policy.table;
    if (policy.table !== table) {
      throw new RangeError(
        `"limits[${i}].limiter" expected a limiter of the same Sluice as the others, got ${
          shown(policy.name)
        } of another`,
      );
    }
  });
}
