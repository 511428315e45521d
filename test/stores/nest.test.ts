/** The storage for @nestjs/throttler, alone and with the real guard in real servers. */
import "reflect-metadata";
import { Controller, type DynamicModule, Get, Module } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import {
  Throttle,
  ThrottlerGuard,
  ThrottlerModule,
  type ThrottlerModuleOptions,
  type ThrottlerStorage,
} from "@nestjs/throttler";
import type { AddressInfo } from "node:net";
import { ManualClock, Sluice } from "sluice";
import { SluiceStorage } from "sluice/stores/nest";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { create } from "../tables.js";

afterEach(() => {
  vi.restoreAllMocks();
});

function createStorage(): { sluice: Sluice; clock: ManualClock; storage: ThrottlerStorage } {
  const { sluice, clock } = create();
  return { sluice, clock, storage: new SluiceStorage({ sluice, prefix: "test" }) };
}

describe("a storage", () => {
  it("counts in windows that begin with the first request", async () => {
    const { clock, storage } = createStorage();
    const increment = () => storage.increment("alice", 60_000, 3, 60_000, "default");
    clock.advance(12_345);
    expect(await increment()).toEqual({ totalHits: 1, timeToExpire: 60, isBlocked: false, timeToBlockExpire: 0 });
    clock.advance(30_500);
    expect(await increment()).toEqual({ totalHits: 2, timeToExpire: 30, isBlocked: false, timeToBlockExpire: 0 });
    clock.advance(29_500);
    expect(await increment()).toEqual({ totalHits: 1, timeToExpire: 60, isBlocked: false, timeToBlockExpire: 0 });
  });

  it.each([[10_000, "shorter than the window"], [60_000, "as long as the window"], [600_000, "longer"], [
    86_400_000,
    "much longer",
  ]])(
    "blocks for %i ms, %s, from the first request beyond the limit, and then begins another window",
    async (blockDuration) => {
      const { clock, storage } = createStorage();
      const increment = () => storage.increment("alice", 60_000, 2, blockDuration, "default");
      await increment();
      clock.advance(20_000);
      await increment();
      const blockSeconds = blockDuration / 1000;
      expect(await increment()).toEqual({
        totalHits: 3,
        timeToExpire: blockSeconds,
        isBlocked: true,
        timeToBlockExpire: blockSeconds,
      });
      // Requests while blocked do not make it longer.
      clock.advance(blockDuration / 2);
      expect(await increment()).toMatchObject({ totalHits: 4, isBlocked: true, timeToBlockExpire: blockSeconds / 2 });
      clock.advance(blockDuration / 2 - 0.001);
      expect(await increment()).toMatchObject({ totalHits: 5, isBlocked: true, timeToBlockExpire: 1 });
      clock.advance(0.001);
      expect(await increment()).toEqual({ totalHits: 1, timeToExpire: 60, isBlocked: false, timeToBlockExpire: 0 });
    },
  );

  it("with a block of 0 refuses until the window ends", async () => {
    const { clock, storage } = createStorage();
    const increment = () => storage.increment("alice", 60_000, 1, 0, "default");
    await increment();
    clock.advance(50_000);
    expect(await increment()).toEqual({ totalHits: 2, timeToExpire: 10, isBlocked: true, timeToBlockExpire: 10 });
    clock.advance(10_000);
    expect(await increment()).toMatchObject({ totalHits: 1, isBlocked: false });
  });

  it("with a limit of 0 refuses every request", async () => {
    const { clock, storage } = createStorage();
    for (let i = 0; i < 5; i++) {
      expect(await storage.increment("alice", 1000, 0, 1000, "default")).toMatchObject({ isBlocked: true });
      clock.advance(600);
    }
  });

  it("counts each throttler, each key and each prefix separately", async () => {
    const { sluice, storage } = createStorage();
    const other = new SluiceStorage({ sluice, prefix: "other" });
    for (
      const [each, key, name] of [
        [storage, "ab", "c"],
        [storage, "b", "ca"],
        [storage, "ab", "d"],
        [storage, "a", "c"],
        [other, "ab", "c"],
      ] as const
    ) {
      expect(await each.increment(key, 1000, 5, 1000, name)).toMatchObject({ totalHits: 1 });
    }
    expect(await new SluiceStorage({ sluice, prefix: "test" }).increment("ab", 1000, 5, 1000, "c")).toMatchObject({
      totalHits: 2,
    });
  });

  it("rejects wrong times, and refuses wrong options", async () => {
    const { storage } = createStorage();
    await expect(storage.increment("alice", 0, 1, 1000, "default")).rejects.toThrow(
      "\"ttl\" expected an integer from 1 to 31622400000, got 0",
    );
    await expect(storage.increment("alice", 1000, 1, -1, "default")).rejects.toThrow(
      "\"blockDuration\" expected an integer from 0 to 31622400000, got -1",
    );
    expect(() => new SluiceStorage({ prefix: "a" } as never)).toThrow("\"sluice\" expected a Sluice, got undefined");
    expect(() => new SluiceStorage({ prefix: "a", table: 1 } as never)).toThrow(
      "\"options\" has no option \"table\"; known are sluice, prefix",
    );
  });
});

class Greeter {
  hello(): string {
    return "hello";
  }

  narrow(): string {
    return "hello";
  }
}
const method = (name: keyof Greeter, ...decorators: MethodDecorator[]): void => {
  for (const decorate of decorators) {
    decorate(Greeter.prototype, name, Object.getOwnPropertyDescriptor(Greeter.prototype, name)!);
  }
};
method("hello", Get("/"));
method("narrow", Get("/narrow"), Throttle({ default: { limit: 1, ttl: 5000 } }));
Controller()(Greeter);

class App {}
Module({})(App);

async function serve(throttling: ThrottlerModuleOptions): Promise<string> {
  const root: DynamicModule = {
    module: App,
    imports: [ThrottlerModule.forRoot(throttling)],
    controllers: [Greeter],
    providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
  };
  const app = await NestFactory.create(root, { logger: false });
  onTestFinished(() => app.close());
  await app.listen(0, "127.0.0.1");
  return `http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}`;
}

async function ask(url: string): Promise<unknown[]> {
  const { status, headers } = await fetch(url);
  return [
    status,
    ...["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"].map((name) =>
      headers.get(name)
    ),
  ];
}

describe("@nestjs/throttler", () => {
  it("gives the same answers with this storage and with its own", async () => {
    // Stops the clock of its own storage, as ours is stopped.
    vi.spyOn(Date, "now").mockReturnValue(1);
    const throttlers = [{ ttl: 60_000, limit: 3, blockDuration: 120_000 }];
    const [ours, own] = [await serve({ throttlers, storage: createStorage().storage }), await serve({ throttlers })];
    for (let i = 0; i < 6; i++) {
      const answer = await ask(ours);
      expect(answer[0]).toBe(i < 3 ? 200 : 429);
      expect(answer).toEqual(await ask(own));
    }
  });

  it("separates several throttlers, and routes with limits of their own", async () => {
    const { clock, storage } = createStorage();
    const url = await serve({
      throttlers: [{ ttl: 1000, limit: 2, blockDuration: 0 }, { name: "long", ttl: 60_000, limit: 3 }],
      storage,
    });
    const statuses: unknown[] = [];
    for (const path of ["/", "/", "/", "/narrow", "/narrow"]) statuses.push((await ask(url + path))[0]);
    expect(statuses).toEqual([200, 200, 429, 200, 429]);
    clock.advance(1000);
    expect([(await ask(url))[0], (await ask(url))[0], (await ask(`${url}/narrow`))[0]]).toEqual([200, 429, 429]);
  });
});
