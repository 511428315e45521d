// Limits for Fastify (peer dependency, only its types): a hook for an instance, a
// plugin's scope or a route.

import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import { peerAddress, type Reader } from "./client/reader.js";
import type { Answer } from "./guard/answer.js";
import { Guard, type GuardOptions } from "./guard/guard.js";

export * from "./index.js";

const reader: Reader<FastifyRequest> = {
  header: ({ raw }, name) => raw.headers[name],
  remoteAddress: ({ raw }) => peerAddress(raw.socket),
};

/**
 * Makes a hook: `fastify.addHook('onRequest', limitFastify({ limits: [...] }))`, or
 * `onRequest` of a route; `preHandler` if the keys need an authenticated user. What
 * functions of the options throw goes to Fastify's error handler.
 * @throws {TypeError | RangeError} if an option is wrong or unknown
 */
export function limitFastify(
  options: GuardOptions<FastifyRequest>,
): (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void {
  const guard = new Guard(options, reader);
  return (request, reply, done) => {
    let answer: Answer | Promise<Answer>;
    try {
      answer = guard.decide(request);
    } catch (error) {
      done(error as Error);
      return;
    }
    if (answer instanceof Promise) answer.then((later) => applyTo(reply, later, done), done);
    else applyTo(reply, answer, done);
  };
}

function applyTo(reply: FastifyReply, { allowed, status, fields, body }: Answer, done: HookHandlerDoneFunction): void {
  for (let i = 0; i < fields.length; i += 2) reply.header(fields[i], fields[i + 1]);
  if (allowed) done();
  else reply.code(status).send(body);
}
