// Limits for Hono (peer dependency, only its types) on @hono/node-server: middleware
// for an application, a path or a route.

import type { Context, Env, MiddlewareHandler } from "hono";
import { peerAddress, type Reader } from "./client/reader.js";
import { Guard, type GuardOptions } from "./guard/guard.js";

export * from "./index.js";

/** What @hono/node-server adds to `c.env`, or to `c.env.server`. */
interface Bindings {
  server?: Bindings;
  incoming?: { socket: Parameters<typeof peerAddress>[0] };
}

const reader: Reader<Context> = {
  header: (c, name) => c.req.header(name),
  remoteAddress: (c) => {
    const bindings = c.env as Bindings | undefined;
    const incoming = (bindings?.server ?? bindings)?.incoming;
    return incoming && peerAddress(incoming.socket);
  },
};

/**
 * Makes middleware: `app.use(limitHono({ limits: [...] }))`. What functions of the
 * options throw goes to `app.onError`.
 * @throws {TypeError | RangeError} if an option is wrong or unknown
 */
export function limitHono<E extends Env = Env>(options: GuardOptions<Context<E>>): MiddlewareHandler<E> {
  const guard = new Guard<Context<E>>(options, reader);
  return async (c, next) => {
    const { allowed, status, fields, body } = await guard.decide(c);
    if (!allowed) {
      const headers = new Headers();
      for (let i = 0; i < fields.length; i += 2) headers.set(fields[i], fields[i + 1]);
      return new Response(body ?? null, { status, headers });
    }
    for (let i = 0; i < fields.length; i += 2) c.header(fields[i], fields[i + 1]);
    await next();
    // A Response that the handler made itself lacks the fields set before.
    for (let i = 0; i < fields.length; i += 2) if (!c.res.headers.has(fields[i])) c.header(fields[i], fields[i + 1]);
  };
}
