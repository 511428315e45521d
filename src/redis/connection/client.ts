// The clients that users may pass, recognised by their methods: node-redis, ioredis,
// iovalkey and Valkey GLIDE, each for one server or for a cluster. None is imported.

import { shown } from "../../engine/errors.js";

/** node-redis 5 or 6: `createClient()`, `createCluster()`, `createClientPool()`. */
export interface NodeRedisClient {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/** ioredis 5 or 6 and iovalkey: `new Redis()`, `new Cluster()`. */
export interface IoredisClient {
  evalsha(sha: string, keyCount: number, ...keysAndArguments: string[]): Promise<unknown>;
  eval(script: string, keyCount: number, ...keysAndArguments: string[]): Promise<unknown>;
}

/** Valkey GLIDE 2: `GlideClient`, `GlideClusterClient`. It routes a command of a cluster by its keys. */
export interface GlideClient {
  customCommand(command: string[]): Promise<unknown>;
}

/**
 * A connected client of one of these libraries. The caller connects it, listens to its 'error' events
 * and closes it.
 */
export type RedisClient = NodeRedisClient | IoredisClient | GlideClient;

/** How a client runs a script: by its digest, or by its source. */
export interface ScriptCalls {
  bySha(sha: string, keys: string[], args: string[]): Promise<unknown>;
  bySource(source: string, keys: string[], args: string[]): Promise<unknown>;
}

function has<Method extends string>(client: object, method: Method): client is Record<Method, unknown> {
  return typeof (client as Record<string, unknown>)[method] === "function";
}

/**
 * A client of node-redis for one server: its sendCommand is 2 us a call faster than its evalSha.
 * Clients for several servers need more than the command.
 */
function isPlain(client: object): client is { sendCommand(command: string[]): Promise<unknown> } {
  return "isPubSubActive" in client && has(client, "sendCommand");
}

/** The script calls of `client`. Throws TypeError for an unknown client. */
export function scriptCalls(client: RedisClient): ScriptCalls {
  if (typeof client === "object" && client !== null) {
    if (has(client, "evalSha")) {
      const node = client as NodeRedisClient;
      return {
        bySha: isPlain(client)
          ? (sha, keys, args) => client.sendCommand(["EVALSHA", sha, String(keys.length), ...keys, ...args])
          : (sha, keys, args) => node.evalSha(sha, { keys, arguments: args }),
        bySource: (source, keys, args) => node.eval(source, { keys, arguments: args }),
      };
    }
    if (has(client, "evalsha")) {
      const io = client as IoredisClient;
      return {
        bySha: (sha, keys, args) => io.evalsha(sha, keys.length, ...keys, ...args),
        bySource: (source, keys, args) => io.eval(source, keys.length, ...keys, ...args),
      };
    }
    if (has(client, "customCommand")) {
      const glide = client as GlideClient;
      return {
        bySha: (sha, keys, args) => glide.customCommand(["EVALSHA", sha, String(keys.length), ...keys, ...args]),
        bySource: (source, keys, args) => glide.customCommand(["EVAL", source, String(keys.length), ...keys, ...args]),
      };
    }
  }
  throw new TypeError(
    `"client" expected a client of redis, ioredis, iovalkey or @valkey/valkey-glide, got ${shown(client)}`,
  );
}
