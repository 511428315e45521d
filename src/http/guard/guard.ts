// The heart of every adapter: from a request to an answer, whatever the framework.
//
// A guard asks its limits all or nothing, and takes nothing before every
// function of the user has told what it was asked. It answers at once if they
// and the limiters do, and in a promise if one of them promises.

import { checkInteger, checkOptions, shown, unexpected } from "../../engine/errors.js";
import { all, type GroupDecision } from "../../engine/limiter/all.js";
import { type Limiter, policyOf } from "../../engine/limiter/limiter.js";
import type { Key } from "../../engine/table/key.js";
import type { ClientAddress } from "../client/client-address.js";
import type { Reader } from "../client/reader.js";
import { type AnyPart, areOfTable, type AsyncDecision, chargeInTurn } from "./async-limiter.js";
import {
  checkHeaderStyle,
  type Described,
  type HeaderStyle,
  MOST_SECONDS,
  partitionOf,
  wholeSeconds,
  type Write,
  writers,
} from "./fields.js";
import { type Ask, isThenable, Limit, type LimitOptions } from "./limit.js";
import { List, type ListOptions } from "./lists.js";
import { FORBIDDEN, PROBLEM_JSON, problemBody, problems, type ProblemType } from "./problem.js";

/** What becomes of a request. */
export interface Answer {
  /** Whether it may go ahead. In shadow mode it always may. */
  readonly allowed: boolean;
  /** The status to answer with if it may not: 429, 403 if it is on the deny list, 503 for 'temporary-reduced-capacity' and if nobody could decide. 200 if it may. */
  readonly status: number;
  /** Header fields for the response, allowed or not: a name, its value, the next name, ... */
  readonly fields: readonly string[];
  /** The body to answer with if it may not. */
  readonly body: string | undefined;
  /** Why it was refused, or would have been but for shadow mode; undefined if it was not. */
  readonly refusal: "limited" | "denied" | undefined;
  /** The limiter that refused, or has the fewest tokens left; undefined if none was asked. */
  readonly policy: string | undefined;
  /** The decision of that limiter; undefined if none was asked. */
  readonly decision: AsyncDecision | undefined;
}

/** A response of the user's own to a refusal; what it leaves out is as it would have been. Retry-After and the limits' fields stay. */
export interface OwnResponse {
  /** 200 to 599. */
  status?: number;
  contentType?: string;
  body?: string;
}

export interface GuardOptions<Request> {
  /** What a request is charged to: all of them, or none if one refuses. */
  limits: readonly LimitOptions<Request>[];
  /** Header fields that tell clients their limits: 'draft-11' by default. */
  headers?: HeaderStyle;
  /** Requests that no limit counts. Asked first. */
  skip?: Ask<Request, boolean>;
  /** How `allow` and `deny` find a request's address: `clientAddress(...)`. */
  client?: ClientAddress;
  /** Who is not limited, and not counted. */
  allow?: ListOptions;
  /** Who is answered 403, and not counted; it wins over `allow`. */
  deny?: ListOptions;
  /** Called for every refusal, by a limit or by `deny`, and in shadow mode for what would have been one. If it returns a promise, the answer waits for it. */
  onLimited?: (request: Request, answer: Answer) => unknown;
  /** Makes another response of a refusal, or promises one. */
  respond?: (request: Request, answer: Answer) => OwnResponse | PromiseLike<OwnResponse>;
  /** Decides, counts, sends headers and calls `onLimited`, but refuses nobody; false by default. */
  shadow?: boolean;
}

/** What a refusal is called when nobody could decide. */
const UNAVAILABLE: ProblemType = "temporary-reduced-capacity";

const ADMITTED: Answer = Object.freeze({
  allowed: true,
  status: 200,
  fields: Object.freeze([]),
  body: undefined,
  refusal: undefined,
  policy: undefined,
  decision: undefined,
});

export class Guard<Request> {
  readonly #reader: Reader<Request>;
  readonly #limits: readonly Limit<Request>[];
  readonly #write: Write;
  readonly #skip: GuardOptions<Request>["skip"];
  readonly #allow: List | undefined;
  readonly #deny: List | undefined;
  readonly #onLimited: GuardOptions<Request>["onLimited"];
  readonly #respond: GuardOptions<Request>["respond"];
  readonly #isShadow: boolean;
  #latest: readonly Described[] = [];
  #latestPolicies = "";

  /** Throws RangeError or TypeError for options that are wrong. `reader` tells how to read a request: `plainReader`, or a framework's. */
  constructor(options: GuardOptions<Request>, reader: Reader<Request>) {
    checkOptions(options);
    const { limits, headers = "draft-11", skip, client, allow, deny, onLimited, respond, shadow = false } = options;
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
    this.#reader = reader;
    this.#limits = limits.map((limit: LimitOptions<Request>, i) => new Limit(limit, i, headers));
    checkOneTable(limits);
    this.#write = writers[headers];
    this.#skip = skip;
    this.#allow = allow && new List("allow", allow, client);
    this.#deny = deny && new List("deny", deny, client);
    this.#onLimited = onLimited;
    this.#respond = respond;
    this.#isShadow = shadow;
  }

  /**
   * What becomes of a request; a promise if one of the functions or limiters gave
   * one. What they throw, it throws (or rejects with), and nothing was taken.
   */
  decide(request: Request): Answer | Promise<Answer> {
    const skips = this.#skip?.(request, this.#reader);
    if (isThenable(skips)) {
      return Promise.resolve(skips).then((isSkipped) => (isSkipped ? ADMITTED : this.#gather(request)));
    }
    return skips ? ADMITTED : this.#gather(request);
  }

  #gather(request: Request): Answer | Promise<Answer> {
    const reader = this.#reader;
    if (this.#deny?.hasAddress(request, reader)) return this.#denied(request);
    if (this.#allow?.hasAddress(request, reader)) return ADMITTED;
    const limits = this.#limits;
    const parts: (AnyPart | null)[] = [];
    for (let i = 0; i < limits.length; i++) {
      const part = limits[i].part(request, reader);
      if (part instanceof Promise) {
        // Every function that is still to be asked is asked in a promise: one that throws leaves no other's rejection unheard.
        const rest = limits.slice(i + 1).map(async (limit) => limit.part(request, reader));
        return Promise.all([...parts, part, ...rest]).then((told) => this.#charge(request, told));
      }
      parts.push(part);
    }
    return this.#charge(request, parts);
  }

  #charge(request: Request, parts: readonly (AnyPart | null)[]): Answer | Promise<Answer> {
    if (this.#deny && parts.some((part) => part && this.#deny!.hasKey(part[1]))) return this.#denied(request);
    if (this.#allow && parts.some((part) => part && this.#allow!.hasKey(part[1]))) return ADMITTED;
    const asked = parts.includes(null) ? parts.filter((part) => part !== null) : (parts as readonly AnyPart[]);
    if (asked.length === 0) return ADMITTED;
    const limits = asked.length === parts.length ? this.#limits : this.#limits.filter((_, i) => parts[i] !== null);
    // Described before anything is taken, for a name that cannot be told throws.
    const first = limits[0].describe(asked[0][0]);
    if (asked.length === 1) {
      const [limiter, key, cost] = asked[0];
      const decision = limiter.consume(key, cost);
      if (isThenable(decision)) return this.#answerLater(request, limits[0], key, first, decision);
      return this.#answer(request, limits[0], key, first, first.policyItem, decision);
    }
    const described = asked.map(([limiter], i) => limits[i].describe(limiter));
    const policies = this.#policiesOf(described);
    if (!areOfTable(asked)) return this.#chargeInTurn(request, limits, asked, described, policies);
    const decision: GroupDecision = all(asked);
    const { partIndex } = decision;
    return this.#answer(request, limits[partIndex], asked[partIndex][1], described[partIndex], policies, decision);
  }

  async #answerLater(
    request: Request,
    limit: Limit<Request>,
    key: Key | undefined,
    described: Described,
    deciding: PromiseLike<AsyncDecision>,
  ): Promise<Answer> {
    return this.#answer(request, limit, key, described, described.policyItem, await deciding);
  }

  async #chargeInTurn(
    request: Request,
    limits: readonly Limit<Request>[],
    asked: readonly AnyPart[],
    described: readonly Described[],
    policies: string,
  ): Promise<Answer> {
    const decision = await chargeInTurn(asked);
    const { partIndex } = decision;
    return this.#answer(request, limits[partIndex], asked[partIndex][1], described[partIndex], policies, decision);
  }

  #answer(
    request: Request,
    limit: Limit<Request>,
    key: Key | undefined,
    described: Described,
    policies: string,
    decision: AsyncDecision,
  ): Answer | Promise<Answer> {
    const { allowed } = decision;
    const retries = !allowed && decision.retryAfterMs < Infinity;
    const seconds = wholeSeconds(retries ? decision.retryAfterMs : decision.resetMs);
    const fields = this.#write(policies, described, decision, seconds, limit.tellsKey ? partitionOf(key) : "");
    if (allowed) {
      return { allowed, status: 200, fields, body: undefined, refusal: undefined, policy: described.name, decision };
    }
    if (retries && seconds < MOST_SECONDS && !this.#isShadow) fields.push("Retry-After", `${Math.max(1, seconds)}`);
    if (decision.unavailable) {
      return this.#refused(
        request,
        "limited",
        problems[UNAVAILABLE].status,
        problemBody(UNAVAILABLE, described.name),
        fields,
        described.name,
        decision,
      );
    }
    return this.#refused(
      request,
      "limited",
      problems[limit.problem].status,
      described.refusal,
      fields,
      described.name,
      decision,
    );
  }

  /** The value of RateLimit-Policy for several limiters, mostly those of the request before. */
  #policiesOf(described: readonly Described[]): string {
    const { length } = described;
    let isLatest = length === this.#latest.length;
    for (let i = 0; isLatest && i < length; i++) isLatest = described[i] === this.#latest[i];
    if (!isLatest) {
      this.#latest = described;
      this.#latestPolicies = [...new Set(described.map(({ policyItem }) => policyItem))].join(", ");
    }
    return this.#latestPolicies;
  }

  #denied(request: Request): Answer | Promise<Answer> {
    return this.#refused(request, "denied", 403, FORBIDDEN, [], undefined, undefined);
  }

  #refused(
    request: Request,
    refusal: "limited" | "denied",
    status: number,
    body: string,
    fields: string[],
    policy: string | undefined,
    decision: AsyncDecision | undefined,
  ): Answer | Promise<Answer> {
    let answer: Answer;
    if (this.#isShadow) {
      answer = { allowed: true, status: 200, fields, body: undefined, refusal, policy, decision };
    } else {
      fields.push("Content-Type", PROBLEM_JSON);
      answer = { allowed: false, status, fields, body, refusal, policy, decision };
      if (this.#respond) {
        const own = this.#respond(request, answer);
        if (isThenable(own)) return Promise.resolve(own).then((later) => this.#report(request, withOwn(answer, later)));
        answer = withOwn(answer, own);
      }
    }
    return this.#report(request, answer);
  }

  #report(request: Request, answer: Answer): Answer | Promise<Answer> {
    const reported = this.#onLimited?.(request, answer);
    return isThenable(reported) ? Promise.resolve(reported).then(() => answer) : answer;
  }
}

function withOwn(answer: Answer, own: OwnResponse): Answer {
  checkOptions(own, "respond()");
  const { status = answer.status, body = answer.body, contentType } = own;
  checkInteger("respond().status", status, 200, 599);
  if (typeof body !== "string") throw new TypeError(`"respond().body" expected a string, got ${shown(body)}`);
  if (contentType !== undefined && (typeof contentType !== "string" || !/^[\t\x20-\x7e]+$/.test(contentType))) {
    throw unexpected("respond().contentType", "a media type", contentType, "string");
  }
  const fields = contentType === undefined ? answer.fields : [...answer.fields.slice(0, -1), contentType];
  return { ...answer, status, body, fields };
}

/** All or nothing at once is within a table: throws RangeError for limiters of two. */
function checkOneTable<Request>(limits: readonly LimitOptions<Request>[]): void {
  let table: unknown;
  limits.forEach(({ limiter }, i) => {
    if (typeof limiter === "function") return;
    const policy = policyOf(limiter as Limiter);
    if (!policy) return;
    table ??= policy.table;
    if (policy.table !== table) {
      throw new RangeError(
        `"limits[${i}].limiter" expected a limiter of the same Sluice as the others, got ${
          JSON.stringify(policy.name)
        } of another`,
      );
    }
  });
}
