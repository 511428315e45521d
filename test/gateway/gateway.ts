// The gateway example as the tests use it: in this process, between upstreams
// and clients of theirs; or as a process of its own.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, request, type RequestListener, type RequestOptions } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import type { Worker } from "node:worker_threads";
import type { Sluice } from "sluice";
import { onTestFinished } from "vitest";

/** A module of the example, which has no types. */
export function moduleOf(file: string) {
  return import(new URL(`../../examples/gateway/${file}`, import.meta.url).href);
}

export interface Gateway {
  port: number;
  adminPort: number | undefined;
  sluice: Sluice;
  workers: Map<Worker, number>;
  reload(config: unknown): void;
  close(): Promise<void>;
  /** What it logged. */
  logged: string[];
}

/** A gateway on free ports, by options as a configuration file has them. It ends with the test. */
export async function openGateway(options: Record<string, unknown>): Promise<Gateway> {
  const logged: string[] = [];
  const gateway = await (await moduleOf("gateway.js")).openGateway(
    await checked(options),
    (message: string) => logged.push(message),
  );
  onTestFinished(() => gateway.close());
  return { ...gateway, logged };
}

/** Options with free ports, checked. */
export async function checked(options: Record<string, unknown>): Promise<unknown> {
  return (await moduleOf("config.js")).checkConfig({ listen: { port: 0 }, ...options });
}

/** An upstream on a free port, which ends with the test. */
export async function openUpstream(answer: RequestListener): Promise<string> {
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

/** Runs examples/gateway.js; `until` resolves once what it printed has the pattern. */
export function startGateway(...args: string[]) {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL("../../examples/gateway.js", import.meta.url)), ...args],
    {
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
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
    async until(pattern: RegExp): Promise<RegExpExecArray> {
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
