// Limits for Nest (peer dependency) on platform-express: a guard for an
// application, a controller or a route.

import { type CanActivate, type ExecutionContext, HttpException } from "@nestjs/common";
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Answer, Guard, type GuardOptions } from "./guard/guard.js";
import { nodeReader } from "./node.js";

export * from "./index.js";

/**
 * `app.useGlobalGuards(limitNest({ limits: [...] }))`, `@UseGuards(limitNest(...))`.
 * Throws for options that are wrong. A refusal is an HttpException, as Nest's
 * exception filters expect; what functions of the options throw goes there too.
 * A body that is not JSON becomes the exception's message.
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
  // As a list of one: what is a string and not application/json, Nest's filter warns of and replaces.
  response.setHeader("Content-Type", [contentType]);
  throw new HttpException(JSON.parse(body) as object, status);
}
