// Leases between processes that share a real Redis: what all of them admit, what
// that costs Redis, and what a crash loses.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compiled, sum } from "../threads/crew.js";
import type { Load, Progress, Report, Tick } from "./lease-process.worker.js";
import { redisBinary, RedisServer, until } from "./server.js";

const children = new Set<ChildProcess>();

class Member {
  readonly child: ChildProcess;
  readonly ready: Promise<unknown>;
  readonly report: Promise<Report | undefined>;
  admitted = 0;
  leased = 0;
  largest = 0;

  constructor(port: number, load: Load) {
    this.child = fork(compiled(new URL("./lease-process.worker.ts", import.meta.url)), [
      JSON.stringify({ port, ...load }),
    ], { execArgv: [] });
    children.add(this.child);
    this.ready = once(this.child, "message");
    this.report = new Promise((resolve) => {
      this.child.on("message", (message: { report?: Report } | Progress) => {
        if ("report" in message) resolve(message.report);
        else if ("admitted" in message) {
          this.admitted += message.admitted;
          this.largest = Math.max(this.largest, message.leased - this.leased);
          this.leased = message.leased;
        }
      });
      this.child.once("exit", () => {
        children.delete(this.child);
        resolve(undefined);
      });
    });
  }
}

async function crew(size: number, port: number, load: Load): Promise<Member[]> {
  const members = Array.from({ length: size }, () => new Member(port, load));
  await Promise.all(members.map(({ ready }) => ready));
  // All begin at one moment.
  const startMs = Number(process.hrtime.bigint()) / 1e6 + 500;
  for (const { child } of members) child.send(startMs);
  return members;
}

/**
 * Most that any stretch of time admitted beyond `rate` x its length: ticks that lie within it count,
 * so that it is true of real time.
 */
function mostBeyondRate(ticks: readonly Tick[], ratePerMs: number): number {
  const byBegin = ticks.filter(([, , admitted]) => admitted > 0).sort((a, b) => a[0] - b[0]);
  // Taken at their beginnings, but ended at their ends: the largest sum of admitted - rate x time is found in one pass.
  let most = 0;
  let best = -Infinity;
  let all = 0;
  for (const [beginMs, endMs, admitted] of byBegin) {
    best = Math.max(best, ratePerMs * beginMs - all);
    all += admitted;
    most = Math.max(most, all + best - ratePerMs * endMs);
  }
  return most;
}

/** Scripts that Redis has run. */
async function calls(server: RedisServer): Promise<number> {
  const stats = await server.ask("INFO commandstats");
  return sum([...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].map(([, count]) => Number(count)));
}

describe.skipIf(!redisBinary)("processes that lease from one Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(async () => {
    for (const child of children) child.kill("SIGKILL");
    await server?.close();
  });

  it(
    "8 under 3 times their limit for 10 s: admit 99 % of it and stay within the bound, with a call for a hundred decisions",
    { timeout: 60_000 },
    async () => {
      await server.ask("FLUSHALL");
      await server.ask("CONFIG RESETSTAT");
      const limit = { rate: 20_000, burst: 20_000, leaseMs: 1000 };
      const members = await crew(8, server.port, { limit, decisionsAMs: (3 * limit.rate) / 1000 / 8, forMs: 12_000 });
      const reports = (await Promise.all(members.map(({ report }) => report))) as Report[];

      const ticks = reports.flatMap((report) => report.ticks);
      const all = sum(ticks.map((tick) => tick[2]));
      const decisions = sum(reports.map((report) => report.decisions));
      const asked = await calls(server);
      // From when the burst is spent and all know their share, to when the first of them has done its part.
      const endMs = Math.min(...reports.map((report) => report.ticks.at(-1)![0]));
      const fromMs = Math.min(...ticks.map((tick) => tick[0])) + 2000;
      const admitted = sum(ticks.filter(([beginMs]) => beginMs >= fromMs && beginMs <= endMs).map((tick) => tick[2]));
      const due = (limit.rate * (endMs - fromMs)) / 1000;
      const beyond = mostBeyondRate(ticks, limit.rate / 1000);
      console.log(
        `admitted ${admitted} in ${(endMs - fromMs).toFixed(0)} ms, ${
          ((100 * admitted) / due).toFixed(2)
        } % of the limit; ${asked} calls for ${decisions} decisions; at most ${beyond.toFixed(0)} beyond the rate`,
      );

      expect(decisions).toBe(8 * 7.5 * 12_000);
      expect(endMs - fromMs).toBeGreaterThan(9900);
      expect(beyond).toBeLessThanOrEqual(limit.burst + (limit.rate * limit.leaseMs) / 1000);
      expect(admitted).toBeGreaterThanOrEqual(0.99 * due);
      expect(all).toBeLessThan(decisions / 2);
      expect(asked).toBeLessThanOrEqual(decisions / 100);
      expect(asked).toBeGreaterThan(100);
      for (const { stats } of reports) expect(stats.allowed).toBeGreaterThan(0);
    },
  );

  it("one of which is killed at work: lose what it had leased, and nothing else", { timeout: 60_000 }, async () => {
    await server.ask("FLUSHALL");
    // It hardly refills: what was not spent in the end was lost.
    const limit = { rate: 0.001, burst: 60_000, leaseMs: 1000 };
    const members = await crew(4, server.port, { limit, decisionsAMs: 10, forMs: 5000 });
    const [victim, ...others] = members;
    await until("all are at work", () => members.every(({ admitted }) => admitted > 2000));
    victim.child.kill("SIGKILL");
    await victim.report;
    await Promise.all(others.map(({ report }) => report));

    const admitted = sum(members.map((member) => member.admitted));
    const lost = limit.burst - admitted;
    const held = victim.leased - victim.admitted;
    console.log(`lost ${lost} tokens, ${held} of which it was known to hold; its largest lease was ${victim.largest}`);
    expect(lost).toBeGreaterThanOrEqual(0);
    // One lease, and the quarter that is left of the one before when it comes.
    expect(lost).toBeLessThanOrEqual(1.25 * Math.max(...members.map(({ largest }) => largest)));
    for (const other of others) expect(other.admitted).toBeGreaterThan(victim.admitted);
  });
});
