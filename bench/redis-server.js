// A redis-server of a benchmark's own: on a free port of the loopback, keeping
// nothing on disk, and gone with this process.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Why there can be no server here; undefined if there can. */
export function redisAbsent() {
  return spawnSync("redis-server", ["--version"]).status === 0
    ? undefined
    : "no redis-server: apt-get install redis-server";
}

/** Resolves to its port once it listens. */
export async function startRedis() {
  const port = await freePort();
  const home = mkdtempSync(join(tmpdir(), "sluice-bench-redis-"));
  const child = spawn("redis-server", [
    "--port",
    String(port),
    "--bind",
    "127.0.0.1",
    "--dir",
    home,
    "--save",
    "",
    "--appendonly",
    "no",
  ], { stdio: ["ignore", "pipe", "ignore"] });
  process.on("exit", () => {
    child.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  });
  await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`redis-server ended with ${code}`)));
    child.stdout.on("data", (bytes) => String(bytes).includes("Ready to accept connections") && resolve());
  });
  return port;
}
