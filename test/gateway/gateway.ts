/**
 * The gateway example as the tests use it: in this process, or as a process of its own,
 * between an upstream and clients of the test. Everything ends with the test.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders, request, type RequestListener, type RequestOptions } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { checkConfig, type Config } from "../../examples/gateway/config.js";
import type { Gateway } from "../../examples/gateway/gateway.js";

/** A compiled program of examples/. */
export const programOf = (file: string): string =>
  fileURLToPath(new URL(`../../build/examples/${file}`, import.meta.url));

/** Options as a configuration file has them. */
export type Options = Record<string, unknown>;

/** Options with a free port, checked. */
export function checked(options: Options): Config {
  return checkConfig({ listen: { port: 0 }, ...options });
}

/** The API key of the tenant "acme". */
export const KEY = "acme-secret";

/** Options with one tenant, "acme", and its limit. */
export const acmeWith = (limit: Record<string, number>) => ({
  tiers: { quota: limit },
  tenants: { acme: { apiKey: KEY, tier: "quota" } },
});

/** Options that admit `burst` requests of "acme", ever. */
export const quota = (burst: number) => acmeWith({ perSecond: 0, burst });

/** A gateway in this process, on free ports, and what it logged. Its workers run the compiled example. */
export async function openGateway(options: Options): Promise<{ gateway: Gateway; port: number; logged: string[] }> {
  const { openGateway: open }: typeof import("../../examples/gateway/gateway.js") = await import(
    programOf("gateway/gateway.js")
  );
  const logged: string[] = [];
  const gateway = await open(checked(options), (message) => logged.push(message));
  onTestFinished(() => gateway.close());
  return { gateway, port: gateway.port, logged };
}

/** An upstream on a free port; its answers are empty unless `answer` says otherwise. Resolves to its URL. */
export async function openUpstream(answer: RequestListener = (_, response) => response.end()): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

/** One request on a connection of its own. */
export async function ask(
  port: number,
  path = "/",
  { body, ...options }: RequestOptions & { body?: string } = {},
): Promise<Answer> {
  const asking = request({ port, path, agent: false, ...options });
  asking.end(body);
  const [response] = await once(asking, "response");
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

/** One request of "acme". */
export const askAsAcme = (port: number, path = "/"): Promise<Answer> =>
  ask(port, path, { headers: { "x-api-key": KEY } });

/** Runs the example as a program; `printed` resolves when its output matches. */
export function startGateway(...args: string[]) {
  const child = spawn(process.execPath, [programOf("gateway.js"), ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (more: string) => {
    out += more;
  });
  child.stderr.setEncoding("utf8").on("data", (more: string) => {
    err += more;
  });
  const closed = once(child, "close");
  onTestFinished(() => {
    child.kill("SIGKILL");
  });

  return {
    child,
    async printed(pattern: RegExp): Promise<RegExpExecArray> {
      for (;;) {
        const match = pattern.exec(out);
        if (match !== null) return match;
        await Promise.race([
          once(child.stdout, "data"),
          closed.then(() => {
            throw new Error(`ended without ${pattern}:\n${out}${err}`);
          }),
        ]);
      }
    },
    async end() {
      const [code, signal] = await closed;
      return { code, signal, out, err };
    },
  };
}

/** Runs the example with a configuration file, which `write` writes again with changes. */
export async function serve(options: Options) {
  const folder = await mkdtemp(join(tmpdir(), "sluice-gateway-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "config.json");
  const write = (changes: Options) =>
    writeFile(file, JSON.stringify({ listen: { port: 0 }, workers: 2, drainMs: 5000, ...options, ...changes }));
  await write({});
  const gateway = startGateway("--serve", file);
  const [, port] = await gateway.printed(/serving on port (\d+)/);
  return { ...gateway, file, write, port: Number(port) };
}
