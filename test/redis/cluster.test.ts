// A real cluster on the loopback, three primaries and a replica, through every
// client: keys find their node, all that one decision touches is on one node,
// and a primary that dies is replaced.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { type RedisDecision, RedisSluice } from "sluice/redis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { clusterClients } from "./clients.js";
import { freePort, redisBinary, RedisServer, until } from "./server.js";

const servers: RedisServer[] = [];
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function startNode(): Promise<RedisServer> {
  const server = await RedisServer.start([
    "--cluster-enabled",
    "yes",
    "--cluster-port",
    String(await freePort()),
    "--cluster-node-timeout",
    "1000",
    "--repl-diskless-sync-delay",
    "0",
  ]);
  servers.push(server);
  return server;
}

const cli = (...args: string[]): Promise<{ stdout: string }> =>
  promisify(execFile)("redis-cli", args, { timeout: 30_000 });

async function startCluster(): Promise<void> {
  for (let i = 0; i < 4; i++) await startNode();
  const addresses = servers.map(({ port }) => `127.0.0.1:${port}`);
  await cli("--cluster", "create", ...addresses.slice(0, 3), "--cluster-replicas", "0", "--cluster-yes");
  await until("all nodes agree", async () => {
    const infos = await Promise.all(servers.slice(0, 3).map((server) => server.ask("CLUSTER INFO")));
    return infos.every((info) => info.includes("cluster_state:ok") && info.includes("cluster_known_nodes:3"));
  });
  await cli("--cluster", "add-node", addresses[3], addresses[0], "--cluster-slave");
  await until(
    "the replica is linked",
    async () => (await servers[3].ask("INFO replication")).includes("master_link_status:up"),
  );
  await until("all know the replica", async () => {
    const nodes = await Promise.all(servers.map((server) => server.ask("CLUSTER NODES")));
    return nodes.every((text) => text.includes("slave") && text.match(/ connected/g)?.length === 4);
  });
}

describe.skipIf(!redisBinary)("a cluster", () => {
  beforeAll(startCluster);
  afterAll(() => Promise.all(servers.map((server) => server.close())));

  const names = Object.keys(clusterClients);

  it.each(names)("places every key by its hash tag, several limits too (%s)", async (name) => {
    const { client, close } = await clusterClients[name](servers[0].port);
    closers.push(close);
    const redis = RedisSluice.create({ client, onFailure: "closed", deadlineMs: 5000, prefix: name });
    const limiters = [
      redis.tokenBucket("one", { rate: 0.001, burst: 3 }),
      redis.tokenBucket("several", {
        limits: [{ rate: 0.001, burst: 3 }, { rate: 0.001, burst: 5 }, { rate: 1, burst: 50 }],
      }),
      redis.slidingWindow("log", { limit: 3, windowMs: 3_600_000, log: true }),
    ];
    const counts = async (): Promise<number[]> =>
      Promise.all(servers.slice(0, 3).map(async (server) => Number((await server.ask("DBSIZE")).slice(1))));
    const before = await counts();
    for (const limiter of limiters) {
      for (let i = 0; i < 30; i++) {
        const answers = await Promise.all([1, 2, 3, 4, 5].map(() => limiter.consume(`user ${i}`)));
        expect(answers.map(({ allowed, degraded }) => [allowed, degraded])).toEqual([
          [true, false],
          [true, false],
          [true, false],
          [false, false],
          [false, false],
        ]);
      }
      expect(await limiter.reset("user 0")).toBe(true);
      expect(await limiter.allow("user 0")).toBe(true);
    }
    const after = await counts();
    for (const i of [0, 1, 2]) expect(after[i]).toBeGreaterThan(before[i]);
  });

  it("that loses a primary is done without until its replica takes over, and then decides by that", async () => {
    const watched = await Promise.all(names.map(async (name) => {
      const { client, close } = await clusterClients[name](servers[1].port);
      closers.push(close);
      const redis = RedisSluice.create({
        client,
        onFailure: "open",
        deadlineMs: 500,
        probeMs: 100,
        prefix: `failover-${name}`,
      });
      return { redis, limiter: redis.tokenBucket("it", { rate: 1, burst: 1_000_000 }), seen: [] as RedisDecision[] };
    }));
    let isOver = false;
    const working = watched.map(async ({ limiter, seen }) => {
      for (let i = 0; !isOver; i++) {
        seen.push(await limiter.consume(`user ${i % 50}`));
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    });
    try {
      await until("all have decided on all keys", () => watched.every(({ seen }) => seen.length > 100));
      expect(watched.every(({ seen }) => seen.every(({ degraded }) => !degraded))).toBe(true);
      const [replica] = servers.slice(3);
      const primary = servers.find(({ port }) => port === servers[0].port)!;
      expect(await replica.ask("INFO replication")).toContain(`master_port:${primary.port}`);
      await primary.kill();
      await until("somebody was done without", () => watched.some(({ seen }) => seen.at(-1)!.degraded));
      await until(
        "the replica has taken over",
        async () => (await replica.ask("INFO replication")).includes("role:master"),
      );
      await until(
        "all clients decide on all keys again",
        () => watched.every(({ seen }) => seen.length > 100 && seen.slice(-100).every(({ degraded }) => !degraded)),
      );
      for (const { redis } of watched) expect(redis.stats().reachable).toBe(true);
    } finally {
      isOver = true;
      await Promise.all(working);
    }
  });
});
