// Limits for Nest (peer dependency) on platform-express: a guard for an
// application, a controller or a route.

import { type CanActivate, type ExecutionContext, HttpException } from "@nestjs/common";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Answer } from "./guard/answer.js";
import { Guard, type GuardOptions } from "./guard/guard.js";
import { nodeReader } from "./node.js";

export * from "./index.js";

/**
 * Makes a guard: `app.useGlobalGuards(limitNest({ limits: [...] }))` or
 * `@UseGuards(limitNest({ limits: [...] }))`. A refusal is an HttpException, which
 * goes to Nest's exception filters, as does what functions of the options throw. A
 * body that is not JSON becomes the exception's message.
 * @throws {TypeError | RangeError} if an option is wrong or unknown
 */
export function limitNest(options: GuardOptions<IncomingMessage>): CanActivate {
  const guard = new Guard(options, nodeReader);
  return {
    canActivate(context: ExecutionContext): true | Promise<true> {
      const http = context.switchToHttp();
      const answer = guard.decide(http.getRequest<IncomingMessage>());
      const response = http.getResponse<ServerResponse>();
      return answer instanceof Promise ? answer.then((later) => admit(later, response)) : admit(answer, response);
    },
  };
}

function admit({ allowed, status, fields, body = "" }: Answer, response: ServerResponse): true {
  let contentType = "";
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i] === "Content-Type") contentType = fields[i + 1];
    else response.setHeader(fields[i], fields[i + 1]);
  }
  if (allowed) return true;
  if (!/[/+]json\b/.test(contentType)) throw new HttpException(body, status);
  // In an array: a string other than application/json is replaced by Nest's filter, with a warning.
  response.setHeader("Content-Type", [contentType]);
  throw new HttpException(JSON.parse(body) as object, status);
}
