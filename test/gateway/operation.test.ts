/**
 * The gateway example in operation: one limit for all workers, whatever happens
 * to the configuration, a worker, or the process meanwhile.
 */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
// @ts-expect-error: it has no types.
import autocannon from "autocannon";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { ask, checked, moduleOf, openGateway, openUpstream, startGateway } from "./gateway.js";

const KEY = "acme-secret";
const quota = (burst: number) => ({
  tiers: { quota: { perSecond: 0, burst } },
  tenants: { acme: { apiKey: KEY, tier: "quota" } },
});

/** Clients of one tenant that ask until they are stopped. */
function load(port: number, connections: number) {
  const statuses: Record<number, number> = {};
  const run = autocannon({
    url: `http://127.0.0.1:${port}`,
    connections,
    duration: 3600,
    sampleInt: 50,
    headers: { "x-api-key": KEY },
  });
  run.on("response", (_: unknown, status: number) => {
    statuses[status] = (statuses[status] ?? 0) + 1;
  });
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await once(run, "response");
  };
  const refused = new Set<unknown>();
  run.on("response", (client: unknown, status: number) => {
    if (status === 429) refused.add(client);
  });
  return {
    statuses,
    until,
    /** Until every connection was refused: nothing is left to be had, and all that was had has arrived. */
    untilRefused: () => {
      refused.clear();
      return until(() => refused.size === connections);
    },
    async stop(): Promise<{ errors: number }> {
      run.stop();
      return run;
    },
  };
}

describe("the gateway", { timeout: 60_000 }, () => {
  it("keeps one exact limit over all its workers", async () => {
    // Each worker has one connection to the upstream: they are counted by it.
    const sockets = new Set<Socket>();
    const url = await openUpstream((asked, response) => {
      sockets.add(asked.socket);
      response.end();
    });
    const { port, sluice } = await openGateway({ workers: 4, upstream: { url, connections: 1 }, ...quota(1000) });
    const clients = load(port, 64);
    await clients.untilRefused();
    expect(await clients.stop()).toMatchObject({ errors: 0 });
    expect(clients.statuses[200]).toBe(1000);
    expect(Object.keys(clients.statuses)).toEqual(["200", "429"]);
    expect(sockets.size).toBe(4);
    expect(sluice.stats().limiters["tier quota"].allowed).toBe(1000);
    expect(sluice.audit().clean).toBe(true);
  });

  it("shares a route among all who ask for it, by whatever spelling", async () => {
    const { port } = await openGateway({
      workers: 2,
      upstream: { url: await openUpstream((_, response) => response.end()) },
      ...quota(1000),
      anonymous: "quota",
      routes: { "/reports": { perSecond: 0, burst: 3 }, "/reports/small": { perSecond: 0, burst: 1 } },
    });
    const statuses = async (...paths: string[]) => {
      const answers = [];
      for (const path of paths) {
        answers.push((await ask(port, path, { headers: answers.length % 2 ? { "x-api-key": KEY } : {} })).status);
      }
      return answers;
    };
    expect(await statuses("/reports", "/reports/a?b", "//x/..//%72eports/", "/reports")).toEqual([200, 200, 200, 429]);
    expect(await statuses("/reports/small", "/reports/small/a", "/reportsmall", "/")).toEqual([200, 429, 200, 200]);
  });

  it.each([
    "/Reports",
    "/reports/",
    "/reports?a",
    "/reports;v=1",
    "/reports;v=1/a",
    "/./reports",
    "/x/%2e%2e/reports",
    "/x/..%2freports",
    "/x/..%5Creports",
    "\\reports",
    // As they are these lead elsewhere, but not to an upstream that does not resolve them.
    "/reports/../x",
    "/reports/..\\x",
    "/reports%2F..%2Fx",
    "/%72eports/%ff",
  ])("counts %s to the route that some upstream takes it for", async (path) => {
    const { isBelow, readingsOf } = await moduleOf("paths.js");
    expect([
      isBelow(readingsOf(path), "/reports"),
      isBelow(readingsOf(path), "/"),
      isBelow(readingsOf(path), "/report"),
    ]).toEqual([true, true, false]);
  });

  it("passes nothing on from a client that has hung up, whose address is not known any more", async () => {
    const seen: (string | undefined)[] = [];
    const url = await openUpstream((asked, response) => {
      seen.push(asked.method);
      response.end();
    });
    const folder = await mkdtemp(join(tmpdir(), "sluice-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await writeFile(
      join(folder, "config.json"),
      JSON.stringify({ listen: { port: 0 }, workers: 1, upstream: { url } }),
    );
    const gateway = startGateway("--serve", join(folder, "config.json"));
    const port = Number((await gateway.until(/serving on port (\d+)/))[1]);
    await ask(port);
    // It comes to these only after they are gone.
    gateway.child.kill("SIGSTOP");
    for (let i = 0; i < 20; i++) {
      const socket = connect(port, "127.0.0.1");
      await new Promise((resolve) =>
        socket.write("POST / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.7\r\nContent-Length: 0\r\n\r\n", resolve)
      );
      socket.resetAndDestroy();
      await once(socket, "close");
    }
    gateway.child.kill("SIGCONT");
    for (let i = 0; i < 3; i++) await ask(port);
    expect(seen).toEqual(["GET", "GET", "GET", "GET"]);
  });

  it("lets nobody in without a key that it knows, and whoever guesses is limited by address", async () => {
    const url = await openUpstream((_, response) => response.end());
    const { port } = await openGateway({ workers: 1, upstream: { url }, ...quota(3) });
    expect((await ask(port)).status).toBe(401);
    expect(await ask(port, "/", { headers: { "x-api-key": "guess" } })).toMatchObject({
      status: 401,
      body: "\"x-api-key\" expected an API key that this gateway knows\n",
    });

    const { port: open } = await openGateway({ workers: 1, upstream: { url }, ...quota(3), anonymous: "quota" });
    expect((await ask(open)).status).toBe(200);
    for (const status of [401, 401, 429]) {
      expect((await ask(open, "/", { headers: { "x-api-key": "guess" } })).status).toBe(status);
    }
    expect((await ask(open, "/", { headers: { "x-api-key": KEY } })).status).toBe(200);
  });

  it("answers for other proxies: the same limits for a request that they tell of", async () => {
    const { port } = await openGateway({
      workers: 2,
      upstream: { url: await openUpstream((_, response) => response.end()) },
      trustedProxies: ["127.0.0.1"],
      forwardAuth: { path: "/auth", limitedStatus: 403 },
      ...quota(3),
      routes: { "/reports": { perSecond: 0, burst: 1 } },
    });
    const auth = async (uri: string, apiKey = KEY) =>
      (await ask(port, "/auth", {
        headers: {
          "x-forwarded-for": "1.2.3.4",
          "x-forwarded-method": "GET",
          "x-forwarded-uri": uri,
          "x-api-key": apiKey,
        },
      })).status;
    expect(await auth("/reports")).toBe(204);
    expect(await auth("/reports")).toBe(403);
    expect(await auth("/", "guess")).toBe(401);
    expect((await ask(port, "/", { headers: { "x-api-key": KEY } })).status).toBe(200);
    expect(await auth("/")).toBe(204);
    expect(await auth("/")).toBe(403);
  });

  it("starts no worker any more for one that died, while it waits for open requests", async () => {
    let seen = 0;
    const url = await openUpstream((_, response) => {
      seen++;
      setTimeout(() => response.end(), 1500);
    });
    const { port, workers, close, logged } = await openGateway({ workers: 2, upstream: { url } });
    // So many that each worker has some.
    const open = Promise.allSettled(Array.from({ length: 16 }, () => ask(port)));
    await expect.poll(() => seen).toBe(16);
    const [worker] = workers.keys();
    await worker.terminate();
    await expect.poll(() => logged.length).toBe(1);
    const closed = close();
    const sizes = new Set<number>();
    for (let isClosed = false; !isClosed; isClosed = await Promise.race([closed.then(() => true), sleep(20, false)])) {
      sizes.add(workers.size);
    }
    expect([sizes.has(1), sizes.has(2)]).toEqual([true, false]);
    expect(workers.size).toBe(0);
    expect((await open).filter(({ status }) => status === "fulfilled").length).toBeGreaterThan(0);
  });

  it("lets through what other proxies ask about, where nothing is limited", async () => {
    const url = await openUpstream((_, response) => response.end());
    const { port } = await openGateway({
      workers: 1,
      upstream: { url },
      trustedProxies: ["127.0.0.1"],
      forwardAuth: { path: "/auth" },
    });
    expect((await ask(port, "/auth", { headers: { "x-forwarded-for": "1.2.3.4" } })).status).toBe(204);
  });

  it("tells how it is, and what all its workers decided", async () => {
    const { port, adminPort } = await openGateway({
      workers: 2,
      admin: { port: 0 },
      upstream: { url: await openUpstream((_, response) => response.end()) },
      ...quota(3),
    });
    for (let i = 0; i < 5; i++) await ask(port, "/", { headers: { "x-api-key": KEY } });
    expect(await ask(adminPort!, "/health")).toMatchObject({ status: 200, body: "ready\n" });
    const { body } = await ask(adminPort!, "/metrics");
    expect(body).toContain("sluice_allowed_total{table=\"main\",limiter=\"tier quota\"} 3\n");
    expect(body).toContain("sluice_denied_total{table=\"main\",limiter=\"tier quota\"} 2\n");
    expect(body).toContain("sluice_threads{table=\"main\"} 3\n");
    expect((await ask(adminPort!, "/")).status).toBe(404);
  });

  it("goes on when a worker dies, with what was counted, and another one takes its place", async () => {
    const { port, sluice, workers, logged } = await openGateway({
      workers: 3,
      upstream: { url: await openUpstream((_, response) => response.end()) },
      ...quota(1500),
    });
    const clients = load(port, 32);
    await clients.until(() => clients.statuses[200] > 300);
    const [victim] = workers.keys();
    await victim.terminate();
    const after = clients.statuses[200];
    await clients.until(() => clients.statuses[200] > after + 300);
    await clients.until(() => workers.size === 3);
    await clients.untilRefused();
    await clients.stop();

    expect(workers.has(victim)).toBe(false);
    expect(logged[0]).toBe("a worker died, 2 go on; another one takes its place");
    // Answers that were under way in the dead worker were paid for and never came.
    expect(sluice.stats().limiters["tier quota"].allowed).toBe(1500);
    expect(clients.statuses[200]).toBeLessThanOrEqual(1500);
    expect(clients.statuses[200]).toBeGreaterThanOrEqual(1500 - 32);
    expect(sluice.stats().threads).toBe(4);
    expect(sluice.audit().clean).toBe(true);
  });
});

describe("the gateway as a process", { timeout: 60_000 }, () => {
  async function serve(options: Record<string, unknown>) {
    const folder = await mkdtemp(join(tmpdir(), "sluice-gateway-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, "config.json");
    const write = (changes: Record<string, unknown>) =>
      writeFile(file, JSON.stringify({ listen: { port: 0 }, workers: 2, drainMs: 5000, ...options, ...changes }));
    await write({});
    const gateway = startGateway("--serve", file);
    const port = Number((await gateway.until(/serving on port (\d+)/))[1]);
    return { ...gateway, port, file, write };
  }

  it("takes another configuration on SIGHUP, under load, and forgets nothing that was counted", async () => {
    const { port, write, child, until, file, end } = await serve({
      upstream: { url: await openUpstream((_, response) => response.end()) },
      ...quota(1000),
    });
    const clients = load(port, 32);
    await clients.until(() => clients.statuses[200] > 300);

    let reloads = 0;
    const reload = async (tier: Record<string, number>) => {
      await write({ ...quota(1500), tiers: { quota: tier } });
      child.kill("SIGHUP");
      await until(new RegExp(`(is in force[^]*){${++reloads}}`));
    };
    // A larger bucket is no fuller: what was used stays used.
    await reload({ perSecond: 0, burst: 1500 });
    await clients.untilRefused();
    expect(clients.statuses[200]).toBe(1000);
    await reload({ perSecond: 1e6, burst: 1500 });
    await clients.until(() => clients.statuses[200] > 3000);
    await reload({ perSecond: 0, burst: 1500 });
    await clients.untilRefused();
    const admitted = clients.statuses[200];

    await write({ tiers: { quota: { perSecond: 0, burst: -1 } } });
    child.kill("SIGHUP");
    await until(
      /was refused, the former configuration stays in force: "tiers\.quota\.burst" expected an integer from 1 to 2147483647, got -1/,
    );
    await writeFile(file, "{ \"listen\": ");
    child.kill("SIGHUP");
    await until(/stays in force: \S+config\.json expected JSON: /);
    await write({ ...quota(9000), workers: 3 });
    child.kill("SIGHUP");
    await until(/"workers" expected 2, as it was started with, got 3; restart the gateway to change it/);
    await clients.untilRefused();
    expect(await clients.stop()).toMatchObject({ errors: 0 });
    expect(clients.statuses[200]).toBe(admitted);

    // A new tenant, a new tier, a new route.
    await write({
      tiers: { quota: { perSecond: 0, burst: 1500 }, gold: { perSecond: 0, burst: 2 } },
      tenants: { acme: { apiKey: KEY, tier: "quota" }, initech: { apiKey: "initech-secret", tier: "gold" } },
      routes: { "/": { perSecond: 0, burst: 1 } },
    });
    child.kill("SIGHUP");
    await until(/(is in force[^]*){4}/);
    expect((await ask(port, "/", { headers: { "x-api-key": KEY } })).status).toBe(429);
    expect((await ask(port, "/", { headers: { "x-api-key": "initech-secret" } })).status).toBe(200);
    child.kill("SIGTERM");
    expect(await end()).toMatchObject({ code: 0, err: "" });
  });

  it("lets open requests finish when it is told to stop, even twice, and takes no new ones", async () => {
    const asked: (() => void)[] = [];
    const url = await openUpstream((_, response) => {
      asked.push(() => response.end("late"));
    });
    const { port, child, until, end } = await serve({ upstream: { url } });
    const late = ask(port);
    while (asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
    child.kill("SIGINT");
    child.kill("SIGTERM");
    await until(/stopping/);
    await expect(async () => {
      for (;;) await ask(port);
    }).rejects.toThrow(/ECONNREFUSED|ECONNRESET|socket hang up/);
    asked[0]();
    expect(await late).toMatchObject({ status: 200, body: "late" });
    expect(await end()).toMatchObject({ code: 0, signal: null, err: "" });
  });

  it("ends those that take longer than it may wait", async () => {
    const url = await openUpstream((_, response) => {
      response.write("never done");
    });
    const { port, child, end } = await serve({ upstream: { url }, drainMs: 100 });
    const cut = expect(ask(port)).rejects.toThrow(/aborted|hang up/);
    await new Promise((resolve) => setTimeout(resolve, 300));
    child.kill("SIGTERM");
    await cut;
    expect(await end()).toMatchObject({ code: 0, err: "" });
  });

  it("does not start on a configuration that is wrong, and says what is", async () => {
    const gateway = startGateway("--serve", "/nowhere/config.json");
    expect(await gateway.end()).toMatchObject({
      code: 2,
      err: expect.stringContaining("no such file or directory, open '/nowhere/config.json'"),
    });
  });
});

describe("a configuration", () => {
  const good = {
    upstream: { url: "http://127.0.0.1:9000" },
    tiers: { free: { perMinute: 90, burst: 5 } },
    tenants: { acme: { apiKey: KEY, tier: "free" } },
  };

  it("has defaults, and rates in whatever unit", async () => {
    expect(await checked(good)).toMatchObject({
      listen: { host: "127.0.0.1", port: 0 },
      admin: undefined,
      workers: 4,
      drainMs: 10_000,
      apiKeyHeader: "x-api-key",
      upstream: { connections: 64, timeoutMs: 10_000 },
      tiers: new Map([["free", { rate: 1.5, burst: 5 }]]),
      anonymous: undefined,
    });
  });

  it("that comes with the example is right", async () => {
    await (await moduleOf("config.js")).readConfig(new URL("../../examples/gateway/config.json", import.meta.url));
  });

  const cases: [Record<string, unknown>, string][] = [
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
      "\"tires\" expected one of listen, admin, workers, capacity, store, drainMs, trustedProxies, forwardAuth, upstream, apiKeyHeader, tiers, tenants, anonymous, routes, got \"tires\"",
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
      "\"tenants.other.apiKey\" expected a key of its own, got that of \"acme\"",
    ],
    [
      { routes: { "/a;b": { perSecond: 1, burst: 1 } } },
      "\"routes\" expected paths as \"/search\", decoded, without parameters and a slash at the end, got \"/a;b\"",
    ],
    [
      { routes: { "/a": { perSecond: 1, burst: 1 }, "/A": { perSecond: 1, burst: 1 } } },
      "\"routes\" expected paths that differ by more than case, got \"/A\"",
    ],
    [{ anonymous: "everybody" }, "\"anonymous\" expected a name under \"tiers\" (\"free\"), got \"everybody\""],
    [
      { routes: { "search/": { perSecond: 1, burst: 1 } } },
      "\"routes\" expected paths as \"/search\", decoded, without parameters and a slash at the end, got \"search/\"",
    ],
    [
      JSON.parse("{ \"tiers\": { \"__proto__\": { \"perSecond\": 1, \"burst\": 0 } } }"),
      "\"tiers.__proto__.burst\" expected an integer from 1 to 2147483647, got 0",
    ],
    [
      { forwardAuth: { path: "/auth" } },
      "\"forwardAuth\" expected \"trustedProxies\" beside it, to say whose word it takes, got none",
    ],
    [
      { forwardAuth: { path: "auth" }, trustedProxies: ["10.0.0.1"] },
      "\"forwardAuth.path\" expected a path as \"/auth\", got \"auth\"",
    ],
    [
      { forwardAuth: { path: "/auth", limitedStatus: 429 }, trustedProxies: ["10.0.0.1"] },
      "\"forwardAuth.limitedStatus\" expected 401 or 403, got 429",
    ],
    [{ trustedProxies: "10.0.0.1" }, "\"trustedProxies\" expected an array of addresses and ranges, got \"10.0.0.1\""],
    [{ trustedProxies: ["10.0.0.1/99"] }, "\"trustedProxies[0]\" expected an IP address"],
  ];
  it.each(cases)("%j is refused", async (changes, message) => {
    await expect(checked({ ...good, ...changes })).rejects.toThrow(message);
  });
});
