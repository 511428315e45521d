/** The gateway in operation: a worker dies, the configuration changes, the process is stopped. */
import { writeFile } from "node:fs/promises";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { startClients } from "./clients.js";
import { ask, askAsAcme, KEY, openGateway, openUpstream, quota, serve, startGateway } from "./gateway.js";

describe("when a worker dies", { timeout: 60_000 }, () => {
  it("the others go on with the same counts, and a new worker replaces it", async () => {
    const { gateway, port, logged } = await openGateway({
      workers: 3,
      upstream: { url: await openUpstream() },
      ...quota(1500),
    });
    const clients = startClients(port, 32);
    await clients.until(() => clients.statuses[200] > 300);
    const [victim] = gateway.workers.keys();
    await victim.terminate();
    const after = clients.statuses[200];
    await clients.until(() => clients.statuses[200] > after + 300);
    await clients.until(() => gateway.workers.size === 3);
    await clients.untilRefused();
    await clients.stop();

    expect(gateway.workers.has(victim)).toBe(false);
    expect(logged[0]).toBe("a worker died, 2 left; starting another");
    // Requests that were admitted in the dead worker took their tokens, and got no answer.
    expect(gateway.sluice.stats().limiters["tier quota"].allowed).toBe(1500);
    expect(clients.statuses[200]).toBeLessThanOrEqual(1500);
    expect(clients.statuses[200]).toBeGreaterThanOrEqual(1500 - 32);
    expect(gateway.sluice.stats().threads).toBe(4);
    expect(gateway.sluice.audit().clean).toBe(true);
  });

  it("no worker replaces it while the gateway stops", async () => {
    let seen = 0;
    const url = await openUpstream((_, response) => {
      seen++;
      setTimeout(() => response.end(), 1500);
    });
    const { gateway: { workers, close }, port, logged } = await openGateway({ workers: 2, upstream: { url } });
    // Enough requests for each worker to have some.
    const open = Promise.allSettled(Array.from({ length: 16 }, () => ask(port)));
    await expect.poll(() => seen).toBe(16);
    const [worker] = workers.keys();
    await worker.terminate();
    await expect.poll(() => logged.length).toBe(1);
    const closed = close();
    const sizes = new Set<number>();
    for (let isClosed = false; !isClosed; isClosed = await Promise.race([closed.then(() => true), sleep(20, false)])) {
      sizes.add(workers.size);
    }
    expect([sizes.has(1), sizes.has(2)]).toEqual([true, false]);
    expect(workers.size).toBe(0);
    expect((await open).filter(({ status }) => status === "fulfilled").length).toBeGreaterThan(0);
  });
});

describe("SIGHUP", { timeout: 60_000 }, () => {
  it("puts a new configuration in force under load, and forgets nothing that was counted", async () => {
    const { port, write, child, printed, file, end } = await serve({
      upstream: { url: await openUpstream() },
      ...quota(1000),
    });
    const clients = startClients(port, 32);
    await clients.until(() => clients.statuses[200] > 300);

    let reloads = 0;
    const reload = async (options: Record<string, unknown>) => {
      await write(options);
      child.kill("SIGHUP");
      await printed(new RegExp(`(reloaded[^]*){${++reloads}}`));
    };
    const fail = async (pattern: RegExp) => {
      child.kill("SIGHUP");
      await printed(pattern);
    };
    // A larger burst does not fill the bucket: what was used stays used.
    await reload(quota(1500));
    await clients.untilRefused();
    expect(clients.statuses[200]).toBe(1000);
    await reload({ tiers: { quota: { perSecond: 1e6, burst: 1500 } } });
    await clients.until(() => clients.statuses[200] > 3000);
    await reload(quota(1500));
    await clients.untilRefused();
    const admitted = clients.statuses[200];

    await write({ tiers: { quota: { perSecond: 0, burst: -1 } } });
    await fail(
      /rejected, the current configuration stays in force: "tiers\.quota\.burst" expected an integer from 1 to 2147483647, got -1/,
    );
    await writeFile(file, "{ \"listen\": ");
    await fail(/stays in force: \S+config\.json expected JSON: /);
    await write({ ...quota(9000), workers: 3 });
    await fail(/"workers" expected 2, as at the start, got 3; restart to change it/);
    await clients.untilRefused();
    expect(await clients.stop()).toMatchObject({ errors: 0 });
    expect(clients.statuses[200]).toBe(admitted);

    // A new tenant, a new tier, a new route.
    await reload({
      tiers: { quota: { perSecond: 0, burst: 1500 }, gold: { perSecond: 0, burst: 2 } },
      tenants: { acme: { apiKey: KEY, tier: "quota" }, initech: { apiKey: "initech-secret", tier: "gold" } },
      routes: { "/": { perSecond: 0, burst: 1 } },
    });
    expect((await askAsAcme(port)).status).toBe(429);
    expect((await ask(port, "/", { headers: { "x-api-key": "initech-secret" } })).status).toBe(200);
    child.kill("SIGTERM");
    expect(await end()).toMatchObject({ code: 0, err: "" });
  });
});

describe("SIGINT and SIGTERM", { timeout: 60_000 }, () => {
  it("let open requests finish and accept no new ones, even if both come", async () => {
    const waiting: (() => void)[] = [];
    const url = await openUpstream((_, response) => {
      waiting.push(() => response.end("late"));
    });
    const { port, child, printed, end } = await serve({ upstream: { url } });
    const late = ask(port);
    while (waiting.length === 0) await setImmediate();
    child.kill("SIGINT");
    child.kill("SIGTERM");
    await printed(/stopping/);
    await expect(async () => {
      for (;;) await ask(port);
    }).rejects.toThrow(/ECONNREFUSED|ECONNRESET|socket hang up/);
    waiting[0]();
    expect(await late).toMatchObject({ status: 200, body: "late" });
    expect(await end()).toMatchObject({ code: 0, signal: null, err: "" });
  });

  it("cut off requests that take longer than drainMs", async () => {
    let isOpen = (): void => {};
    const opened = new Promise<void>((resolve) => {
      isOpen = resolve;
    });
    const url = await openUpstream((_, response) => {
      response.write("never done");
      isOpen();
    });
    const { port, child, end } = await serve({ upstream: { url }, drainMs: 100 });
    const cut = expect(ask(port)).rejects.toThrow(/aborted|hang up/);
    await opened;
    child.kill("SIGTERM");
    await cut;
    expect(await end()).toMatchObject({ code: 0, err: "" });
  });
});

describe("the command line", () => {
  it("reports a configuration that cannot be read, and exits with 2", async () => {
    const gateway = startGateway("--serve", "/nowhere/config.json");
    expect(await gateway.end()).toMatchObject({
      code: 2,
      err: expect.stringContaining("no such file or directory, open '/nowhere/config.json'"),
    });
  });
});
