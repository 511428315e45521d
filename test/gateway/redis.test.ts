/**
 * The gateway example with its limits in Redis: one limit for several gateways,
 * whatever happens to Redis or to the configuration meanwhile.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { freePort, redisBinary, RedisServer, until } from "../redis/server.js";
import { type Answer, ask, checked, moduleOf, openGateway, openUpstream, startGateway } from "./gateway.js";

const KEY = "acme-secret";
/** So slow that nothing comes back while a test runs. */
const limit = (burst: number) => ({ perDay: 1, burst });
const quota = (burst: number) => ({
  tiers: { quota: limit(burst) },
  tenants: { acme: { apiKey: KEY, tier: "quota" } },
});
const asAcme = (port: number, path = "/"): Promise<Answer> => ask(port, path, { headers: { "x-api-key": KEY } });

describe("the option \"store\"", () => {
  const good = { upstream: { url: "http://127.0.0.1:1" }, ...quota(3) };
  const url = "redis://user:secret@127.0.0.1:6379";

  it("is one line, or says more", async () => {
    expect(await checked({ ...good, store: url })).toMatchObject({
      store: { url, mode: "strict", onFailure: "local", share: 1, prefix: "gateway" },
    });
    const more = { url, mode: "leased", onFailure: "closed", share: 0.25, prefix: "edge" };
    expect(await checked({ ...good, store: more })).toMatchObject({ store: more });
    expect(await checked(good)).toMatchObject({ store: undefined });
  });

  it.each([
    ["127.0.0.1:6379", "\"store\" expected redis://host:port or rediss://host:port"],
    ["http://user:secret@127.0.0.1", "\"store\" expected redis://host:port or rediss://host:port"],
    [{ url: "redis://" }, "\"store.url\" expected redis://host:port or rediss://host:port"],
    [{}, "\"store.url\" expected redis://host:port or rediss://host:port"],
    [7, "\"store\" expected an object, got 7"],
    [{ url, mode: "exact" }, "\"store.mode\" expected \"strict\" or \"leased\", got \"exact\""],
    [{ url, onFailure: "shut" }, "\"store.onFailure\" expected \"open\", \"closed\" or \"local\", got \"shut\""],
    [{ url, share: 0 }, "\"store.share\" expected a number above 0 and up to 1, got 0"],
    [
      { url, prefix: "a b" },
      "\"store.prefix\" expected up to 24 letters, digits and _ . : / - characters, got \"a b\"",
    ],
    [{ url, host: "x" }, "\"store.host\" expected one of url, mode, onFailure, share, prefix, got \"host\""],
  ])("%j is refused, and no message shows a password", async (store, message) => {
    const error = await checked({ ...good, store }).then(() => undefined, (thrown: Error) => thrown);
    expect(error?.message).toBe(message);
    expect(error?.message).not.toContain("secret");
  });

  it("takes no limit that Redis cannot keep", async () => {
    await expect(checked({ ...good, store: url, tiers: { quota: { perSecond: 0, burst: 3 } } })).rejects.toThrow(
      "\"tiers.quota\" expected a rate that refills the burst within 20 years, since every key in Redis expires, got 0 a second and a burst of 3",
    );
    await expect(checked({ ...good, store: url, routes: { "/a": { perDay: 1, burst: 10_000 } } })).rejects.toThrow(
      /^"routes\.\/a" expected a rate that refills the burst within 20 years/,
    );
  });

  it("takes a restart to change, and the refusal shows no password", async () => {
    const { checkReload } = await moduleOf("config.js");
    const running = await checked({ ...good, store: url });
    expect(() => checkReload(running, running)).not.toThrow();
    expect(() => checkReload(running, { ...(running as object), store: undefined })).toThrow(
      /^"store" expected what it was started with; restart the gateway to change it$/,
    );
  });
});

describe.skipIf(!redisBinary)("the gateway over Redis", { timeout: 60_000 }, () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server?.close());
  beforeEach(async () => {
    await server.ask("FLUSHALL");
  });

  const upstream = async (): Promise<{ url: string }> => ({ url: await openUpstream((_, response) => response.end()) });

  async function serve(options: Record<string, unknown>) {
    const folder = await mkdtemp(join(tmpdir(), "sluice-gateway-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, "config.json");
    const write = (changes: Record<string, unknown>) =>
      writeFile(file, JSON.stringify({ listen: { port: 0 }, workers: 2, drainMs: 5000, ...options, ...changes }));
    await write({});
    const gateway = startGateway("--serve", file);
    return { ...gateway, write, port: Number((await gateway.until(/serving on port (\d+)/))[1]) };
  }

  /** Asks until everybody in turn was refused: how many were admitted at each port, and what else was answered. */
  async function drain(
    ports: readonly number[],
    asksAtOnce: number,
  ): Promise<{ admitted: number[]; others: Set<number> }> {
    const admitted = ports.map(() => 0);
    const others = new Set<number>();
    await Promise.all(Array.from({ length: asksAtOnce }, async (_, i) => {
      for (;;) {
        const { status } = await asAcme(ports[i % ports.length]);
        if (status === 200) admitted[i % ports.length]++;
        else {
          others.add(status);
          return;
        }
      }
    }));
    return { admitted, others };
  }

  it.each([["strict", "exactly"], ["leased", "never more"]])(
    "shares one limit among two processes, %s: %s",
    async (mode) => {
      const options = {
        store: { url: server.url, mode, onFailure: "closed" },
        upstream: await upstream(),
        ...quota(400),
      };
      const gateways = await Promise.all([serve(options), serve(options)]);
      const { admitted, others } = await drain(gateways.map(({ port }) => port), 16);
      expect([...others]).toEqual([429]);
      expect(Math.min(...admitted)).toBeGreaterThan(0);
      const sum = admitted[0] + admitted[1];
      if (mode === "strict") expect(sum).toBe(400);
      else expect(sum).toBeLessThanOrEqual(400);
      for (const { child, end } of gateways) {
        child.kill("SIGTERM");
        expect(await end()).toMatchObject({ code: 0, err: "" });
      }
    },
  );

  it("sends the headers that it sends over its own table, and charges a tenant and a route both or neither", async () => {
    const options = { workers: 1, upstream: await upstream(), ...quota(5), routes: { "/reports": limit(2) } };
    const [far, near] = [await openGateway({ ...options, store: server.url }), await openGateway(options)];
    const told = ({ status, headers, body }: Answer) => {
      // Seconds pass.
      const rateLimit = String(headers.ratelimit).replace(/t=\d+/, "t=");
      return [
        status,
        headers["ratelimit-policy"],
        rateLimit,
        headers["content-type"],
        status === 429 && JSON.parse(body),
      ];
    };
    for (const path of ["/", "/reports", "/reports", "/reports", "/reports", "/", "/", "/"]) {
      expect(told(await asAcme(far.port, path)), path).toEqual(told(await asAcme(near.port, path)));
    }
    expect((await asAcme(far.port)).status).toBe(429);
  });

  it("counts what all its workers decided, by the names of the limits", async () => {
    const { port, adminPort } = await openGateway({
      workers: 2,
      admin: { port: 0 },
      store: server.url,
      upstream: await upstream(),
      ...quota(3),
    });
    for (let i = 0; i < 5; i++) await asAcme(port);
    const metrics = async () => (await ask(adminPort!, "/metrics")).body;
    await until(
      "both have told",
      async () =>
        /allowed_total\{table="redis",limiter="tier quota"\} 3\n[^]*denied_total\{table="redis",limiter="tier quota"\} 2\n/
          .test(await metrics()),
    );
    expect(await metrics()).toContain("sluice_degraded_total{table=\"redis\",limiter=\"tier quota\"} 0\n");
    await server.kill();
    await asAcme(port);
    await until(
      "that is told",
      async () => (await metrics()).includes("sluice_degraded_total{table=\"redis\",limiter=\"tier quota\"} 1\n"),
    );
    await server.restart();
  });

  it("starts without Redis, answers other proxies 503 too, and ends as it should", async () => {
    const { port, child, end } = await serve({
      store: { url: `redis://127.0.0.1:${await freePort()}`, mode: "leased", onFailure: "closed" },
      upstream: await upstream(),
      ...quota(5),
      trustedProxies: ["127.0.0.1"],
      forwardAuth: { path: "/auth" },
    });
    expect((await asAcme(port)).status).toBe(503);
    expect((await asAcme(port, "/auth")).status).toBe(503);
    child.kill("SIGTERM");
    expect(await end()).toMatchObject({ code: 0, err: "" });
  });

  it.each(["closed", "local"])(
    "goes on when Redis is killed under load, as onFailure %j says, and asks it again when it is back",
    async (onFailure) => {
      const { port } = await openGateway({
        workers: 2,
        store: { url: server.url, onFailure },
        upstream: await upstream(),
        tenants: quota(1).tenants,
        tiers: { quota: { perSecond: 1, burst: 1e6 } },
      });
      const counts: Record<string, number> = {};
      let isOver = false;
      const clients = Array.from({ length: 8 }, async () => {
        while (!isOver) {
          const { status, headers } = await asAcme(port);
          const key = `${status} ${status === 503 ? String(headers["content-type"]) : ""}`.trim();
          counts[key] = (counts[key] ?? 0) + 1;
        }
      });
      const seen = (key: string, more: number) => {
        const before = counts[key] ?? 0;
        return until(`${more} more of ${key}`, () => (counts[key] ?? 0) >= before + more);
      };
      await until("Redis has been asked", async () => (await server.ask("DBSIZE")).startsWith(":1"));
      await seen("200", 50);
      await server.kill();
      await seen(onFailure === "closed" ? "503 application/problem+json" : "200", 50);
      await server.restart();
      await until("Redis has been asked again", async () => (await server.ask("DBSIZE")).startsWith(":1"));
      await seen("200", 50);
      isOver = true;
      await Promise.all(clients);
      expect(Object.keys(counts).sort()).toEqual(
        onFailure === "closed" ? ["200", "503 application/problem+json"] : ["200"],
      );
    },
  );

  it.each(["strict", "leased"])(
    "takes other limits on SIGHUP, under load, and what was used stays used: %s",
    async (mode) => {
      const gateway = await serve({ store: { url: server.url, mode }, upstream: await upstream(), ...quota(100) });
      const { port, child, write, until: printed, end } = gateway;
      const [before] = (await drain([port], 8)).admitted;
      if (mode === "strict") expect(before).toBe(100);
      expect(before).toBeLessThanOrEqual(100);
      await write(quota(150));
      // It asks all the time, and nothing but refusals is expected: a larger bucket is no fuller.
      const during = Array.from({ length: 20 }, () => asAcme(port));
      child.kill("SIGHUP");
      await printed(/is in force/);
      const { admitted, others } = await drain([port], 8);
      expect([...others]).toEqual([429]);
      const statuses = (await Promise.all(during)).map(({ status }) => status);
      expect(statuses.every((status) => status === 200 || status === 429)).toBe(true);
      expect(before + admitted[0] + statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(
        mode === "strict" ? 100 : 150,
      );
      expect((await asAcme(port)).headers["ratelimit-policy"]).toMatch(/^"tier quota";q=150;/);
      await write({ ...quota(150), store: `${server.url}/1` });
      child.kill("SIGHUP");
      await printed(/stays in force: "store" expected what it was started with/);
      child.kill("SIGTERM");
      expect(await end()).toMatchObject({ code: 0, err: "" });
    },
  );
});
