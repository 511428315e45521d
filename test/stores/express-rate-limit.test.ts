/**
 * The store for express-rate-limit: what the documentation requires of a store, a plain
 * model to compare with, and the real middleware.
 */
import express from "express";
import { type Options, rateLimit, type RateLimitRequestHandler, type Store } from "express-rate-limit";
import fc from "fast-check";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Sluice } from "sluice";
import { SluiceStore } from "sluice/stores/express-rate-limit";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { announceSeed } from "../seed.js";
import { create } from "../tables.js";

const WINDOW_MS = 60_000;
const MAX_COUNT = 2 ** 31 - 1;
afterEach(() => {
  vi.restoreAllMocks();
});

function storeOf(sluice: Sluice, prefix = "test", windowMs = WINDOW_MS): SluiceStore {
  const store = new SluiceStore({ sluice, prefix });
  store.init({ windowMs });
  return store;
}

/** A wall clock that stands still, so that resetTime is what is left of the window. */
function stopWallClock(): void {
  vi.spyOn(Date, "now").mockReturnValue(0);
}

const leftMs = (info: { resetTime: Date } | undefined): number | undefined => info?.resetTime.getTime();

describe("a store", () => {
  it("counts from 1 and beyond any limit, and says when the client's window ends", () => {
    stopWallClock();
    const { sluice, clock } = create();
    const store = storeOf(sluice);
    clock.advance(12_345);
    expect(store.increment("alice")).toEqual({ totalHits: 1, resetTime: new Date(WINDOW_MS) });
    clock.advance(20_000);
    for (let count = 2; count <= 1000; count++) {
      expect(store.increment("alice")).toEqual({ totalHits: count, resetTime: new Date(WINDOW_MS - 20_000) });
    }
  });

  it("begins a client's window with its first request, and the next window with the first request after it", () => {
    stopWallClock();
    const { sluice, clock } = create();
    const store = storeOf(sluice);
    store.increment("alice");
    clock.advance(30_000);
    store.increment("bob");
    store.increment("bob");
    clock.advance(29_999.999999);
    expect(store.increment("alice").totalHits).toBe(2);
    clock.advance(0.000001);
    expect(store.get("alice")).toBeUndefined();
    expect(store.increment("alice")).toEqual({ totalHits: 1, resetTime: new Date(WINDOW_MS) });
    expect(store.increment("bob")).toEqual({ totalHits: 3, resetTime: new Date(30_000) });
  });

  it("says where a client stands without counting", () => {
    const { sluice } = create();
    const store = storeOf(sluice);
    expect(store.get("alice")).toBeUndefined();
    store.increment("alice");
    store.increment("alice");
    expect(store.get("alice")).toMatchObject({ totalHits: 2 });
    expect(store.get("alice")).toMatchObject({ totalHits: 2 });
    expect(store.get("bob")).toBeUndefined();
  });

  it("takes a request back, never below 0, and keeps the window", () => {
    stopWallClock();
    const { sluice, clock } = create();
    const store = storeOf(sluice);
    store.decrement("alice");
    expect(store.get("alice")).toBeUndefined();
    store.increment("alice");
    store.increment("alice");
    clock.advance(1000);
    store.decrement("alice");
    expect(store.increment("alice").totalHits).toBe(2);
    for (let i = 0; i < 5; i++) store.decrement("alice");
    expect(store.get("alice")).toEqual({ totalHits: 0, resetTime: new Date(WINDOW_MS - 1000) });
    expect(store.increment("alice").totalHits).toBe(1);
  });

  it("takes back a request from early in a long window", () => {
    const { sluice, clock } = create();
    const store = storeOf(sluice);
    // The count of a window lies in two slots of a ring wherever it begins.
    for (let i = 0; i < 6; i++) {
      store.increment("alice");
      clock.advance(10_000 - 0.001);
      store.increment("alice");
      store.decrement("alice");
      store.decrement("alice");
      expect(store.get("alice")!.totalHits).toBe(0);
      clock.advance(7_777);
    }
  });

  it("forgets one client, and only that one", () => {
    stopWallClock();
    const { sluice, clock } = create();
    const store = storeOf(sluice);
    for (const key of ["alice", "alice", "bob"]) store.increment(key);
    store.resetKey("alice");
    store.resetKey("nobody");
    expect(store.get("alice")).toBeUndefined();
    expect(store.get("bob")).toMatchObject({ totalHits: 1 });
    expect(store.increment("alice").totalHits).toBe(1);
    clock.advance(1);
    store.resetKey("alice");
    expect(store.increment("alice")).toEqual({ totalHits: 1, resetTime: new Date(WINDOW_MS) });
  });

  it("forgets all clients of its prefix, and no others", () => {
    const { sluice } = create();
    const [store, twin, other] = [storeOf(sluice), storeOf(sluice), storeOf(sluice, "other")];
    for (const key of ["alice", "alice", "bob"]) for (const each of [store, other]) each.increment(key);
    for (let round = 0; round < 3; round++) {
      store.resetAll();
      for (const key of ["alice", "bob"]) expect([store.get(key), twin.get(key)]).toEqual([undefined, undefined]);
      expect([store.increment("alice").totalHits, twin.increment("alice").totalHits]).toEqual([1, 2]);
    }
    expect([other.get("alice")!.totalHits, other.get("bob")!.totalHits]).toEqual([2, 1]);
  });

  it("shares its counts with stores of its prefix only, whatever prefix and key are", () => {
    const { sluice } = create();
    const stores = ["a", "ab", "1:a", "a1:"].map((prefix) => storeOf(sluice, prefix));
    for (const store of stores) {
      for (const key of ["", "b", "bc", ":a", "__proto__", "\ud800", "x".repeat(1_000_000)]) {
        expect(store.increment(key).totalHits).toBe(1);
      }
    }
    expect(storeOf(sluice, "ab").increment("bc").totalHits).toBe(2);
  });

  it("may have a prefix that equals the name of its own policies", () => {
    const { sluice } = create();
    for (const prefix of [`windows of ${WINDOW_MS} ms`, `counts of ${WINDOW_MS} ms`, "x".repeat(64)]) {
      const store = storeOf(sluice, prefix);
      expect([store.increment("alice").totalHits, store.increment("alice").totalHits]).toEqual([1, 2]);
    }
  });

  it("says that its keys are not local", () => {
    const { sluice } = create();
    const store: Store = storeOf(sluice, "api");
    expect(store).toMatchObject({ localKeys: false, prefix: "api" });
  });

  it("has windows of a millisecond and of a year", () => {
    stopWallClock();
    for (const windowMs of [1, 366 * 86_400_000]) {
      const { sluice, clock } = create();
      const store = storeOf(sluice, `${windowMs}`, windowMs);
      store.increment("alice");
      clock.set(1000 + windowMs * 0.999);
      expect(store.increment("alice").totalHits).toBe(2);
      clock.set(1000 + windowMs);
      expect(store.increment("alice")).toEqual({ totalHits: 1, resetTime: new Date(windowMs) });
    }
  });

  it.each([["deny" as const, MAX_COUNT], ["allow" as const, 1]])(
    "in a full table with whenFull: '%s' gives a newcomer the count %i, which refuses or admits it",
    (whenFull, count) => {
      const { sluice } = create(1000, { capacity: 1, whenFull });
      const store = storeOf(sluice);
      const infos = Array.from({ length: 5000 }, (_, i) => store.increment(`client ${i}`));
      expect(sluice.stats()[whenFull === "deny" ? "fullDenied" : "fullAllowed"]).toBeGreaterThan(0);
      expect(infos.at(-1)!.totalHits).toBe(count);
      expect(new Set(infos.map(({ totalHits }) => totalHits))).toEqual(new Set([1, count]));
    },
  );

  it.each<[unknown, string]>([
    [undefined, "\"options\" expected an object, got undefined"],
    [{ sluice: {}, prefix: "a" }, "\"sluice\" expected a Sluice, got an object"],
    [{ prefix: "a" }, "\"sluice\" expected a Sluice, got undefined"],
    [{ sluice: 0 }, "\"prefix\" expected a name of 1 to 64 bytes, got undefined"],
    [{ sluice: 0, prefix: "" }, "\"prefix\" expected a name of 1 to 64 bytes, got \"\""],
    [{ sluice: 0, prefix: "ä".repeat(33) }, "\"prefix\" expected a name of 1 to 64 bytes, got \"äää"],
    [{ sluice: 0, prefx: "a" }, "\"options\" has no option \"prefx\"; did you mean \"prefix\"?"],
  ])("refuses the options %j", (options, message) => {
    const { sluice } = create();
    const given = options as { sluice?: unknown };
    if (given?.sluice === 0) given.sluice = sluice;
    expect(() => new SluiceStore(options as never)).toThrow(message);
  });

  it.each([0, -1, 1.5, NaN, Infinity, "60000", undefined])("refuses a window of %s ms", (windowMs) => {
    const { sluice } = create();
    const store = new SluiceStore({ sluice, prefix: "test" });
    expect(() => store.init({ windowMs: windowMs as number })).toThrow(
      "\"windowMs\" expected an integer from 1 to 31622400000, got",
    );
    expect(() => store.increment("alice")).toThrow(
      "\"windowMs\" expected from init(), which the middleware calls, got no call of init()",
    );
  });
});

type Step = { do: "increment" | "decrement" | "get" | "resetKey"; key: string } | { do: "resetAll" } | {
  do: "advance";
  ns: number;
};

/** The plainest store: one window for each key. */
class Model {
  readonly #clients = new Map<string, { count: number; endNs: number }>();
  readonly #windowNs: number;
  nowNs = 0;

  constructor(windowNs: number) {
    this.#windowNs = windowNs;
  }

  take(step: Step): { totalHits: number; leftNs: number } | undefined {
    if (step.do === "advance") this.nowNs += step.ns;
    else if (step.do === "resetAll") this.#clients.clear();
    else {
      let client = this.#clients.get(step.key);
      if (client && client.endNs <= this.nowNs) client = undefined;
      if (step.do === "resetKey") this.#clients.delete(step.key);
      if (step.do === "decrement" && client && client.count > 0) client.count--;
      if (step.do === "increment") {
        client ??= { count: 0, endNs: this.nowNs + this.#windowNs };
        client.count++;
        this.#clients.set(step.key, client);
      }
      if ((step.do === "increment" || step.do === "get") && client) {
        return { totalHits: client.count, leftNs: client.endNs - this.nowNs };
      }
    }
    return undefined;
  }
}

describe("a store compared with a plain model", () => {
  it("gives the same answers to any calls", () => {
    const seed = announceSeed("stores");
    stopWallClock();
    const key = fc.constantFrom("alice", "bob", "");
    const step = (windowNs: number): fc.Arbitrary<Step> =>
      fc.oneof(
        { weight: 6, arbitrary: fc.record({ do: fc.constant("increment" as const), key }) },
        fc.record({ do: fc.constantFrom("decrement" as const, "get" as const, "resetKey" as const), key }),
        fc.constant({ do: "resetAll" as const }),
        {
          weight: 3,
          arbitrary: fc.oneof(
            fc.constantFrom(1, windowNs - 1, windowNs, windowNs + 1),
            fc.integer({ min: 0, max: 2 * windowNs }),
          ).map((ns) => ({ do: "advance" as const, ns })),
        },
      );
    const cases = fc.constantFrom(1, 7, 1000, 60_000).chain((windowMs) =>
      fc.tuple(fc.constant(windowMs), fc.array(step(windowMs * 1e6), { maxLength: 60 }))
    );
    fc.assert(
      fc.property(cases, ([windowMs, steps]) => {
        const { sluice, clock } = create();
        const store = storeOf(sluice, "test", windowMs);
        const model = new Model(windowMs * 1e6);
        for (const each of steps) {
          const expected = model.take(each);
          if (each.do === "advance") clock.set(1000 + model.nowNs / 1e6);
          else if (each.do === "resetAll") store.resetAll();
          else {
            const info = store[each.do](each.key);
            expect(info && { totalHits: info.totalHits, leftMs: leftMs(info) }).toEqual(
              expected && { totalHits: expected.totalHits, leftMs: Math.ceil(expected.leftNs / 1e6) },
            );
          }
        }
        sluice.close();
      }),
      { seed, numRuns: 200 },
    );
  });
});

describe("express-rate-limit with the store", () => {
  const complaints: unknown[] = [];
  const logger = {
    error: (error: unknown) => complaints.push(error),
    warn: (error: unknown) => complaints.push(error),
  };

  async function serve(limiter: RateLimitRequestHandler, status = 200): Promise<string> {
    const app = express();
    app.use(limiter);
    app.get("/", (_, response) => void response.status(status).send("hello"));
    const server = app.listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }

  const limiterOf = (sluice: Sluice, options: Partial<Options> = {}): RateLimitRequestHandler =>
    rateLimit({
      windowMs: WINDOW_MS,
      limit: 3,
      logger,
      standardHeaders: "draft-6",
      store: new SluiceStore({ sluice, prefix: "api" }),
      ...options,
    });

  it("limits, sends its headers, and has no complaint about the store", async () => {
    stopWallClock();
    const { sluice, clock } = create();
    const url = await serve(limiterOf(sluice));
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
    expect(complaints).toEqual([]);
  });

  it("takes back the requests that it skips", async () => {
    const { sluice } = create();
    const limiter = limiterOf(sluice, { skipSuccessfulRequests: true, keyGenerator: () => "alice" });
    const url = await serve(limiter);
    for (let i = 0; i < 10; i++) expect((await fetch(url)).status).toBe(200);
    await expect.poll(async () => (await limiter.getKey("alice"))!.totalHits).toBe(0);
    const failing = limiterOf(sluice, {
      skipSuccessfulRequests: true,
      keyGenerator: () => "alice",
      store: new SluiceStore({ sluice, prefix: "failing" }),
    });
    const failingUrl = await serve(failing, 500);
    const statuses = [];
    for (let i = 0; i < 5; i++) statuses.push((await fetch(failingUrl)).status);
    expect(statuses).toEqual([500, 500, 500, 429, 429]);
    expect(complaints).toEqual([]);
  });

  it("counts two limiters of one table separately, on one request too", async () => {
    const { sluice } = create();
    const app = express();
    app.use(limiterOf(sluice, { limit: 5 }));
    app.get(
      "/",
      limiterOf(sluice, { limit: 2, store: new SluiceStore({ sluice, prefix: "route" }) }),
      (_, response) => void response.send("hello"),
    );
    app.get("/other", (_, response) => void response.send("hello"));
    const server = app.listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const statuses = [];
    for (const path of ["/", "/", "/", "/other", "/other", "/other"]) statuses.push((await fetch(url + path)).status);
    expect(statuses).toEqual([200, 200, 429, 200, 200, 429]);
    expect(complaints).toEqual([]);
  });

  it("forgets a client by its own resetKey", async () => {
    const { sluice } = create();
    const limiter = limiterOf(sluice, { limit: 1, keyGenerator: () => "alice" });
    const url = await serve(limiter);
    expect([(await fetch(url)).status, (await fetch(url)).status]).toEqual([200, 429]);
    limiter.resetKey("alice");
    expect((await fetch(url)).status).toBe(200);
  });
});
