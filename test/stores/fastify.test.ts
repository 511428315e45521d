/** The store for @fastify/rate-limit, compared with the plugin's own in-memory store, in real servers. */
import rateLimit, { type RateLimitPluginOptions } from "@fastify/rate-limit";
import Fastify, { type FastifyInstance } from "fastify";
import { Sluice } from "sluice";
import { type FastifyStore, type FastifyStoreOptions, sluiceStore } from "sluice/stores/fastify";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { create } from "../tables.js";

afterEach(() => {
  vi.restoreAllMocks();
});

function storeOf(sluice: Sluice, options: FastifyStoreOptions = {}, prefix = "test"): FastifyStore {
  return new (sluiceStore({ sluice, prefix }))(options);
}

/** What the store calls back with: it does so before it returns. */
function answered(
  act: (callback: (error: Error | null, result?: { current: number; ttl: number }) => void) => void,
): unknown {
  let answer: unknown = "nothing";
  act((error, result) => (answer = error ? error.message : [result!.current, result!.ttl]));
  return answer;
}
const incr = (store: FastifyStore, key: string, timeWindow = 1000, max = 2): unknown =>
  answered((callback) => store.incr(key, callback, timeWindow, max));
const read = (store: FastifyStore, key: string, timeWindow = 1000): unknown =>
  answered((callback) => store.read(key, callback, timeWindow));

describe("a store", () => {
  it("counts in windows that begin with the first request, also beyond the maximum", () => {
    const { sluice, clock } = create();
    const store = storeOf(sluice);
    clock.advance(123.456);
    expect(incr(store, "alice")).toEqual([1, 1000]);
    clock.advance(400);
    expect([incr(store, "alice"), incr(store, "alice"), incr(store, "bob")]).toEqual([[2, 600], [3, 600], [1, 1000]]);
    clock.advance(600);
    expect([incr(store, "alice"), incr(store, "bob")]).toEqual([[1, 1000], [2, 400]]);
  });

  it("reads without counting", () => {
    const { sluice, clock } = create();
    const store = storeOf(sluice);
    expect(read(store, "alice")).toEqual([0, 0]);
    incr(store, "alice");
    incr(store, "alice");
    clock.advance(300);
    expect([read(store, "alice"), read(store, "alice")]).toEqual([[2, 700], [2, 700]]);
    clock.advance(700);
    expect(read(store, "alice")).toEqual([0, 0]);
  });

  it("with continueExceeding begins the window anew at each request beyond the maximum, and keeps counting", () => {
    const { sluice, clock } = create();
    const store = storeOf(sluice, { continueExceeding: true, exponentialBackoff: true });
    incr(store, "alice");
    incr(store, "alice");
    for (let count = 3; count < 30; count++) {
      clock.advance(999);
      expect([incr(store, "alice"), read(store, "alice")]).toEqual([[count, 1000], [count, 1000]]);
    }
    clock.advance(1000);
    expect(incr(store, "alice")).toEqual([1, 1000]);
  });

  it("with exponentialBackoff doubles the window at each request beyond the maximum, up to 64 times", () => {
    const { sluice, clock } = create();
    const store = storeOf(sluice, { exponentialBackoff: true });
    incr(store, "alice");
    incr(store, "alice");
    const ttls = [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 64_000, 64_000];
    for (const [i, ttl] of ttls.entries()) {
      expect([incr(store, "alice"), read(store, "alice")]).toEqual([[3 + i, ttl], [3 + i, ttl]]);
      clock.advance(ttl - 1);
      expect(read(store, "alice")).toEqual([3 + i, 1]);
    }
    clock.advance(1);
    expect(incr(store, "alice")).toEqual([1, 1000]);
  });

  it("counts each route, and each limiter without a route, separately, and alike in every thread", () => {
    const { sluice } = create();
    const [here, there] = [storeOf(sluice), storeOf(sluice)];
    const children = (store: FastifyStore): FastifyStore[] => [
      store,
      store.child({ routeInfo: { method: "GET", url: "/a" } }),
      store.child({ routeInfo: { method: "POST", url: "/a" } }),
      store.child({ routeInfo: { method: ["GET", "HEAD"], url: "/b" } }),
      store.child({ routeInfo: {} }),
      store.child({}),
    ];
    const others = children(there);
    for (const [i, store] of children(here).entries()) {
      expect(incr(store, "alice")).toEqual([1, 1000]);
      expect(incr(others[i], "alice")).toEqual([2, 1000]);
    }
    expect(incr(storeOf(sluice, {}, "other"), "alice")).toEqual([1, 1000]);
  });

  it("calls back with the error alone if something is wrong", () => {
    const { sluice } = create();
    const store = storeOf(sluice);
    expect(incr(store, "alice", 0)).toBe("\"timeWindow\" expected an integer from 1 to 31622400000, got 0");
    expect(read(store, "alice", NaN)).toBe("\"timeWindow\" expected an integer from 1 to 31622400000, got NaN");
    expect(incr(store, "alice")).toEqual([1, 1000]);
    sluice.close();
    expect(incr(store, "alice", 5000)).toContain("closed");
  });

  it("passes on an error of the callback, and does not call it again", () => {
    const { sluice } = create();
    let calls = 0;
    expect(() =>
      storeOf(sluice).incr(
        "alice",
        () => {
          calls++;
          throw new Error("mine");
        },
        1000,
        2,
      )
    ).toThrow("mine");
    expect(calls).toBe(1);
  });

  it("refuses wrong options when the constructor is made", () => {
    expect(() => sluiceStore({ sluice: undefined as never, prefix: "a" })).toThrow(
      "\"sluice\" expected a Sluice, got undefined",
    );
    expect(() => sluiceStore({ sluice: create().sluice, prefix: "a", prefixes: 1 } as never)).toThrow(
      "\"options\" has no option \"prefixes\"; did you mean \"prefix\"?",
    );
  });
});

describe("@fastify/rate-limit", () => {
  async function serve(
    options: RateLimitPluginOptions,
    addRoutes = (app: FastifyInstance): void => void app.get("/", () => "hello"),
  ): Promise<string> {
    const app = Fastify();
    onTestFinished(() => app.close());
    await app.register(rateLimit, options);
    addRoutes(app);
    return app.listen({ port: 0, host: "127.0.0.1" });
  }

  async function ask(url: string): Promise<(string | number | null)[]> {
    const { status, headers } = await fetch(url);
    return [status, headers.get("x-ratelimit-remaining"), headers.get("x-ratelimit-reset"), headers.get("retry-after")];
  }

  const plain = { max: 3, timeWindow: 60_000 };
  it.each<[string, RateLimitPluginOptions]>([
    ["a maximum", plain],
    ["a window in words", { max: 2, timeWindow: "1 minute" }],
    ["a ban", { ...plain, ban: 1 }],
    ["continueExceeding", { ...plain, continueExceeding: true }],
    ["exponentialBackoff", { ...plain, exponentialBackoff: true }],
  ])("gives the same answers with this store and with its own, given %s", async (_, options) => {
    // Stops the clock of its own store, as ours is stopped.
    vi.spyOn(Date, "now").mockReturnValue(0);
    const { sluice } = create();
    const [ours, own] = [
      await serve({ ...options, store: sluiceStore({ sluice, prefix: "api" }) }),
      await serve(options),
    ];
    const answers = async (url: string): Promise<unknown[][]> => {
      const all: unknown[][] = [];
      for (let i = 0; i < 7; i++) all.push(await ask(url));
      return all;
    };
    const [first, second] = [await answers(ours), await answers(own)];
    expect(first.map(([status]) => status)).toContain(429);
    expect(first).toEqual(second);
  });

  it("counts routes with options of their own separately, and peeks without counting", async () => {
    const { sluice } = create();
    let peek: (() => Promise<unknown>) | undefined;
    const url = await serve({ ...plain, store: sluiceStore({ sluice, prefix: "api" }) }, (app) => {
      const check = app.createRateLimit({ max: 5, timeWindow: 1000, keyGenerator: () => "alice" });
      app.get("/", () => "hello");
      app.get("/narrow", { config: { rateLimit: { max: 1, timeWindow: 1000 } } }, () => "hello");
      app.get("/checked", { config: { rateLimit: false } }, async (request) => {
        peek = () => check(request, { increment: false });
        return check(request);
      });
    });
    expect([(await ask(`${url}/narrow`))[0], (await ask(`${url}/narrow`))[0], (await ask(url))[0]]).toEqual([
      200,
      429,
      200,
    ]);
    expect(await (await fetch(`${url}/checked`)).json()).toMatchObject({ remaining: 4, isExceeded: false });
    expect(await peek!()).toMatchObject({ remaining: 4 });
    expect(await (await fetch(`${url}/checked`)).json()).toMatchObject({ remaining: 3 });
  });

  it("limits each client by its own window, if timeWindow is a function of the request", async () => {
    const { sluice, clock } = create();
    const url = await serve({
      max: 1,
      timeWindow: (request) => Number(request.headers["x-window"]),
      keyGenerator: (request) => `${request.headers["x-client"]}`,
      store: sluiceStore({ sluice, prefix: "api" }),
    });
    const status = async (client: string, window: number): Promise<number> =>
      (await fetch(url, { headers: { "x-client": client, "x-window": `${window}` } })).status;
    expect([await status("a", 1000), await status("a", 1000), await status("b", 2000), await status("b", 2000)])
      .toEqual([200, 429, 200, 429]);
    clock.advance(1000);
    expect([await status("a", 1000), await status("b", 2000)]).toEqual([200, 429]);
  });
});
