// Limits for node:http servers, and for frameworks that pass on the requests of node:http.

import type { IncomingMessage, ServerResponse } from "node:http";
import { peerAddress, type Reader } from "./client/reader.js";
import type { Answer } from "./guard/answer.js";
import { Guard, type GuardOptions } from "./guard/guard.js";

export { forwardAuth, type ForwardAuthOptions } from "./forward-auth.js";
export * from "./index.js";

/** Reads an IncomingMessage. */
export const nodeReader: Reader<IncomingMessage> = {
  header: (request, name) => request.headers[name],
  remoteAddress: (request) => peerAddress(request.socket),
};

/** Limits the requests of a node:http server. */
export interface NodeGuard<Request = IncomingMessage> {
  /**
   * True if the request may proceed, with the limits' header fields set on
   * `response`; false if it was refused and answered. A promise of that if a function
   * of the options or a limiter promised its answer; `await` takes either. Throws, or
   * rejects with, what a function of the options throws.
   */
  (request: Request, response: ServerResponse): boolean | Promise<boolean>;
}

/**
 * Makes the guard of a node:http server: `if (!(await guard(request, response))) return`.
 * @throws {TypeError | RangeError} if an option is wrong or unknown
 */
export function limitHttp<Request extends IncomingMessage = IncomingMessage>(
  options: GuardOptions<Request>,
): NodeGuard<Request> {
  const guard = new Guard(options, nodeReader);
  return (request, response) => {
    const answer = guard.decide(request);
    return answer instanceof Promise
      ? answer.then((later) => applyAnswer(later, response))
      : applyAnswer(answer, response);
  };
}

/** Sets an answer's fields on a response, and sends a refusal: true if the request may proceed. */
function applyAnswer({ allowed, status, fields, body }: Answer, response: ServerResponse): boolean {
  for (let i = 0; i < fields.length; i += 2) response.setHeader(fields[i], fields[i + 1]);
  if (allowed) return true;
  response.statusCode = status;
  response.end(body);
  return false;
}
