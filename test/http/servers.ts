// A server of every framework that has an adapter, limited by the guard of the
// options given. `GET /` answers "ok"; an error answers 500, with its message where
// the framework leaves that to the application.

import { once } from "node:events";
import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { GuardOptions } from "sluice/http";

/** Options for requests of every framework: what they read of a request, they read by the guard's reader. */
export type AnyOptions = GuardOptions<any>;

export interface Server {
  /** Its TCP port; NaN on a Unix socket. */
  port: number;
  close(): Promise<void>;
}

/**
 * Starts a server with `options` for '/', and `route` for '/route' in place of it; on a Unix socket if
 * there is a `path`.
 */
type Start = (how: { options: AnyOptions; route?: AnyOptions; path?: string }) => Promise<Server>;

const portOf = (server: { address(): AddressInfo | string | null }): number => {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : NaN;
};

async function listen(server: HttpServer, path?: string): Promise<Server> {
  server.listen(path ?? { port: 0, host: "::" });
  await once(server, "listening");
  return {
    port: portOf(server),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export const servers: Record<string, Start> = {
  async "node:http"({ options, route, path }) {
    const { limitHttp } = await import("sluice/http/node");
    const guards: Record<string, ReturnType<typeof limitHttp>> = {
      "/": limitHttp(options),
      "/route": limitHttp(route ?? options),
    };
    return listen(
      createServer(async (request, response) => {
        try {
          if (await guards[request.url!](request, response)) response.end("ok");
        } catch (error) {
          response.writeHead(500).end((error as Error).message);
        }
      }),
      path,
    );
  },

  async express({ options, route, path }) {
    const [{ default: express }, { limitExpress }] = await Promise.all([
      import("express"),
      import("sluice/http/express"),
    ]);
    const app = express();
    app.get("/route", limitExpress(route ?? options), (_, response) => {
      response.send("ok");
    });
    app.get("/", limitExpress(options), (_, response) => {
      response.send("ok");
    });
    const onError: import("express").ErrorRequestHandler = (error, _, response, __) => {
      response.status(500).send(error.message);
    };
    app.use(onError);
    return listen(createServer(app), path);
  },

  async fastify({ options, route, path }) {
    const [{ default: Fastify }, { limitFastify }] = await Promise.all([
      import("fastify"),
      import("sluice/http/fastify"),
    ]);
    const app = Fastify({ forceCloseConnections: true });
    app.setErrorHandler((error: Error, _, reply) => reply.code(500).send(error.message));
    app.get("/route", { onRequest: limitFastify(route ?? options) }, async () => "ok");
    await app.register(async (scope) => {
      scope.addHook("preHandler", limitFastify(options));
      scope.get("/", async () => "ok");
    });
    await app.listen(path ? { path } : { port: 0, host: "::" });
    return { port: portOf(app.server), close: async () => void (await app.close()) };
  },

  async hono({ options, route, path }) {
    const [{ Hono }, { createAdaptorServer }, { limitHono }] = await Promise.all([
      import("hono"),
      import("@hono/node-server"),
      import("sluice/http/hono"),
    ]);
    const app = new Hono();
    app.get("/route", limitHono(route ?? options), () => new Response("ok"));
    app.get("/", limitHono(options), (c) => c.text("ok"));
    app.onError((error, c) => c.text(error.message, 500));
    return listen(createAdaptorServer(app) as HttpServer, path);
  },

  async nest({ options, route, path }) {
    await import("reflect-metadata");
    const [{ Controller, Get, HttpCode, Module, UseGuards }, { NestFactory }, { limitNest }] = await Promise.all([
      import("@nestjs/common"),
      import("@nestjs/core"),
      import("sluice/http/nest"),
    ]);
    class Answers {
      all(): string {
        return "ok";
      }
      route(): string {
        return "ok";
      }
    }
    for (const [name, at, guard] of [["all", "/", options], ["route", "/route", route ?? options]] as const) {
      const descriptor = Object.getOwnPropertyDescriptor(Answers.prototype, name)!;
      for (const decorate of [Get(at), HttpCode(200), UseGuards(limitNest(guard))]) {
        decorate(Answers.prototype, name, descriptor);
      }
    }
    Controller()(Answers);
    class App {}
    Module({ controllers: [Answers] })(App);
    const app = await NestFactory.create(App, { logger: false, forceCloseConnections: true });
    await (path ? app.listen(path) : app.listen(0, "::"));
    return { port: portOf(app.getHttpServer()), close: () => app.close() };
  },
};
