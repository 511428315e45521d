// A redis-server for one benchmark: on a free port of the loopback, with nothing
// on disk. It ends with this process.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Why no server can run here; undefined if one can. */
export function redisAbsent(): string | undefined {
  return spawnSync("redis-server", ["--version"]).status === 0
    ? undefined
    : "no redis-server: apt-get install redis-server";
}

/** Resolves to its port once it listens. */
export async function startRedis(): Promise<number> {
  const port = await freePort();
  const home = mkdtempSync(join(tmpdir(), "sluice-bench-redis-"));
  const flags = { port, bind: "127.0.0.1", dir: home, save: "", appendonly: "no" };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child = spawn("redis-server", args, { stdio: ["ignore", "pipe", "ignore"] });
  process.on("exit", () => {
    child.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  });
  await new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`redis-server ended with ${code}`)));
    child.stdout.on("data", (bytes) => String(bytes).includes("Ready to accept connections") && resolve());
  });
  return port;
}
