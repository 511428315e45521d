// A real server of one of four frameworks, limited by its middleware with this
// library's store or with the middleware's own, in each thread.

import type { AddressInfo } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import { Sluice, type SluiceHandle } from "sluice";

export interface StoreServer {
  handle: SluiceHandle;
  limit: number;
  windowMs: number;
  framework: string;
  /** Whether the threads share this library's store. */
  isShared: boolean;
}

const { handle, limit, windowMs, framework, isShared }: StoreServer = workerData;
const home = { sluice: Sluice.attach(handle), prefix: framework };
const host = "127.0.0.1";
const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port;

/** Each loads its framework alone, which takes longest, and resolves to the port. */
const starts: Record<string, () => Promise<number>> = {
  async express() {
    const { default: express } = await import("express");
    const { rateLimit } = await import("express-rate-limit");
    const { SluiceStore } = await import("sluice/stores/express-rate-limit");
    const app = express();
    app.use(
      rateLimit({
        windowMs,
        limit,
        standardHeaders: true,
        legacyHeaders: false,
        ...(isShared && { store: new SluiceStore(home) }),
      }),
    );
    app.get("/", (_, response) => void response.send("hello"));
    return new Promise((resolve) => {
      const server = app.listen(0, host, () => resolve(portOf(server)));
    });
  },

  async fastify() {
    const { default: Fastify } = await import("fastify");
    const { default: rateLimit } = await import("@fastify/rate-limit");
    const { sluiceStore } = await import("sluice/stores/fastify");
    const app = Fastify();
    await app.register(rateLimit, {
      max: limit,
      timeWindow: windowMs,
      enableDraftSpec: true,
      ...(isShared && { store: sluiceStore(home) }),
    });
    app.get("/", () => "hello");
    await app.listen({ port: 0, host });
    return portOf(app.server);
  },

  async hono() {
    const { Hono } = await import("hono");
    const { serve } = await import("@hono/node-server");
    const { rateLimiter } = await import("hono-rate-limiter");
    const { SluiceStore } = await import("sluice/stores/hono");
    const app = new Hono();
    app.use(
      rateLimiter({ windowMs, limit, keyGenerator: () => "alice", ...(isShared && { store: new SluiceStore(home) }) }),
    );
    app.get("/", (context) => context.text("hello"));
    return new Promise((resolve) => serve({ fetch: app.fetch, port: 0, hostname: host }, ({ port }) => resolve(port)));
  },

  async nest() {
    await import("reflect-metadata");
    const { Controller, Get, Module } = await import("@nestjs/common");
    const { APP_GUARD, NestFactory } = await import("@nestjs/core");
    const { ThrottlerGuard, ThrottlerModule } = await import("@nestjs/throttler");
    const { SluiceStorage } = await import("sluice/stores/nest");
    class Greeter {
      hello(): string {
        return "hello";
      }
    }
    Get("/")(Greeter.prototype, "hello", Object.getOwnPropertyDescriptor(Greeter.prototype, "hello")!);
    Controller()(Greeter);
    class App {}
    Module({
      imports: [
        ThrottlerModule.forRoot({
          throttlers: [{ ttl: windowMs, limit }],
          ...(isShared && { storage: new SluiceStorage(home) }),
        }),
      ],
      controllers: [Greeter],
      providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
    })(App);
    const app = await NestFactory.create(App, { logger: false });
    await app.listen(0, host);
    return portOf(app.getHttpServer());
  },
};

parentPort!.postMessage({ port: await starts[framework]() });
