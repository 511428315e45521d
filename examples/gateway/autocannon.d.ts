/** The part of autocannon that the demo and the tests use. The package has no types. */
declare module "autocannon" {
  import type { EventEmitter } from "node:events";
  import type { IncomingHttpHeaders } from "node:http";

  namespace autocannon {
    interface Request {
      headers?: Record<string, string>;
    }

    interface Options<Context> {
      url: string;
      connections: number;
      /** Seconds. */
      duration?: number;
      /** Requests; instead of a duration. */
      amount?: number;
      /** Requests per second, over all connections. */
      overallRate?: number;
      /** How often it samples, ms; a run that is stopped ends with the next sample. */
      sampleInt?: number;
      headers?: Record<string, string>;
      requests?: {
        setupRequest?(request: Request, context: Context): Request;
        /** Header names are as the server wrote them. */
        onResponse?(status: number, body: string, context: Context, headers: IncomingHttpHeaders): void;
      }[];
    }

    interface Result {
      errors: number;
    }

    interface Run extends EventEmitter, PromiseLike<Result> {
      on(event: "response", listener: (client: unknown, status: number) => void): this;
      stop(): void;
    }
  }

  function autocannon<Context = unknown>(options: autocannon.Options<Context>): autocannon.Run;
  export = autocannon;
}
