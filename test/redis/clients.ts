// The clients that the tests hand in, each connected and with a way to end it.

import { GlideClient, GlideClusterClient, Logger } from "@valkey/valkey-glide";
import { Cluster as IoredisCluster, Redis as Ioredis } from "ioredis";
import { Cluster as IovalkeyCluster, Redis as Iovalkey } from "iovalkey";
import { createClient, createCluster } from "redis";
import type { RedisClient } from "sluice/redis";

export interface Handed {
  client: RedisClient;
  close: () => void | Promise<void>;
}

// It reports what these tests do to it on purpose.
Logger.init("off");

const silent = (): void => {};
const host = "127.0.0.1";

/** A client of each library for the server on `port`. */
export const clients: Record<string, (port: number) => Promise<Handed>> = {
  async "node-redis"(port) {
    const client = createClient({ url: `redis://${host}:${port}` }).on("error", silent);
    await client.connect();
    return { client, close: () => client.destroy() };
  },
  async ioredis(port) {
    const client = new Ioredis({ host, port, lazyConnect: true }).on("error", silent);
    await client.connect();
    return { client, close: () => client.disconnect() };
  },
  async iovalkey(port) {
    const client = new Iovalkey({ host, port, lazyConnect: true }).on("error", silent);
    await client.connect();
    return { client, close: () => client.disconnect() };
  },
  async "valkey-glide"(port) {
    const client = await GlideClient.createClient({ addresses: [{ host, port }] });
    return { client, close: () => client.close() };
  },
};

/** The same for the cluster that the server on `port` belongs to. */
export const clusterClients: Record<string, (port: number) => Promise<Handed>> = {
  async "node-redis"(port) {
    const client = createCluster({ rootNodes: [{ url: `redis://${host}:${port}` }] }).on("error", silent);
    await client.connect();
    return { client, close: () => client.destroy() };
  },
  async ioredis(port) {
    const client = new IoredisCluster([{ host, port }], { lazyConnect: true }).on("error", silent);
    await client.connect();
    return { client, close: () => client.disconnect() };
  },
  async iovalkey(port) {
    const client = new IovalkeyCluster([{ host, port }], { lazyConnect: true }).on("error", silent);
    await client.connect();
    return { client, close: () => client.disconnect() };
  },
  async "valkey-glide"(port) {
    const client = await GlideClusterClient.createClient({ addresses: [{ host, port }] });
    return { client, close: () => client.close() };
  },
};
