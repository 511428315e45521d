// One key, several processes: what they are admitted together, by the server's
// clock alone.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { compiled, sum } from "../threads/crew.js";
import type { Report, Work } from "./decide-process.worker.js";
import { redisBinary, RedisServer, until } from "./server.js";

let server: RedisServer;
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

async function serverUs(): Promise<number> {
  const [, , seconds, , microseconds] = (await server.ask("TIME")).split("\r\n");
  return Number(seconds) * 1e6 + Number(microseconds);
}

async function commands(): Promise<number> {
  return Number(/total_commands_processed:(\d+)/.exec(await server.ask("INFO stats"))![1]);
}

/**
 * Lets processes decide on one key until so many commands have been run: their reports, and the
 * server's time that it took at most and at least.
 */
async function compete(
  kind: Work["kind"],
  options: Work["options"],
  wrongByMs: readonly number[],
): Promise<{ reports: Report[]; mostUs: number; leastUs: number }> {
  await server.ask("FLUSHALL");
  const processes = wrongByMs.map((each) => {
    const child = fork(compiled(new URL("./decide-process.worker.ts", import.meta.url)), [
      JSON.stringify({ port: server.port, kind, options, inFlight: 16, wrongByMs: each } satisfies Work),
    ], { execArgv: [] });
    children.push(child);
    return child;
  });
  await Promise.all(processes.map((child) => once(child, "message")));
  const from = await commands();
  const before = await serverUs();
  for (const child of processes) child.send("go");
  await until("the first have been let in", async () => (await commands()) > from + 200);
  const begun = await serverUs();
  await until("they have competed", async () => (await commands()) > from + 40_000);
  const ending = await serverUs();
  const replies = processes.map((child) => once(child, "message"));
  for (const child of processes) child.send("stop");
  const reports = (await Promise.all(replies)).map(([report]) => report as Report);
  return { reports, mostUs: (await serverUs()) - before, leastUs: ending - begun };
}

describe.skipIf(!redisBinary)("several processes on one key", () => {
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server?.close());

  it("are admitted burst + rate x time together, and not a call more", async () => {
    const [rate, burst] = [500, 1000];
    const { reports, mostUs, leastUs } = await compete("tokenBucket", { rate, burst }, [0, 0, 0]);
    const admitted = sum(reports.map((report) => report.admitted));
    expect(admitted).toBeLessThanOrEqual(burst + (rate * mostUs) / 1e6);
    expect(admitted).toBeGreaterThan(burst + (rate * leastUs) / 1e6 - 1);
    for (const report of reports) {
      expect(report.degraded).toBe(0);
      expect(report.refused).toBeGreaterThan(100);
      expect(report.admitted).toBeGreaterThan(0);
    }
  });

  it.each(["fixedWindow", "slidingWindow"] as const)("are admitted the limit of a %s together", async (kind) => {
    const limit = 1000;
    const { reports } = await compete(kind, { limit, windowMs: 366 * 86_400_000 }, [0, 0, 0]);
    expect(sum(reports.map(({ admitted }) => admitted))).toBe(limit);
    for (const { refused } of reports) expect(refused).toBeGreaterThan(100);
  });

  it("gain nothing by clocks of their own that are hours wrong", async () => {
    const [rate, burst] = [500, 1000];
    const { reports, mostUs, leastUs } = await compete("tokenBucket", { rate, burst }, [
      0,
      5 * 3_600_000,
      -5 * 3_600_000,
    ]);
    const admitted = sum(reports.map((report) => report.admitted));
    expect(admitted).toBeLessThanOrEqual(burst + (rate * mostUs) / 1e6);
    expect(admitted).toBeGreaterThan(burst + (rate * leastUs) / 1e6 - 1);
    for (const report of reports) expect(report.admitted).toBeGreaterThan(0);
  });
});
