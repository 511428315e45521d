// A server of every framework that has an adapter, limited by the guard of the
// options given. `GET /` answers "ok"; an error answers 500, with its message where
// the framework leaves that to the application.

import { once } from "node:events";
import { createServer } from "node:http";

async function listen(server, path) {
  server.listen(path ?? { port: 0, host: "::" });
  await once(server, "listening");
  return {
    port: path ? undefined : server.address().port,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}

/** By name: starts a server with `options` for '/', and `route` for '/route' in place of it; on a Unix socket if there is a `path`. */
export const servers = {
  async "node:http"({ options, route, path }) {
    const { limitHttp } = await import("sluice/http/node");
    const guards = { "/": limitHttp(options), "/route": limitHttp(route ?? options) };
    return listen(
      createServer(async (request, response) => {
        try {
          if (await guards[request.url](request, response)) response.end("ok");
        } catch (error) {
          response.writeHead(500).end(error.message);
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
    app.use((error, _, response, __) => {
      response.status(500).send(error.message);
    });
    return listen(createServer(app), path);
  },

  async fastify({ options, route, path }) {
    const [{ default: Fastify }, { limitFastify }] = await Promise.all([
      import("fastify"),
      import("sluice/http/fastify"),
    ]);
    const app = Fastify({ forceCloseConnections: true });
    app.setErrorHandler((error, _, reply) => reply.code(500).send(error.message));
    app.get("/route", { onRequest: limitFastify(route ?? options) }, async () => "ok");
    await app.register(async (scope) => {
      scope.addHook("preHandler", limitFastify(options));
      scope.get("/", async () => "ok");
    });
    await app.listen(path ? { path } : { port: 0, host: "::" });
    return { port: path ? undefined : app.server.address().port, close: () => app.close() };
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
    return listen(createAdaptorServer(app), path);
  },

  async nest({ options, route, path }) {
    await import("reflect-metadata");
    const [{ Controller, Get, HttpCode, Module, UseGuards }, { NestFactory }, { limitNest }] = await Promise.all([
      import("@nestjs/common"),
      import("@nestjs/core"),
      import("sluice/http/nest"),
    ]);
    class Answers {
      all() {
        return "ok";
      }
      route() {
        return "ok";
      }
    }
    for (const [name, at, guard] of [["all", "/", options], ["route", "/route", route ?? options]]) {
      const descriptor = Object.getOwnPropertyDescriptor(Answers.prototype, name);
      for (const decorate of [Get(at), HttpCode(200), UseGuards(limitNest(guard))]) {
        decorate(Answers.prototype, name, descriptor);
      }
    }
    Controller()(Answers);
    class App {}
    Module({ controllers: [Answers] })(App);
    const app = await NestFactory.create(App, { logger: false, forceCloseConnections: true });
    await app.listen(...(path ? [path] : [0, "::"]));
    return { port: path ? undefined : app.getHttpServer().address().port, close: () => app.close() };
  },
};
