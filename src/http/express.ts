// Limits for Express (peer dependency, its types alone): middleware for an
// application, a router or a route.

import type { NextFunction, Request, RequestHandler, Response } from "express";
import type { GuardOptions } from "./guard/guard.js";
import { limitHttp } from "./node.js";

export * from "./index.js";

/** `app.use(limitExpress({ limits: [...] }))`, `app.get('/', limitExpress(...), ...)`. Throws for options that are wrong; what their functions throw goes to `next`. */
export function limitExpress(options: GuardOptions<Request>): RequestHandler {
  const guard = limitHttp(options);
  return (request: Request, response: Response, next: NextFunction): void => {
    let goesOn: boolean | Promise<boolean>;
    try {
      goesOn = guard(request, response);
    } catch (error) {
      next(error);
      return;
    }
    if (goesOn instanceof Promise) goesOn.then((later) => later && next(), next);
    else if (goesOn) next();
  };
}
