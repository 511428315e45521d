/** The gateway as a proxy: what it forwards, what it removes, and what it answers if the upstream does not. */
import { once } from "node:events";
import { createServer, type IncomingMessage, request } from "node:http";
import { type AddressInfo, connect, createServer as createNetServer } from "node:net";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { ask, openGateway, openUpstream } from "./gateway.js";

/** An upstream that answers with what it was asked. */
const openMirror = () =>
  openUpstream(async (asked, response) => {
    const { method, url, headers } = asked;
    response.writeHead(201, {
      "x-own": "yes",
      connection: "x-hop",
      "x-hop": "for you only",
      "set-cookie": ["a=1", "b=2"],
    });
    response.end(JSON.stringify({ method, url, headers, body: await text(asked) }));
  });

const openInFront = (url: string, options = {}, timeoutMs = 60_000) =>
  openGateway({ workers: 1, upstream: { url, timeoutMs }, drainMs: 500, ...options });

describe("the gateway", { timeout: 30_000 }, () => {
  it("forwards method, path, headers and body, and the answer", async () => {
    const { port } = await openInFront(await openMirror());
    const { status, headers, body } = await ask(port, "/a%20b?c=d", {
      method: "PUT",
      headers: { "x-mine": "kept" },
      body: "hello",
    });
    expect(status).toBe(201);
    expect(headers).toMatchObject({ "x-own": "yes", "set-cookie": ["a=1", "b=2"] });
    expect(JSON.parse(body)).toMatchObject({
      method: "PUT",
      url: "/a%20b?c=d",
      headers: { "x-mine": "kept" },
      body: "hello",
    });
  });

  it("forwards bodies of megabytes whole, both ways", async () => {
    const { port } = await openInFront(
      await openUpstream((asked, response) => {
        asked.pipe(response);
      }),
    );
    const body = "sixteen letters ".repeat(2 ** 18);
    for (const headers of [{}, { "content-length": body.length }]) {
      const answer = await ask(port, "/", { method: "POST", headers, body });
      expect(answer.status).toBe(200);
      expect(answer.body === body, `${answer.body.length} of ${body.length} came back`).toBe(true);
    }
  });

  it("removes hop-by-hop headers, both ways", async () => {
    const { port } = await openInFront(await openMirror());
    const { headers, body } = await ask(port, "/", {
      headers: {
        connection: "x-secret",
        "x-secret": "1",
        "keep-alive": "timeout=9",
        te: "trailers",
        "proxy-authorization": "Basic eA==",
      },
    });
    for (const name of ["x-secret", "keep-alive", "te", "proxy-authorization"]) {
      expect(JSON.parse(body).headers, name).not.toHaveProperty(name);
    }
    expect(headers).not.toHaveProperty("x-hop");
  });

  it("sends the upstream the client's address, which no client can forge, and the tenant for the API key", async () => {
    const { port } = await openInFront(await openMirror(), {
      tiers: { gold: { perSecond: 1, burst: 10 } },
      tenants: { acme: { apiKey: "acme-secret", tier: "gold" } },
    });
    const { body } = await ask(port, "/", {
      headers: {
        host: "shop.example",
        "x-forwarded-for": "1.2.3.4",
        forwarded: "for=1.2.3.4",
        "x-tenant": "initech",
        "X_Tenant": "initech",
        "x-forwarded_for": "1.2.3.4",
        x_own: "kept",
        "x-api-key": "acme-secret",
      },
    });
    const { headers } = JSON.parse(body);
    expect(headers).toMatchObject({
      "x-forwarded-for": "127.0.0.1",
      "x-forwarded-host": "shop.example",
      "x-forwarded-proto": "http",
      "x-tenant": "acme",
    });
    expect(headers).not.toHaveProperty("x-api-key");
    for (const name of ["forwarded", "x_tenant", "x-forwarded_for"]) expect(headers).not.toHaveProperty(name);
    expect(headers).toHaveProperty("x_own", "kept");
  });

  it("trusts X-Forwarded-For of trustedProxies, and appends their address", async () => {
    const { port } = await openInFront(await openMirror(), {
      trustedProxies: ["127.0.0.1"],
      tiers: { free: { perSecond: 0, burst: 1 } },
      anonymous: "free",
    });
    const from = (client: string) => ask(port, "/", { headers: { "x-forwarded-for": client } });
    expect(JSON.parse((await from("1.2.3.4")).body).headers).toMatchObject({ "x-forwarded-for": "1.2.3.4, 127.0.0.1" });
    expect((await from("1.2.3.4")).status).toBe(429);
    expect((await from("1.2.3.5")).status).toBe(201);
  });

  it("streams: the first part of a body arrives before the rest exists, both ways", async () => {
    const { port } = await openInFront(
      await openUpstream((asked, response) => {
        asked.pipe(response);
      }),
    );
    const asking = request({ port, method: "POST", agent: false });
    asking.write("one");
    const [response] = await once(asking, "response") as [IncomingMessage];
    expect(String((await once(response, "data"))[0])).toBe("one");
    asking.end("two");
    expect(await text(response)).toBe("two");
  });

  it("answers 502 while the upstream is down, and forwards again when it is back", async () => {
    const upstream = createServer((_, response) => response.end("up")).listen(0, "127.0.0.1");
    await once(upstream, "listening");
    const { port: at } = upstream.address() as AddressInfo;
    const { port } = await openInFront(`http://127.0.0.1:${at}`);
    expect(await ask(port)).toMatchObject({ status: 200, body: "up" });
    upstream.closeAllConnections();
    await new Promise((resolve) => upstream.close(resolve));
    expect(await ask(port)).toMatchObject({ status: 502, body: "the upstream cannot be reached\n" });
    const again = createServer((_, response) => response.end("up again")).listen(at, "127.0.0.1");
    onTestFinished(() => {
      again.close();
    });
    await once(again, "listening");
    expect(await ask(port)).toMatchObject({ status: 200, body: "up again" });
  });

  it("answers 504 if the upstream does not begin to answer in time", async () => {
    const { port } = await openInFront(await openUpstream(() => {}), {}, 300);
    expect(await ask(port)).toMatchObject({ status: 504, body: "the upstream took too long\n" });

    const silent = createNetServer((socket) => socket.on("error", () => {})).listen(0, "127.0.0.1");
    await once(silent, "listening");
    onTestFinished(() => {
      silent.close();
    });
    const { port: other } = await openInFront(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`, {}, 300);
    expect((await ask(other)).status).toBe(504);
  });

  it("cuts off an answer that the upstream cut off, so that no client takes a part for the whole", async () => {
    const { port } = await openInFront(
      await openUpstream((_, response) => {
        response.write("half");
        setTimeout(() => response.destroy(), 50);
      }),
    );
    await expect(ask(port)).rejects.toThrow(/aborted/);
  });

  it("cuts off an answer that stops in the middle for longer than the timeout", async () => {
    const { port } = await openInFront(
      await openUpstream((_, response) => {
        response.write("half");
      }),
      {},
      300,
    );
    await expect(ask(port)).rejects.toThrow(/aborted/);
  });

  it("survives malformed and unusual requests", async () => {
    const { gateway, port, logged } = await openInFront(await openMirror(), {
      tiers: { free: { perSecond: 1000, burst: 1000 } },
      anonymous: "free",
      routes: { "/a": { perSecond: 1000, burst: 1000 } },
    });
    for (
      const [head, status] of [
        ["GET * HTTP/1.1", 400],
        ["GET http://[/a HTTP/1.1", 400],
        ["GET http://other/a HTTP/1.1", 400],
        ["GET //[ HTTP/1.1", 201],
        ["GET /\\[ HTTP/1.1", 201],
        ["GET /%ff%00%zz HTTP/1.1", 201],
        ["OPTIONS /a HTTP/1.1", 201],
        ["POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 0", 100],
        ["GET /a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 400],
        ["GET /a HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket", 201],
        [`GET /a HTTP/1.1\r\nX: ${"x".repeat(100_000)}`, 431],
        ["GET /a HTTP/1.1\r\n__proto__: 1\r\nconstructor: 2", 201],
      ] as const
    ) {
      const socket = connect(port).on("error", () => {});
      socket.write(`${head}\r\nHost: x\r\n\r\n`);
      expect(String((await once(socket, "data"))[0]).slice(0, 12), head.slice(0, 60)).toBe(`HTTP/1.1 ${status}`);
      socket.destroy();
    }
    expect((await ask(port)).status).toBe(201);
    expect(gateway.workers.size).toBe(1);
    expect(logged).toEqual([]);
  });

  it("disconnects from the upstream when the client disconnects", async () => {
    let asking: ReturnType<typeof request>;
    const disconnected = new Promise((resolve) => {
      void openUpstream((asked) => {
        asked.socket.on("close", resolve);
        asking.destroy();
      }).then(async (url) => {
        // The timeout would disconnect too, but much later.
        const { port } = await openInFront(url);
        asking = request({ port, agent: false }).on("error", () => {}).end();
      });
    });
    await disconnected;
  });
});
