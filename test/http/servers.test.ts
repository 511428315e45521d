/** Every adapter on a real server of its framework: the same requests get the same answers. */
import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import { type Limiter, ManualClock, Sluice } from "sluice";
import { type Answer, clientAddress, type Reader } from "sluice/http";
import { limitExpress } from "sluice/http/express";
import { limitFastify } from "sluice/http/fastify";
import { limitHono } from "sluice/http/hono";
import { limitNest } from "sluice/http/nest";
import { limitHttp } from "sluice/http/node";
import { afterEach, describe, expect, it } from "vitest";
import { create as createTable, openTable } from "../tables.js";
import { startWorker } from "../threads/crew.js";
import { type AnyOptions, servers } from "./servers.js";

const cleanUp: (() => unknown)[] = [];

afterEach(async () => {
  for (const each of cleanUp.splice(0).reverse()) await each();
});

function create(): { sluice: Sluice; clock: ManualClock; user: Limiter; everybody: Limiter } {
  const { sluice, clock } = createTable();
  return {
    sluice,
    clock,
    user: sluice.tokenBucket("user", { rate: 0.5, burst: 2 }),
    everybody: sluice.tokenBucket("everybody", { rate: 1, burst: 100 }),
  };
}

interface Got {
  status: number;
  headers: Headers;
  body: string;
}

const byUser = (request: unknown, reader: Reader<any>): string => String(reader.header(request, "user"));
const left = (limiter: Limiter, key?: string): number =>
  (key === undefined ? limiter.global.peek(0) : limiter.peek(key, 0)).remaining;

describe.each(Object.keys(servers))("%s", (framework) => {
  async function start(
    options: AnyOptions,
    route?: AnyOptions,
  ): Promise<(headers?: Record<string, string>, path?: string, method?: string, host?: string) => Promise<Got>> {
    const { port, close } = await servers[framework]({ options, ...(route && { route }) });
    cleanUp.push(close);
    return async (headers = {}, path = "/", method = "GET", host = "127.0.0.1") => {
      const response = await fetch(`http://${host}:${port}${path}`, { headers: { user: "alice", ...headers }, method });
      return { status: response.status, headers: response.headers, body: await response.text() };
    };
  }

  it("admits with the fields set, and refuses with a problem and the time to retry", async () => {
    const { clock, user, everybody } = create();
    const ask = await start({ limits: [{ limiter: user, key: byUser }, { limiter: everybody }] });
    for (const remaining of [1, 0]) {
      const { status, headers, body } = await ask();
      expect([status, body]).toEqual([200, "ok"]);
      expect(headers.get("ratelimit-policy")).toBe("\"user\";q=2;w=4, \"everybody\";q=100;w=100");
      expect(headers.get("ratelimit")).toBe(`"user";r=${remaining};t=${remaining ? 2 : 4}`);
      expect(headers.get("retry-after")).toBeNull();
    }
    const { status, headers, body } = await ask();
    expect(status).toBe(429);
    expect(headers.get("content-type")).toMatch(/^application\/problem\+json/);
    expect(headers.get("retry-after")).toBe("2");
    expect(headers.get("ratelimit")).toBe("\"user\";r=0;t=2");
    expect(JSON.parse(body)).toMatchObject({
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      status: 429,
      "violated-policies": ["user"],
    });
    expect(left(everybody)).toBe(98);
    expect((await ask({ user: "bob" })).status).toBe(200);
    clock.advance(2000);
    expect((await ask()).status).toBe(200);
  });

  it("limits each route by its own limits", async () => {
    const { user, everybody } = create();
    const ask = await start({ limits: [{ limiter: user }] }, {
      limits: [{ limiter: everybody, cost: 60 }],
      headers: "draft-6",
    });
    const answers = [await ask(), await ask({}, "/route"), await ask(), await ask({}, "/route"), await ask()];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
    expect(
      ["ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"].map((name) =>
        answers[1].headers.get(name)
      ),
    ).toEqual(["100;w=100", "100", "40", "60"]);
    expect(answers[3].headers.get("retry-after")).toBe("20");
  });

  it("waits for functions that return promises", async () => {
    const { user } = create();
    const soon = <Value>(value: Value): Promise<Value> => new Promise((resolve) => setImmediate(resolve, value));
    const ask = await start({
      limits: [{
        limiter: () => soon(user),
        key: (request, reader) => soon(byUser(request, reader)),
        cost: () => soon(2),
      }],
      skip: () => soon(false),
      onLimited: () => soon(undefined),
    });
    expect([(await ask()).status, (await ask()).status, (await ask({ user: "bob" })).status]).toEqual([200, 429, 200]);
  });

  it.each<[string, () => string | Promise<string>]>([
    ["throws", () => {
      throw new Error("lost");
    }],
    ["rejects", () => Promise.reject(new Error("lost"))],
  ])("passes on to the framework what a function of the options %s, and takes nothing", async (_, key) => {
    const { user, everybody } = create();
    const ask = await start({ limits: [{ limiter: everybody }, { limiter: user, key }] });
    const { status, body } = await ask();
    expect(status).toBe(500);
    expect(body).toMatch(framework === "nest" ? /Internal server error/ : /^lost$/);
    expect([left(everybody), left(user)]).toEqual([100, 2]);
  });

  it("applies its lists to the address that the proxy reports", async () => {
    const { user } = create();
    const client = clientAddress({ hops: 1 });
    const ask = await start({
      limits: [{ limiter: user, key: client, cost: 2 }],
      client,
      allow: { addresses: ["192.0.2.0/24"] },
      deny: { addresses: ["198.51.100.7"], keys: ["203.0.113.66"] },
    });
    const by = async (address: string): Promise<number> =>
      (await ask({ "X-Forwarded-For": `10.9.9.9, ${address}` })).status;
    expect([
      await by("192.0.2.1"),
      await by("192.0.2.1"),
      await by("198.51.100.7"),
      await by("::ffff:198.51.100.7"),
      await by("203.0.113.66"),
    ]).toEqual([200, 200, 403, 403, 403]);
    expect([
      await by("203.0.113.7"),
      await by("203.0.113.8"),
      await by("::ffff:203.0.113.7"),
      await by("203.0.113.8:4711"),
    ]).toEqual([200, 200, 429, 429]);
  });

  it("keys its peer by the address, an IPv4 one also on a server that listens on ::", async () => {
    const { user } = create();
    const ask = await start({ limits: [{ limiter: user, key: clientAddress() }] });
    await ask({}, "/", "GET", "127.0.0.1");
    expect([left(user, "127.0.0.1"), left(user, "::/56")]).toEqual([1, 2]);
    await ask({}, "/", "GET", "[::1]");
    expect([left(user, "127.0.0.1"), left(user, "::/56")]).toEqual([1, 1]);
  });

  it("has one bucket for all peers on a Unix socket", async () => {
    const { user } = create();
    const folder = await mkdtemp(join(tmpdir(), "sluice-"));
    cleanUp.push(() => rm(folder, { recursive: true, force: true }));
    const socketPath = join(folder, "socket");
    const { close } = await servers[framework]({
      options: { limits: [{ limiter: user, key: clientAddress() }] },
      path: socketPath,
    });
    cleanUp.push(close);
    const ask = async (): Promise<number> => {
      const [response] = await once(httpRequest({ socketPath, path: "/", agent: false }).end(), "response");
      response.resume();
      return response.statusCode as number;
    };
    expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 429]);
    expect(left(user, "unix")).toBe(0);
  });

  it("refuses no request in shadow mode, and reports", async () => {
    const { user } = create();
    const reported: Answer[] = [];
    const ask = await start({
      limits: [{ limiter: user }],
      shadow: true,
      onLimited: (_, answer) => reported.push(answer),
    });
    const answers = [await ask(), await ask(), await ask()];
    expect(answers.map(({ status, headers }) => [status, headers.get("ratelimit"), headers.get("retry-after")]))
      .toEqual([[200, "\"user\";r=1;t=2", null], [200, "\"user\";r=0;t=4", null], [200, "\"user\";r=0;t=2", null]]);
    expect(reported.map(({ allowed, refusal, policy }) => [allowed, refusal, policy])).toEqual([[
      true,
      "limited",
      "user",
    ]]);
  });

  it("answers with the response of respond", async () => {
    const { user } = create();
    const ask = await start({
      limits: [{ limiter: user, cost: 2 }],
      respond: (_, { decision }) => ({
        status: 503,
        contentType: "application/json",
        body: JSON.stringify({ again: decision!.retryAfterMs }),
      }),
    });
    await ask();
    const { status, headers, body } = await ask();
    expect([status, headers.get("content-type")?.split(";")[0], headers.get("retry-after"), JSON.parse(body)]).toEqual([
      503,
      "application/json",
      "4",
      { again: 4000 },
    ]);
  });

  it("counts HEAD requests, and refuses them without a body", async () => {
    const { user } = create();
    const ask = await start({ limits: [{ limiter: user }] });
    const answers = [await ask({}, "/", "HEAD"), await ask({}, "/", "HEAD"), await ask({}, "/", "HEAD")];
    expect(answers.map(({ status, body }) => [status, body])).toEqual([[200, ""], [200, ""], [429, ""]]);
  });
});

describe("the types of the adapters", () => {
  it("give the functions of the options the framework's own request", () => {
    const { user } = create();
    interface Signed {
      Variables: { user: string };
    }
    const app = new Hono<Signed>();
    expect([
      limitHttp({
        limits: [{
          limiter: user,
          key: (request) => request.headers.authorization ?? null,
          cost: (request) => request.url?.length ?? 1,
        }],
      }),
      limitExpress({
        limits: [{ limiter: user, key: (request) => request.ip ?? null }, { limiter: user, key: clientAddress() }],
        skip: (request) => request.path === "/health",
      }),
      limitFastify({
        limits: [{ limiter: user, key: (request) => request.ip }],
        onLimited: (request, answer) => request.log.info(answer.policy),
      }),
      limitNest({ limits: [{ limiter: user, key: async (request) => request.method ?? "GET" }] }),
      app.use(limitHono<Signed>({ limits: [{ limiter: user, key: (c) => c.get("user") }] })),
      express().get("/", limitExpress({ limits: [{ limiter: user }] }), (_, response) => {
        response.send("ok");
      }),
      Fastify().get("/", { onRequest: limitFastify({ limits: [{ limiter: user }] }) }, async () => "ok"),
    ]).not.toContain(undefined);
  });
});

describe("servers of several frameworks on threads of one process", () => {
  it("share one limit exactly", async () => {
    const sluice = openTable({ capacity: 1000 });
    const user = sluice.tokenBucket("user", { rate: 0, burst: 50 });
    sluice.tokenBucket("everybody", { rate: 0, burst: 120 });
    const frameworks = Object.keys(servers);
    const workers: Worker[] = frameworks.map((framework) =>
      startWorker(new URL("./server.worker.ts", import.meta.url), { handle: sluice.handle, framework })
    );
    cleanUp.push(() => Promise.all(workers.map((worker) => worker.terminate())));
    const ports = await Promise.all(
      workers.map(async (worker) => ((await once(worker, "message")) as [{ port: number }])[0].port),
    );

    const users = ["alice", "bob", "carol"];
    const answers: { port: number; name: string; status: number }[] = [];
    // Waves, in which every server is asked for every user at once.
    for (let wave = 0; wave < 12; wave++) {
      const requests = ports.flatMap((port) =>
        users.map(async (name) => {
          const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { user: name } });
          await response.text();
          return { port, name, status: response.status };
        })
      );
      answers.push(...(await Promise.all(requests)));
    }
    const admitted = answers.filter(({ status }) => status === 200);
    expect(answers.filter(({ status }) => status === 429).length).toBe(answers.length - 120);
    expect(admitted.length).toBe(120);
    for (const name of users) {
      expect(admitted.filter((answer) => answer.name === name).length).toBe(50 - user.peek(name, 0).remaining);
    }
    // Servers of several frameworks admitted the same user.
    const shared = users.filter((name) =>
      new Set(admitted.filter((answer) => answer.name === name).map(({ port }) => port)).size > 1
    );
    expect(shared).toEqual(users);
  });
});
