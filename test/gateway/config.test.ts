/** The gateway's configuration: defaults, and a message for everything that is wrong. */
import { describe, expect, it } from "vitest";
import { checkReload, readConfig } from "../../examples/gateway/config.js";
import { acmeWith, checked, KEY, type Options } from "./gateway.js";

const good = {
  upstream: { url: "http://127.0.0.1:9000" },
  tiers: { free: { perMinute: 90, burst: 5 } },
  tenants: { acme: { apiKey: KEY, tier: "free" } },
};

describe("a configuration", () => {
  it("has defaults, and takes rates per second, minute, hour or day", () => {
    expect(checked(good)).toMatchObject({
      listen: { host: "127.0.0.1", port: 0 },
      admin: undefined,
      workers: 4,
      capacity: 100_000,
      store: undefined,
      drainMs: 10_000,
      apiKeyHeader: "x-api-key",
      upstream: { connections: 64, timeoutMs: 10_000 },
      tiers: new Map([["free", { rate: 1.5, burst: 5 }]]),
      anonymous: undefined,
    });
    const rates = { s: { perSecond: 2 }, m: { perMinute: 2 }, h: { perHour: 2 }, d: { perDay: 2 } };
    const tiers = Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, { ...rate, burst: 1 }]));
    expect([...checked({ ...good, tenants: {}, tiers }).tiers.values()].map(({ rate }) => rate)).toEqual([
      2,
      2 / 60,
      2 / 3600,
      2 / 86_400,
    ]);
  });

  it("that comes with the example is right", async () => {
    await readConfig(new URL("../../examples/gateway/config.json", import.meta.url));
  });

  const cases: [Options, string][] = [
    [{ upstream: undefined }, "\"upstream\" expected an object, got nothing"],
    [
      { upstream: { url: "127.0.0.1:9000" } },
      "\"upstream.url\" expected http://host:port or https://host:port, without a path, got \"127.0.0.1:9000\"",
    ],
    [
      { upstream: { url: "http://a:1/path" } },
      "\"upstream.url\" expected http://host:port or https://host:port, without a path, got \"http://a:1/path\"",
    ],
    [
      { upstream: { url: "http://a", timeoutMs: "5s" } },
      "\"upstream.timeoutMs\" expected an integer from 1 to 3600000, got \"5s\"",
    ],
    [
      { tires: {} },
      "\"tires\" expected one of listen, admin, workers, capacity, store, drainMs, trustedProxies, forwardAuth, "
      + "upstream, apiKeyHeader, tiers, tenants, anonymous, routes, got \"tires\"",
    ],
    [{ workers: 0 }, "\"workers\" expected an integer from 1 to 64, got 0"],
    [{ listen: { port: 80.5 } }, "\"listen.port\" expected an integer from 0 to 65535, got 80.5"],
    [{ listen: { port: null } }, "\"listen.port\" expected an integer from 0 to 65535, got null"],
    [{ tiers: [] }, "\"tiers\" expected an object, got []"],
    [
      { tiers: { free: { burst: 5 } } },
      "\"tiers.free\" expected one of perSecond, perMinute, perHour, perDay, got none",
    ],
    [
      { tiers: { free: { perSecond: 1, perDay: 1, burst: 5 } } },
      "\"tiers.free\" expected one of perSecond, perMinute, perHour, perDay, got perSecond and perDay",
    ],
    [
      { tiers: { free: { perSecond: "5", burst: 5 } } },
      "\"tiers.free.perSecond\" expected a number of requests: 0, or from 1e-9 to 3e9 a second, got \"5\"",
    ],
    [
      { tiers: { free: { perHour: -1, burst: 5 } } },
      "\"tiers.free.perHour\" expected a number of requests: 0, or from 1e-9 to 3e9 a second, got -1",
    ],
    [
      { tiers: { free: { perSecond: 5 } } },
      "\"tiers.free.burst\" expected an integer from 1 to 2147483647, got nothing",
    ],
    [
      { tiers: { free: { perSecond: 5, burst: 2 ** 53 } } },
      "\"tiers.free.burst\" expected an integer from 1 to 2147483647, got 9007199254740992",
    ],
    [
      { tenants: { acme: { apiKey: KEY, tier: "gold" } } },
      "\"tenants.acme.tier\" expected a name under \"tiers\" (\"free\"), got \"gold\"",
    ],
    [
      { tenants: { acme: { apiKey: "short", tier: "free" } } },
      "\"tenants.acme.apiKey\" expected a string of 8 characters or more",
    ],
    [
      { tenants: { acme: { apiKey: KEY, tier: "free" }, other: { apiKey: KEY, tier: "free" } } },
      "\"tenants.other.apiKey\" expected a key of its own, got the key of \"acme\"",
    ],
    [
      { routes: { "/a;b": { perSecond: 1, burst: 1 } } },
      "\"routes\" expected decoded paths such as \"/search\", without parameters or a slash at the end, got \"/a;b\"",
    ],
    [
      { routes: { "search/": { perSecond: 1, burst: 1 } } },
      "\"routes\" expected decoded paths such as \"/search\", without parameters or a slash at the end, got \"search/\"",
    ],
    [
      { routes: { "/a": { perSecond: 1, burst: 1 }, "/A": { perSecond: 1, burst: 1 } } },
      "\"routes\" expected paths that differ by more than case, got \"/A\"",
    ],
    [{ anonymous: "everybody" }, "\"anonymous\" expected a name under \"tiers\" (\"free\"), got \"everybody\""],
    [
      JSON.parse("{ \"tiers\": { \"__proto__\": { \"perSecond\": 1, \"burst\": 0 } } }"),
      "\"tiers.__proto__.burst\" expected an integer from 1 to 2147483647, got 0",
    ],
    [
      { forwardAuth: { path: "/auth" } },
      "\"forwardAuth\" expected \"trustedProxies\" to name the proxy that may ask, got none",
    ],
    [
      { forwardAuth: { path: "auth" }, trustedProxies: ["10.0.0.1"] },
      "\"forwardAuth.path\" expected a path such as \"/auth\", got \"auth\"",
    ],
    [
      { forwardAuth: { path: "/auth", limitedStatus: 429 }, trustedProxies: ["10.0.0.1"] },
      "\"forwardAuth.limitedStatus\" expected 401 or 403, got 429",
    ],
    [{ trustedProxies: "10.0.0.1" }, "\"trustedProxies\" expected an array of addresses and ranges, got \"10.0.0.1\""],
    [{ trustedProxies: ["10.0.0.1/99"] }, "\"trustedProxies[0]\" expected an IP address"],
  ];
  it.each(cases)("with %j is rejected with a message", (changes, message) => {
    expect(() => checked({ ...good, ...changes })).toThrow(message);
  });
});

describe("the option \"store\"", () => {
  const url = "redis://user:secret@127.0.0.1:6379";

  it("is a URL, or an object with more options", () => {
    expect(checked({ ...good, store: url }).store).toEqual({
      url,
      mode: "strict",
      onFailure: "local",
      share: 1,
      prefix: "gateway",
    });
    const more = { url, mode: "leased", onFailure: "closed", share: 0.25, prefix: "edge" };
    expect(checked({ ...good, store: more }).store).toEqual(more);
  });

  it.each([
    ["127.0.0.1:6379", "\"store\" expected redis://host:port or rediss://host:port"],
    ["http://user:secret@127.0.0.1", "\"store\" expected redis://host:port or rediss://host:port"],
    [{ url: "redis://" }, "\"store.url\" expected redis://host:port or rediss://host:port"],
    [{}, "\"store.url\" expected redis://host:port or rediss://host:port"],
    [7, "\"store\" expected an object, got 7"],
    [{ url, mode: "exact" }, "\"store.mode\" expected \"strict\" or \"leased\", got \"exact\""],
    [{ url, onFailure: "shut" }, "\"store.onFailure\" expected \"open\", \"closed\" or \"local\", got \"shut\""],
    [{ url, share: 0 }, "\"store.share\" expected a number above 0, up to 1, got 0"],
    [
      { url, prefix: "a b" },
      "\"store.prefix\" expected up to 24 letters, digits and _ . : / - characters, got \"a b\"",
    ],
    [{ url, host: "x" }, "\"store.host\" expected one of url, mode, onFailure, share, prefix, got \"host\""],
  ])("of %j is rejected, and the message shows no password", (store, message) => {
    const error = thrownBy(() => checked({ ...good, store }));
    expect(error?.message).toBe(message);
    expect(error?.message).not.toContain("secret");
  });

  it("rejects limits that Redis cannot keep", () => {
    expect(() => checked({ store: url, upstream: good.upstream, ...acmeWith({ perSecond: 0, burst: 3 }) })).toThrow(
      "\"tiers.quota\" expected a rate that refills the burst within 20 years, because every key in Redis expires, "
        + "got 0 per second and a burst of 3",
    );
    expect(() => checked({ ...good, store: url, routes: { "/a": { perDay: 1, burst: 10_000 } } })).toThrow(
      /^"routes\.\/a" expected a rate that refills the burst within 20 years/,
    );
  });

  it("cannot change on a reload, and the message shows no password", () => {
    const running = checked({ ...good, store: url });
    expect(() => checkReload(running, running)).not.toThrow();
    expect(() => checkReload(running, { ...running, store: undefined })).toThrow(
      /^"store" expected the same as at the start; restart to change it$/,
    );
  });
});

function thrownBy(run: () => void): Error | undefined {
  try {
    run();
  } catch (error) {
    return error as Error;
  }
}
