// Limits for node:http servers, and for frameworks that hand out their requests.

import type { IncomingMessage, ServerResponse } from "node:http";
import { peerAddress, type Reader } from "./client/reader.js";
import { type Answer, Guard, type GuardOptions } from "./guard/guard.js";

export { forwardAuth, type ForwardAuthOptions } from "./forward-auth.js";
export * from "./index.js";

/** Reads requests of node:http. */
export const nodeReader: Reader<IncomingMessage> = {
  header: (request, name) => request.headers[name],
  remoteAddress: (request) => peerAddress(request.socket),
};

export interface NodeGuard<Request = IncomingMessage> {
  /**
   * True if the request may go ahead, with the limits' header fields set on
   * `response`; false if it was refused and answered. A promise of that if one
   * of the guard's functions gave a promise; `await` takes either.
   */
  (request: Request, response: ServerResponse): boolean | Promise<boolean>;
}

/**
 * Limits requests of a node:http server: `if (!(await guard(request, response)))
 * return`. Throws for options that are wrong; the guard throws, or rejects with,
 * what a function of the options throws.
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

/** Sets an answer's fields on a response and, if it refuses, answers: true if the request may go ahead. */
export function applyAnswer({ allowed, status, fields, body }: Answer, response: ServerResponse): boolean {
  for (let i = 0; i < fields.length; i += 2) response.setHeader(fields[i], fields[i + 1]);
  if (allowed) return true;
  response.statusCode = status;
  response.end(body);
  return false;
}
