/**
 * The gateway with its limits in Redis: one limit for several gateways, also when Redis
 * fails or the configuration changes.
 */
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { freePort, redisBinary, RedisServer, until } from "../redis/server.js";
import { acmeWith, type Answer, ask, askAsAcme, checked, KEY, openGateway, openUpstream, serve } from "./gateway.js";

/** A rate so low that no token comes back during a test. */
const limit = (burst: number) => ({ perDay: 1, burst });
const quota = (burst: number) => acmeWith(limit(burst));

describe.skipIf(!redisBinary)("the gateway over Redis", { timeout: 60_000 }, () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server?.close());
  beforeEach(async () => {
    await server.ask("FLUSHALL");
  });

  const upstream = async (): Promise<{ url: string }> => ({ url: await openUpstream() });

  /** Sends requests until each of `clients` was refused. Counts the admitted ones by port, and notes other statuses. */
  async function drain(
    ports: readonly number[],
    clients: number,
  ): Promise<{ admitted: number[]; others: Set<number> }> {
    const admitted = ports.map(() => 0);
    const others = new Set<number>();
    await Promise.all(Array.from({ length: clients }, async (_, i) => {
      for (;;) {
        const { status } = await askAsAcme(ports[i % ports.length]);
        if (status === 200) admitted[i % ports.length]++;
        else {
          others.add(status);
          return;
        }
      }
    }));
    return { admitted, others };
  }

  it.each([["strict", "exactly"], ["leased", "at most"]])(
    "in %s mode admits %s one limit over two processes",
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

  it("sends the same headers as with its own table, and charges a tenant and a route both or neither", async () => {
    const options = { workers: 1, upstream: await upstream(), ...quota(5), routes: { "/reports": limit(2) } };
    const [far, near] = [await openGateway({ ...options, store: server.url }), await openGateway(options)];
    const comparable = ({ status, headers, body }: Answer) => {
      // The seconds that are left depend on when the request is made.
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
      expect(comparable(await askAsAcme(far.port, path)), path).toEqual(comparable(await askAsAcme(near.port, path)));
    }
    expect((await askAsAcme(far.port)).status).toBe(429);
  });

  it("counts the decisions of all its workers by the names of the limits", async () => {
    const { gateway, port } = await openGateway({
      workers: 2,
      admin: { port: 0 },
      store: server.url,
      upstream: await upstream(),
      ...quota(3),
    });
    for (let i = 0; i < 5; i++) await askAsAcme(port);
    const metrics = async () => (await ask(gateway.adminPort!, "/metrics")).body;
    await until(
      "both workers have reported",
      async () =>
        /allowed_total\{table="redis",limiter="tier quota"\} 3\n[^]*denied_total\{table="redis",limiter="tier quota"\} 2\n/
          .test(await metrics()),
    );
    expect(await metrics()).toContain("sluice_degraded_total{table=\"redis\",limiter=\"tier quota\"} 0\n");
    await server.kill();
    await askAsAcme(port);
    await until(
      "the degraded decision is reported",
      async () => (await metrics()).includes("sluice_degraded_total{table=\"redis\",limiter=\"tier quota\"} 1\n"),
    );
    await server.restart();
  });

  it("forwards nothing for a client that disconnects while Redis decides", async () => {
    const seen: (string | undefined)[] = [];
    const url = await openUpstream((asked, response) => {
      seen.push(asked.url);
      response.end();
    });
    const { port } = await openGateway({
      workers: 1,
      store: { url: server.url, onFailure: "open" },
      upstream: { url },
      ...quota(5),
    });
    await askAsAcme(port, "/first");
    server.pause();
    const client = connect(port, "127.0.0.1");
    client.write(`GET /gone HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${KEY}\r\n\r\n`);
    await sleep(50);
    client.destroy();
    // The first request is decided at the deadline of Redis, 250 ms. This one begins later and is decided later.
    await askAsAcme(port, "/last");
    server.resume();
    expect(seen).toEqual(["/first", "/last"]);
  });

  it("forwards a request that Redis decides during a reload", async () => {
    const options = {
      workers: 1,
      store: { url: server.url, onFailure: "open" },
      upstream: await upstream(),
      ...quota(5),
    };
    const { gateway, port } = await openGateway(options);
    expect((await askAsAcme(port)).status).toBe(200);
    server.pause();
    const asking = askAsAcme(port);
    await sleep(50);
    gateway.reload(checked(options));
    expect((await asking).status).toBe(200);
    server.resume();
  });

  it("starts without Redis, answers 503, to other proxies too, and stops cleanly", async () => {
    const { port, child, end } = await serve({
      store: { url: `redis://127.0.0.1:${await freePort()}`, mode: "leased", onFailure: "closed" },
      upstream: await upstream(),
      ...quota(5),
      trustedProxies: ["127.0.0.1"],
      forwardAuth: { path: "/auth" },
    });
    expect((await askAsAcme(port)).status).toBe(503);
    expect((await askAsAcme(port, "/auth")).status).toBe(503);
    child.kill("SIGTERM");
    expect(await end()).toMatchObject({ code: 0, err: "" });
  });

  it.each(["closed", "local"])(
    "applies onFailure %j when Redis is killed under load, and uses Redis again when it is back",
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
          const { status, headers } = await askAsAcme(port);
          const key = `${status} ${status === 503 ? String(headers["content-type"]) : ""}`.trim();
          counts[key] = (counts[key] ?? 0) + 1;
        }
      });
      const seen = (key: string, more: number) => {
        const before = counts[key] ?? 0;
        return until(`${more} more of ${key}`, () => (counts[key] ?? 0) >= before + more);
      };
      await until("Redis holds a key", async () => (await server.ask("DBSIZE")).startsWith(":1"));
      await seen("200", 50);
      await server.kill();
      await seen(onFailure === "closed" ? "503 application/problem+json" : "200", 50);
      await server.restart();
      await until("Redis holds a key again", async () => (await server.ask("DBSIZE")).startsWith(":1"));
      await seen("200", 50);
      isOver = true;
      await Promise.all(clients);
      expect(Object.keys(counts).sort()).toEqual(
        onFailure === "closed" ? ["200", "503 application/problem+json"] : ["200"],
      );
    },
  );

  it.each(["strict", "leased"])(
    "in %s mode applies new limits on SIGHUP under load, and what was used stays used",
    async (mode) => {
      const gateway = await serve({ store: { url: server.url, mode }, upstream: await upstream(), ...quota(100) });
      const { port, child, write, printed, end } = gateway;
      const [before] = (await drain([port], 8)).admitted;
      if (mode === "strict") expect(before).toBe(100);
      expect(before).toBeLessThanOrEqual(100);
      await write(quota(150));
      // Requests during the reload. A larger burst does not fill the bucket, so refusals are expected.
      const during = Array.from({ length: 20 }, () => askAsAcme(port));
      child.kill("SIGHUP");
      await printed(/reloaded/);
      const { admitted, others } = await drain([port], 8);
      expect([...others]).toEqual([429]);
      const statuses = (await Promise.all(during)).map(({ status }) => status);
      expect(statuses.every((status) => status === 200 || status === 429)).toBe(true);
      expect(before + admitted[0] + statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(
        mode === "strict" ? 100 : 150,
      );
      expect((await askAsAcme(port)).headers["ratelimit-policy"]).toMatch(/^"tier quota";q=150;/);
      await write({ ...quota(150), store: `${server.url}/1` });
      child.kill("SIGHUP");
      await printed(/stays in force: "store" expected the same as at the start/);
      child.kill("SIGTERM");
      expect(await end()).toMatchObject({ code: 0, err: "" });
    },
  );
});
