/** What the gateway limits, by which bucket, and what it answers. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { isBelow, readingsOf } from "../../examples/gateway/paths.js";
import { startClients } from "./clients.js";
import { ask, askAsAcme, KEY, openGateway, openUpstream, quota, serve } from "./gateway.js";

describe("the gateway", { timeout: 60_000 }, () => {
  it("keeps one exact limit over all its workers", async () => {
    // Each worker has one connection to the upstream, which counts the connections.
    const sockets = new Set<Socket>();
    const url = await openUpstream((asked, response) => {
      sockets.add(asked.socket);
      response.end();
    });
    const { gateway, port } = await openGateway({ workers: 4, upstream: { url, connections: 1 }, ...quota(1000) });
    const clients = startClients(port, 64);
    await clients.untilRefused();
    expect(await clients.stop()).toMatchObject({ errors: 0 });
    expect(clients.statuses[200]).toBe(1000);
    expect(Object.keys(clients.statuses)).toEqual(["200", "429"]);
    expect(sockets.size).toBe(4);
    expect(gateway.sluice.stats().limiters["tier quota"].allowed).toBe(1000);
    expect(gateway.sluice.audit().clean).toBe(true);
  });

  it("shares a route's limit among all clients, however they spell the path", async () => {
    const { port } = await openGateway({
      workers: 2,
      upstream: { url: await openUpstream() },
      ...quota(1000),
      anonymous: "quota",
      routes: { "/reports": { perSecond: 0, burst: 3 }, "/reports/small": { perSecond: 0, burst: 1 } },
    });
    const statuses = async (...paths: string[]): Promise<number[]> => {
      const answers: number[] = [];
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
    // An upstream that resolves `/../` reads these as another path; one that does not, as the route.
    "/reports/../x",
    "/reports/..\\x",
    "/reports%2F..%2Fx",
    "/%72eports/%ff",
  ])("counts %s to the route that some upstream reads it as", (path) => {
    const readings = readingsOf(path);
    expect([isBelow(readings, "/reports"), isBelow(readings, "/"), isBelow(readings, "/report")]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it("rejects requests without a known API key, and limits wrong keys by address", async () => {
    const url = await openUpstream();
    const { port } = await openGateway({ workers: 1, upstream: { url }, ...quota(3) });
    const guess = (at: number) => ask(at, "/", { headers: { "x-api-key": "guess" } });
    expect((await ask(port)).status).toBe(401);
    expect(await guess(port)).toMatchObject({
      status: 401,
      body: "\"x-api-key\" expected an API key that this gateway knows\n",
    });

    const { port: open } = await openGateway({ workers: 1, upstream: { url }, ...quota(3), anonymous: "quota" });
    expect((await ask(open)).status).toBe(200);
    for (const status of [401, 401, 429]) expect((await guess(open)).status).toBe(status);
    expect((await askAsAcme(open)).status).toBe(200);
  });

  it.each([undefined, "quota"])(
    "charges a route nothing for requests that it answers 401, anonymous: %s",
    async (anonymous) => {
      const { port } = await openGateway({
        workers: 1,
        upstream: { url: await openUpstream() },
        ...quota(3),
        ...(anonymous && { anonymous }),
        routes: { "/": { perSecond: 0, burst: 1 } },
      });
      for (let i = 0; i < 2; i++) {
        expect((await ask(port, "/", { headers: { "x-api-key": "guess" } })).status).toBe(401);
      }
      expect([(await askAsAcme(port)).status, (await askAsAcme(port)).status]).toEqual([200, 429]);
    },
  );

  it("applies the same limits to requests that another proxy asks about", async () => {
    const { port } = await openGateway({
      workers: 2,
      upstream: { url: await openUpstream() },
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
    expect((await askAsAcme(port)).status).toBe(200);
    expect(await auth("/")).toBe(204);
    expect(await auth("/")).toBe(403);
  });

  it("admits everything that another proxy asks about if there are no limits", async () => {
    const { port } = await openGateway({
      workers: 1,
      upstream: { url: await openUpstream() },
      trustedProxies: ["127.0.0.1"],
      forwardAuth: { path: "/auth" },
    });
    expect((await ask(port, "/auth", { headers: { "x-forwarded-for": "1.2.3.4" } })).status).toBe(204);
  });

  it("forwards nothing from a client that has disconnected, because its address is not known any more", async () => {
    const seen: (string | undefined)[] = [];
    const url = await openUpstream((asked, response) => {
      seen.push(asked.method);
      response.end();
    });
    const { child, port } = await serve({ workers: 1, upstream: { url } });
    await ask(port);
    // The gateway reads these requests after their clients have gone.
    child.kill("SIGSTOP");
    for (let i = 0; i < 20; i++) {
      const socket = connect(port, "127.0.0.1");
      await new Promise((resolve) =>
        socket.write("POST / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.7\r\nContent-Length: 0\r\n\r\n", resolve)
      );
      socket.resetAndDestroy();
      await once(socket, "close");
    }
    child.kill("SIGCONT");
    for (let i = 0; i < 3; i++) await ask(port);
    expect(seen).toEqual(["GET", "GET", "GET", "GET"]);
  });

  it("serves /health and the counts of all its workers on the admin port", async () => {
    const { gateway, port } = await openGateway({
      workers: 2,
      admin: { port: 0 },
      upstream: { url: await openUpstream() },
      ...quota(3),
    });
    const admin = gateway.adminPort!;
    for (let i = 0; i < 5; i++) await askAsAcme(port);
    expect(await ask(admin, "/health")).toMatchObject({ status: 200, body: "ready\n" });
    const { body } = await ask(admin, "/metrics");
    expect(body).toContain("sluice_allowed_total{table=\"main\",limiter=\"tier quota\"} 3\n");
    expect(body).toContain("sluice_denied_total{table=\"main\",limiter=\"tier quota\"} 2\n");
    expect(body).toContain("sluice_threads{table=\"main\"} 3\n");
    expect((await ask(admin, "/")).status).toBe(404);
  });
});
