// Real servers for the tests: redis-server, or Valkey's, on free ports of the
// loopback, each in a directory of its own that goes with it. What was started
// is killed when the process ends, however it ends.

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

function isThere(binary: string): boolean {
  return spawnSync(binary, ["--version"]).status === 0;
}

/** redis-server, installed by apt if this is root's machine; undefined (and said) if there is none. */
function findServer(): string | undefined {
  if (isThere("redis-server")) return "redis-server";
  if (process.getuid?.() === 0) {
    try {
      execFileSync("apt-get", ["install", "-y", "--no-install-recommends", "redis-server"], {
        stdio: "ignore",
        timeout: 120_000,
      });
    } catch {
      // Said below.
    }
    if (isThere("redis-server")) return "redis-server";
  }
  console.warn(
    "skipped: no redis-server here, and none could be installed; `apt-get install redis-server` lets these tests run",
  );
  return undefined;
}

export const redisBinary = findServer();
export const valkeyBinary = isThere("valkey-server") ? "valkey-server" : undefined;
if (redisBinary && !valkeyBinary) console.warn("no valkey-server here: Redis alone is tested");

const running = new Set<ChildProcess>();
const killAll = (): void => {
  for (const child of running) child.kill("SIGKILL");
};
process.on("exit", killAll);
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    killAll();
    process.kill(process.pid, signal);
  });
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** The reply to one command on a connection of its own, as the protocol spells it. */
function ask(port: number, command: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(`${command}\r\n`));
    socket.once("data", (bytes) => {
      resolve(bytes.toString());
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Resolves once `isTrue`; throws with `what` if that takes more than a minute. */
export async function until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 6000; i++) {
    if (await isTrue()) return;
    await pause(10);
  }
  throw new Error(`waited in vain until ${what}`);
}

export class RedisServer {
  readonly port: number;
  readonly #binary: string;
  readonly #args: readonly string[];
  readonly #home = mkdtempSync(join(tmpdir(), "sluice-redis-"));
  #child: ChildProcess | undefined;

  private constructor(binary: string, port: number, args: readonly string[]) {
    this.#binary = binary;
    this.port = port;
    this.#args = args;
  }

  /** Starts a server that keeps nothing on disk. */
  static async start(args: readonly string[] = [], binary = redisBinary!): Promise<RedisServer> {
    const server = new RedisServer(binary, await freePort(), args);
    await server.restart();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Starts it again on its port, with nothing in it, not even scripts. */
  async restart(): Promise<void> {
    const child = spawn(this.#binary, [
      "--port",
      String(this.port),
      "--bind",
      "127.0.0.1",
      "--dir",
      this.#home,
      "--save",
      "",
      "--appendonly",
      "no",
      ...this.#args,
    ], { stdio: "ignore" });
    this.#child = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    await until(
      `the server on port ${this.port} answers`,
      () => this.ask("PING").then((reply) => reply.startsWith("+PONG"), () => false),
    );
  }

  ask(command: string): Promise<string> {
    return ask(this.port, command);
  }

  /** Ends it without a word, as a power cut would. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  /** Stops it in its tracks: connections stay open, and nothing is answered until `resume`. */
  pause(): void {
    this.#child!.kill("SIGSTOP");
  }

  resume(): void {
    this.#child!.kill("SIGCONT");
  }

  /** Kills it and removes what it left. */
  async close(): Promise<void> {
    await this.kill();
    rmSync(this.#home, { recursive: true, force: true });
  }
}
