/**
 * The store for hono-rate-limiter, in real servers. Alone it is tested in
 * express-rate-limit.test.ts: both are one class.
 */
import { serve as listen } from "@hono/node-server";
import { Hono } from "hono";
import { rateLimiter, type Store } from "hono-rate-limiter";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import * as expressDoor from "sluice/stores/express-rate-limit";
import { SluiceStore } from "sluice/stores/hono";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { create } from "../tables.js";

afterEach(() => {
  vi.restoreAllMocks();
});

async function serve(app: Hono): Promise<string> {
  const server = listen({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

describe("hono-rate-limiter with the store", () => {
  it("has the same store as express-rate-limit", () => {
    expect(SluiceStore).toBe(expressDoor.SluiceStore);
    const store: Store = new SluiceStore({ sluice: create().sluice, prefix: "api" });
    expect(store.localKeys).toBe(false);
  });

  it("limits, and sends its headers", async () => {
    vi.spyOn(Date, "now").mockReturnValue(0);
    const { sluice, clock } = create();
    const app = new Hono();
    app.use(
      rateLimiter({
        windowMs: 60_000,
        limit: 3,
        keyGenerator: () => "alice",
        store: new SluiceStore({ sluice, prefix: "api" }),
      }),
    );
    app.get("/", (context) => context.text("hello"));
    const url = await serve(app);
    const seen: unknown[] = [];
    for (let i = 0; i < 5; i++) {
      const { status, headers } = await fetch(url);
      seen.push([
        status,
        headers.get("ratelimit-remaining"),
        headers.get("ratelimit-reset"),
        headers.get("retry-after"),
      ]);
      clock.advance(10_000);
    }
    expect(seen).toEqual([[200, "2", "60", null], [200, "1", "50", null], [200, "0", "40", null], [
      429,
      "0",
      "30",
      "30",
    ], [429, "0", "20", "20"]]);
    clock.advance(10_000);
    expect((await fetch(url)).status).toBe(200);
  });

  it("takes back the requests that it skips, and lets a handler ask and reset", async () => {
    const { sluice } = create();
    const app = new Hono<
      {
        Variables: {
          rateLimitStore: { getKey: (key: string) => { totalHits: number }; resetKey: (key: string) => void };
        };
      }
    >();
    app.use(
      rateLimiter({
        windowMs: 60_000,
        limit: 2,
        skipFailedRequests: true,
        keyGenerator: () => "alice",
        store: new SluiceStore({ sluice, prefix: "api" }),
      }),
    );
    app.get("/", (context) => context.text("hello"));
    app.get("/fails", (context) => context.text("sorry", 500));
    app.get("/resets", (context) => {
      const { getKey, resetKey } = context.get("rateLimitStore");
      const { totalHits } = getKey("alice");
      resetKey("alice");
      return context.text(`${totalHits}`);
    });
    const url = await serve(app as unknown as Hono);
    for (let i = 0; i < 10; i++) expect((await fetch(`${url}fails`)).status).toBe(500);
    expect((await fetch(url)).status).toBe(200);
    expect(await (await fetch(`${url}resets`)).text()).toBe("2");
    expect([(await fetch(url)).status, (await fetch(url)).status, (await fetch(url)).status]).toEqual([200, 200, 429]);
  });
});
