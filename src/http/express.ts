// Limits for Express (peer dependency, only its types): middleware for an
// application, a router or a route.

import type { NextFunction, Request, RequestHandler, Response } from "express";
import type { GuardOptions } from "./guard/guard.js";
import { limitHttp } from "./node.js";

export * from "./index.js";

/**
 * Makes middleware: `app.use(limitExpress({ limits: [...] }))` or
 * `app.get('/', limitExpress({ limits: [...] }), ...)`. What functions of the options
 * throw goes to `next`.
 * @throws {TypeError | RangeError} if an option is wrong or unknown
 */
export function limitExpress(options: GuardOptions<Request>): RequestHandler {
  const guard = limitHttp(options);
  return (request: Request, response: Response, next: NextFunction): void => {
    let proceeds: boolean | Promise<boolean>;
    try {
      proceeds = guard(request, response);
    } catch (error) {
      next(error);
      return;
    }
    if (proceeds instanceof Promise) proceeds.then((later) => later && next(), next);
    else if (proceeds) next();
  };
}
