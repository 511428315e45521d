/** A proxy that asks first: the answers it gets, the headers that are believed, and nginx itself. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request as httpRequest, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createNetServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Limiter, ManualClock } from "sluice";
import { clientAddress, forwardAuth, type ForwardAuthOptions, type PlainRequest } from "sluice/http/node";
import { afterEach, describe, expect, it } from "vitest";
import { create as createTable } from "../tables.js";

const cleanUp: (() => unknown)[] = [];

afterEach(async () => {
  for (const each of cleanUp.splice(0).reverse()) await each();
});

function create(): { clock: ManualClock; user: Limiter } {
  const { sluice, clock } = createTable();
  return { clock, user: sluice.tokenBucket("user", { rate: 0.5, burst: 2 }) };
}

async function listen(listener: RequestListener, path?: string): Promise<number> {
  const server = createServer(listener);
  server.listen(path ? { path } : { port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  cleanUp.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return path ? 0 : (server.address() as AddressInfo).port;
}

interface Got {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: string;
}

/** fetch() forbids some of the headers that proxies send. */
async function get(
  port: number,
  headers: Record<string, string> = {},
  options: { method?: string; path?: string } = {},
): Promise<Got> {
  const [response] = await once(
    httpRequest({ host: "127.0.0.1", port, headers, agent: false, ...options }).end(),
    "response",
  );
  let body = "";
  for await (const chunk of response) body += chunk;
  return { status: response.statusCode, headers: response.headers, body };
}

describe("forwardAuth", () => {
  const client = clientAddress({ hops: 1 });
  const forwarded = {
    "X-Forwarded-For": "203.0.113.7",
    "X-Forwarded-Method": "POST",
    "X-Forwarded-Uri": "/orders?id=7",
  };

  async function start(
    options: Partial<ForwardAuthOptions>,
  ): Promise<{ port: number; seen: PlainRequest[]; user: Limiter; clock: ManualClock }> {
    const { user, clock } = create();
    const seen: PlainRequest[] = [];
    const limits = [{
      limiter: user,
      key: (request: PlainRequest, reader: Parameters<typeof client>[1]) => {
        seen.push(request);
        return client(request, reader as never);
      },
    }];
    return { port: await listen(forwardAuth({ limits, client, ...options } as ForwardAuthOptions)), seen, user, clock };
  }

  it("answers 204 or 429 with the fields, by the original method, URI and client", async () => {
    const { port, seen, clock } = await start({});
    expect(await get(port, forwarded)).toMatchObject({
      status: 204,
      body: "",
      headers: { ratelimit: "\"user\";r=1;t=2", "ratelimit-policy": "\"user\";q=2;w=4" },
    });
    expect(seen[0]).toMatchObject({
      method: "POST",
      url: "/orders?id=7",
      remoteAddress: "127.0.0.1",
      headers: { "x-forwarded-for": "203.0.113.7" },
    });
    await get(port, forwarded);
    const { status, headers, body } = await get(port, forwarded);
    expect({ status, type: headers["content-type"], after: headers["retry-after"] }).toEqual({
      status: 429,
      type: "application/problem+json",
      after: "2",
    });
    expect(JSON.parse(body)).toMatchObject({ status: 429, "violated-policies": ["user"] });
    expect((await get(port, { ...forwarded, "X-Forwarded-For": "203.0.113.8" })).status).toBe(204);
    clock.advance(2000);
    expect((await get(port, forwarded)).status).toBe(204);
  });

  it("reads only the headers that are named", async () => {
    const { port, seen } = await start({ original: { method: "X-Original-Method", uri: "X-Original-URL" } });
    await get(port, { ...forwarded, "X-Original-Method": "PUT", "X-Original-URL": "https://example.org/a?b=c" });
    await get(port, { ...forwarded, "X-Original-URL": "http://example.org" }, { method: "HEAD", path: "/auth" });
    expect(seen.map(({ method, url }) => [method, url])).toEqual([["PUT", "/a?b=c"], ["HEAD", "/"]]);
  });

  it("treats the request of an untrusted peer as the original one", async () => {
    const elsewhere = clientAddress({ trusted: ["192.0.2.0/24"] });
    const { user } = create();
    const seen: PlainRequest[] = [];
    const port = await listen(
      forwardAuth({
        client: elsewhere,
        limits: [{ limiter: user, key: elsewhere }],
        skip: (request) => {
          seen.push(request);
          return false;
        },
      }),
    );
    await get(port, forwarded, { path: "/auth" });
    expect(seen[0]).toMatchObject({ method: "GET", url: "/auth" });
    expect(user.peek("127.0.0.1", 0).remaining).toBe(1);
  });

  it("answers a limited request with limitedStatus, and a denied one with 403", async () => {
    const { port } = await start({ limitedStatus: 401, deny: { addresses: ["203.0.113.66"] } });
    const statuses: number[] = [];
    for (let i = 0; i < 3; i++) statuses.push((await get(port, forwarded)).status);
    expect(statuses).toEqual([204, 204, 401]);
    expect(await get(port, forwarded)).toMatchObject({ status: 401, headers: { "retry-after": "2" } });
    expect((await get(port, { "X-Forwarded-For": "203.0.113.66" })).status).toBe(403);
  });

  it.each<[string, () => string | Promise<string>]>([
    ["throws", () => {
      throw new Error("lost");
    }],
    ["rejects", () => Promise.reject(new Error("lost"))],
  ])("answers 500 and calls onError if a function %s", async (_, key) => {
    const { user } = create();
    const errors: unknown[] = [];
    const port = await listen(forwardAuth({
      client,
      limits: [{ limiter: user, key }],
      onError: (error, request) => {
        errors.push([(error as Error).message, request.url]);
      },
    }));
    const { status, body } = await get(port, forwarded);
    expect([status, JSON.parse(body)]).toEqual([500, {
      type: "about:blank",
      title: "Internal Server Error",
      status: 500,
    }]);
    expect(errors).toEqual([["lost", "/orders?id=7"]]);
  });

  it("emits a warning for an error without onError", async () => {
    const { user } = create();
    const port = await listen(forwardAuth({
      client,
      limits: [{
        limiter: user,
        key: () => {
          throw new Error("lost by the key");
        },
      }],
    }));
    const warned = once(process, "warning");
    expect((await get(port, forwarded)).status).toBe(500);
    expect((await warned)[0]).toMatchObject({ message: "lost by the key" });
  });

  it.each<[string, () => Promise<string>]>([
    ["null", () => {
      throw null;
    }],
    ["nothing", () => Promise.reject()],
    ["an object without a prototype", () => Promise.reject(Object.create(null))],
  ])("emits a warning and continues if a function throws %s", async (_, key) => {
    const { user } = create();
    const port = await listen(forwardAuth({ client, limits: [{ limiter: user, key }] }));
    const warned = once(process, "warning");
    expect((await get(port, forwarded)).status).toBe(500);
    expect((await warned)[0].message).toMatch(/^a function of the options threw /);
  });

  it.each<[(user: Limiter) => unknown, string]>([
    [() => undefined, "\"options\" expected an object, got undefined"],
    [
      (user) => ({ limits: [{ limiter: user }] }),
      "\"client\" expected clientAddress({ hops }) or clientAddress({ trusted }), got undefined",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], client: clientAddress() }),
      "\"client\" expected clientAddress({ hops }) or clientAddress({ trusted }), got a rule that reads no headers",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], client, original: { method: "x-method" } }),
      "\"original.uri\" expected the name of a header, got undefined",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], client, limitStatus: 401 }),
      "\"options\" has no option \"limitStatus\"; did you mean \"limitedStatus\"?",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], client, original: { method: "a", url: "b" } }),
      "\"original\" has no option \"url\"; did you mean \"uri\"?",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], client, limitedStatus: 429 }),
      "\"limitedStatus\" expected 401 or 403, got 429",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], client, onError: "log" }),
      "\"onError\" expected a function, got \"log\"",
    ],
    [
      () => ({ limits: [], client }),
      "\"limits\" expected an array of one { limiter, key?, cost? } or more, got an array",
    ],
  ])("refuses wrong options, %#, when it is made", (options, message) => {
    expect(() => forwardAuth(options(create().user) as ForwardAuthOptions)).toThrow(message);
  });
});

/** The nginx binary, installed if it is missing; or the reason why it cannot be. */
async function findNginx(): Promise<{ path: string } | { missing: string }> {
  const run = promisify(execFile);
  const found = async (): Promise<string> =>
    (await run("sh", ["-c", "PATH=$PATH:/usr/sbin command -v nginx"])).stdout.trim();
  try {
    return { path: await found() };
  } catch {
    try {
      await run("apt-get", ["install", "-y", "--no-install-recommends", "nginx-light"], { timeout: 120_000 });
      return { path: await found() };
    } catch (error) {
      return {
        missing: `no nginx, and apt-get could not install it: ${String((error as Error).message).split("\n")[0]}`,
      };
    }
  }
}

const nginx = await findNginx();
if ("missing" in nginx) console.log(`nginx's auth_request is not tested: ${nginx.missing}`);

async function freePort(): Promise<number> {
  const server = createNetServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

describe.skipIf("missing" in nginx)("nginx's auth_request", () => {
  /** Starts nginx with the `location`s of docs/http.md. */
  async function startNginx(auth: string, upstreamPort: number): Promise<number> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-nginx-"));
    cleanUp.push(() => rm(folder, { recursive: true, force: true }));
    await chmod(folder, 0o755);
    const page = await (await import("node:fs/promises")).readFile(
      new URL("../../docs/http.md", import.meta.url),
      "utf8",
    );
    const documented = /```nginx\n([\s\S]*?)```/.exec(page)![1];
    const locations = documented.replace("http://127.0.0.1:9000", auth).replace(
      "http://127.0.0.1:8080",
      `http://127.0.0.1:${upstreamPort}`,
    );
    expect(locations).toContain(auth);
    const port = await freePort();
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) =>
      `${name}_temp_path ${folder}/${name};`
    ).join("\n");
    await writeFile(
      join(folder, "nginx.conf"),
      `
      daemon off; pid ${folder}/pid; error_log stderr warn; worker_processes 1;
      events {}
      http { access_log off; ${temporary} server { listen 127.0.0.1:${port}; ${locations} } }`,
    );
    const child = spawn((nginx as { path: string }).path, [
      "-p",
      folder,
      "-c",
      join(folder, "nginx.conf"),
      "-e",
      "stderr",
    ], { stdio: ["ignore", "ignore", "pipe"] });
    let errors = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      errors += text;
    });
    const ended = once(child, "exit");
    cleanUp.push(async () => {
      child.kill("SIGTERM");
      await ended;
    });
    for (;;) {
      if (child.exitCode !== null) throw new Error(`nginx ended with ${child.exitCode}: ${errors}`);
      const isUp = await get(port).then(() => true, () => false);
      if (isUp) return port;
    }
  }

  it("admits with the fields, and turns a refusal into 429 with Retry-After", async () => {
    const { user, clock } = create();
    const client = clientAddress({ hops: 1 });
    const asked: PlainRequest[] = [];
    const listener = forwardAuth({
      client,
      limitedStatus: 401,
      original: { method: "x-original-method", uri: "x-original-uri" },
      limits: [{ limiter: user, key: ({ headers }) => String(headers["x-user"]) }],
      skip: (request) => request.headers["x-user"] === undefined || !asked.push(request),
      deny: { keys: ["mallory"] },
    });
    const authPort = await listen(listener);
    const upstreamPort = await listen((request, response) => {
      response.end(`${request.method} ${request.url}`);
    });
    const port = await startNginx(`http://127.0.0.1:${authPort}`, upstreamPort);

    const alice = { "X-User": "alice", "X-Original-URI": "/forged", "X-Original-Method": "FORGED" };
    expect(await get(port, alice, { path: "/orders?id=7", method: "DELETE" })).toMatchObject({
      status: 200,
      body: "DELETE /orders?id=7",
      headers: { ratelimit: "\"user\";r=1;t=2", "ratelimit-policy": "\"user\";q=2;w=4" },
    });
    expect(asked[0]).toMatchObject({ method: "DELETE", url: "/orders?id=7" });
    expect(client(asked[0], { header: ({ headers }, name) => headers[name], remoteAddress: () => "10.0.0.1" })).toBe(
      "127.0.0.1",
    );
    expect((await get(port, alice)).status).toBe(200);
    const { status, headers, body } = await get(port, alice);
    expect({ status, after: headers["retry-after"], limit: headers.ratelimit, type: headers["content-type"] }).toEqual({
      status: 429,
      after: "2",
      limit: "\"user\";r=0;t=2",
      type: "application/problem+json",
    });
    expect(JSON.parse(body)).toMatchObject({
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      status: 429,
    });
    expect((await get(port, { "X-User": "mallory" })).status).toBe(403);
    clock.advance(2000);
    expect((await get(port, alice)).status).toBe(200);
  });
});
