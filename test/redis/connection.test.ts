// Scripts on real servers through every client: known or unknown to the server,
// late, and never answered.

import type { RedisClient } from "sluice/redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connection } from "../../src/redis/connection/connection.js";
import { type Script, script } from "../../src/redis/scripts/script.js";
import { clients } from "./clients.js";
import { redisBinary, RedisServer, until } from "./server.js";

type Run = (script: Script, keys: string[], args: string[], onLate?: (reply: unknown) => void) => Promise<unknown>;

/** Runs scripts on `client`, as promises. */
function runner(client: RedisClient, deadlineMs: number): Run {
  const send = connection(client, deadlineMs);
  return (script, keys, args, onLate) =>
    new Promise((resolve, reject) => send(script, keys, args, resolve, reject, onLate));
}

const count = script("return { redis.call('INCRBY', KEYS[1], ARGV[1]), 'so many' }");

describe.skipIf(!redisBinary)("a connection", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server?.close());

  describe.each(Object.keys(clients))("over %s", (name) => {
    it("sends a script that the server does not know, and then only its digest", async () => {
      await server.ask("SCRIPT FLUSH");
      await server.ask("CONFIG RESETSTAT");
      const { client, close } = await clients[name](server.port);
      try {
        const run = runner(client, 5000);
        for (let i = 1; i <= 3; i++) expect(await run(count, [`{${name}}`], ["2"])).toEqual([2 * i, "so many"]);
        const stats = await server.ask("INFO commandstats");
        expect(stats).toMatch(/cmdstat_eval:calls=1,/);
        expect(stats).toMatch(/cmdstat_evalsha:calls=3,.*failed_calls=1/);
      } finally {
        await close();
      }
    });

    it("rejects with what the server says", async () => {
      const { client, close } = await clients[name](server.port);
      try {
        await expect(runner(client, 5000)(script("return redis.error_reply('ERR no such luck')"), ["k"], []))
          .rejects.toThrow("no such luck");
      } finally {
        await close();
      }
    });

    it("gives up at its deadline on a server that is paused, and hands the late reply on", async () => {
      const { client, close } = await clients[name](server.port);
      try {
        const late: unknown[] = [];
        const run = runner(client, 100);
        await run(count, [`{late ${name}}`], ["1"]);
        server.pause();
        try {
          await expect(run(count, [`{late ${name}}`], ["1"], (reply) => late.push(reply))).rejects.toMatchObject({
            code: "ERR_SLUICE_DEADLINE",
          });
        } finally {
          server.resume();
        }
        if (name !== "valkey-glide") {
          await until("the late reply comes", () => late.length > 0);
          expect(late).toEqual([[2, "so many"]]);
        }
      } finally {
        await close();
      }
    });
  });

  it("refuses a client that it does not know", () => {
    for (const client of [undefined, null, 1, "redis://", {}, [], () => 1]) {
      expect(() => connection(client as unknown as RedisClient, 100)).toThrow(
        "\"client\" expected a client of redis, ioredis, iovalkey or @valkey/valkey-glide, got",
      );
    }
  });
});
