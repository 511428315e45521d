// The answer of a guard to a request, and how a response of the user's own
// replaces that of a refusal.

import { checkInteger, shown, unexpected } from "../../engine/errors.js";
import { checkOptions } from "../../engine/options.js";
import type { AsyncDecision } from "./async-limiter.js";

/** The answer of a guard to a request. */
export interface Answer {
  /** Whether the request may proceed. In shadow mode it always may. */
  readonly allowed: boolean;
  /**
   * 200 if the request may proceed. Otherwise the status of the response: 429; 403 for
   * the deny list; 503 for 'temporary-reduced-capacity' or if no decision was possible.
   */
  readonly status: number;
  /** Header fields for the response, whether allowed or not: a name, its value, the next name, ... */
  readonly fields: readonly string[];
  /** The body of a refusal. */
  readonly body: string | undefined;
  /** Why the request was refused, or in shadow mode would have been; undefined if it was not. */
  readonly refusal: "limited" | "denied" | undefined;
  /** The limiter that refused, or else the one with the fewest tokens left; undefined if none was asked. */
  readonly policy: string | undefined;
  /** The decision of that limiter; undefined if none was asked. */
  readonly decision: AsyncDecision | undefined;
}

/**
 * A response of the user's own to a refusal. It keeps Retry-After and the limits'
 * fields; what it leaves out stays as it was.
 */
export interface OwnResponse {
  /** 200 to 599. */
  status?: number;
  /** The Content-Type of the body. */
  contentType?: string;
  body?: string;
}

/** The answer to a request that no limit counts. */
export const ADMITTED: Answer = Object.freeze({
  allowed: true,
  status: 200,
  fields: Object.freeze([]),
  body: undefined,
  refusal: undefined,
  policy: undefined,
  decision: undefined,
});

/**
 * A refusal with a response of the user's own. Its last field is the Content-Type.
 * Throws for a response that no server could send.
 */
export function withOwnResponse(answer: Answer, own: OwnResponse): Answer {
  checkOptions(own, ["status", "contentType", "body"], "respond()");
  const { status = answer.status, body = answer.body, contentType } = own;
  checkInteger("respond().status", status, 200, 599);
  if (typeof body !== "string") throw new TypeError(`"respond().body" expected a string, got ${shown(body)}`);
  if (contentType !== undefined && (typeof contentType !== "string" || !/^[\t\x20-\x7e]+$/.test(contentType))) {
    throw unexpected("respond().contentType", "a media type", contentType, "string");
  }
  const fields = contentType === undefined ? answer.fields : [...answer.fields.slice(0, -1), contentType];
  return { ...answer, status, body, fields };
}
