/** Metrics as a scrape sees them: the tests parse its text, while other threads count. */
import { Counter, Gauge, Registry } from "prom-client";
import { ManualClock, Sluice } from "sluice";
import { type MetricsOptions, registerMetrics } from "sluice/metrics";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { MetricsJobs } from "./metrics.worker.js";
import { openTable } from "./tables.js";
import { Crew, sum, until } from "./threads/crew.js";

afterEach(() => {
  vi.restoreAllMocks();
});

interface Scrape {
  types: Record<string, string>;
  /** Values by name and labels, as the text has them. */
  samples: Record<string, number>;
}

/** Reads the text exposition format 0.0.4, strictly: what is neither a comment nor a sample is an error. */
async function scrape(registry: Registry): Promise<Scrape> {
  const types: Scrape["types"] = {};
  const samples: Scrape["samples"] = {};
  for (const line of (await registry.metrics()).split("\n")) {
    if (line === "" || line.startsWith("# HELP ")) continue;
    const type = /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge)$/.exec(line);
    const sample = /^([a-zA-Z_:][\w:]*(?:\{(?:\w+="(?:[^"\\]|\\.)*",?)*\})?) (\d+(?:\.\d+)?)$/.exec(line);
    if (type) types[type[1]] = type[2];
    else if (sample && !(sample[1] in samples)) samples[sample[1]] = Number(sample[2]);
    else throw new Error(`not a line of metrics: ${line}`);
  }
  return { types, samples };
}

const counters = ["allowed", "denied", "shadowed", "evicted", "full_denied", "full_allowed", "contended", "claimed"];

describe("metrics", () => {
  it("are counters and gauges of every limiter, made before registering or after", async () => {
    const sluice = openTable({ clock: new ManualClock() });
    const user = sluice.tokenBucket("user", { rate: 0, burst: 2 });
    const registry = new Registry();
    registerMetrics(sluice, { registry });
    const tenant = sluice.tokenBucket("tenant", { rate: 0, burst: 1, shadow: true });
    for (let i = 0; i < 5; i++) user.allow("alice");
    for (let i = 0; i < 3; i++) tenant.allow("acme");

    const { types, samples } = await scrape(registry);
    expect(types).toEqual({
      ...Object.fromEntries(counters.map((name) => [`sluice_${name}_total`, "counter"])),
      sluice_capacity: "gauge",
      sluice_threads: "gauge",
      sluice_live_keys: "gauge",
    });
    expect(samples).toMatchObject({
      "sluice_allowed_total{table=\"main\",limiter=\"user\"}": 2,
      "sluice_denied_total{table=\"main\",limiter=\"user\"}": 3,
      "sluice_claimed_total{table=\"main\",limiter=\"user\"}": 1,
      "sluice_allowed_total{table=\"main\",limiter=\"tenant\"}": 3,
      "sluice_shadowed_total{table=\"main\",limiter=\"tenant\"}": 2,
      "sluice_contended_total{table=\"main\",limiter=\"tenant\"}": 0,
      "sluice_capacity{table=\"main\"}": 1000,
      "sluice_threads{table=\"main\"}": 1,
    });
    expect(Object.keys(samples)).toHaveLength(2 * counters.length + 2);
    expect(registry.getSingleMetric("sluice_allowed_total")).toBeInstanceOf(Counter);
    expect(registry.getSingleMetric("sluice_capacity")).toBeInstanceOf(Gauge);
  });

  it.each(["evict", "deny", "allow"] as const)("count what a full table does with whenFull: '%s'", async (whenFull) => {
    const sluice = openTable({ clock: new ManualClock(), capacity: 1, whenFull });
    const limiter = sluice.tokenBucket("user", { rate: 0, burst: 2 });
    for (let i = 0; i < 5000; i++) limiter.allow(i);
    const registry = new Registry();
    registerMetrics(sluice, { registry });
    const { samples } = await scrape(registry);
    const full = Object.fromEntries(
      ["evicted", "full_denied", "full_allowed"].map((
        name,
      ) => [name, samples[`sluice_${name}_total{table="main",limiter="user"}`] > 0]),
    );
    expect(full).toEqual({
      evicted: whenFull === "evict",
      full_denied: whenFull === "deny",
      full_allowed: whenFull === "allow",
    });
  });

  it("separate two tables, in one registry and in two", async () => {
    const [first, second] = [
      openTable({ clock: new ManualClock() }),
      openTable({ clock: new ManualClock(), capacity: 2000 }),
    ];
    for (const sluice of [first, second]) sluice.tokenBucket("user", { rate: 0, burst: 5 }).allow("alice");
    second.limiter("user").allow("bob");
    const [registry, other] = [new Registry(), new Registry()];
    registerMetrics(first, { registry, table: "first" });
    registerMetrics(second, { registry, table: "second" });
    registerMetrics(second, { registry: other });
    expect(() => registerMetrics(second, { registry, table: "first" })).toThrow(
      "\"table\" expected a label that no other table of this registry has, got \"first\"",
    );
    expect((await scrape(registry)).samples).toMatchObject({
      "sluice_allowed_total{table=\"first\",limiter=\"user\"}": 1,
      "sluice_allowed_total{table=\"second\",limiter=\"user\"}": 2,
      "sluice_capacity{table=\"first\"}": 1000,
      "sluice_capacity{table=\"second\"}": 2000,
    });
    expect((await scrape(other)).samples).toMatchObject({ "sluice_allowed_total{table=\"main\",limiter=\"user\"}": 2 });
  });

  it("do not clash with other metrics under another prefix, and escape names", async () => {
    const sluice = openTable({ clock: new ManualClock() });
    const name = "a \"quoted\"\\name\nwith a line";
    sluice.tokenBucket(name, { rate: 0, burst: 5 }).global.allow();
    const registry = new Registry();
    new Counter({ name: "sluice_allowed_total", help: "of somebody else", registers: [registry] }).inc(41);
    registerMetrics(sluice, { registry, prefix: "edge:" });
    expect((await scrape(registry)).samples).toMatchObject({
      sluice_allowed_total: 41,
      "edge:allowed_total{table=\"main\",limiter=\"a \\\"quoted\\\"\\\\name\\nwith a line\"}": 1,
    });
  });

  it("end when the table is removed or closed, others stay, and a removed table may return", async () => {
    const [first, second] = [openTable({ clock: new ManualClock() }), openTable({ clock: new ManualClock() })];
    for (const sluice of [first, second]) sluice.tokenBucket("user", { rate: 0, burst: 5 }).allow("alice");
    const registry = new Registry();
    const remove = registerMetrics(first, { registry, table: "first" });
    registerMetrics(second, { registry, table: "second" });
    await scrape(registry);
    remove();
    remove();
    expect(Object.keys((await scrape(registry)).samples).join()).not.toContain("first");
    registerMetrics(first, { registry, table: "first" });
    remove();
    expect((await scrape(registry)).samples).toMatchObject({
      "sluice_allowed_total{table=\"first\",limiter=\"user\"}": 1,
    });
    second.close();
    const after = Object.keys((await scrape(registry)).samples).join();
    expect([after.includes("first"), after.includes("second")]).toEqual([true, false]);
  });

  it("are made anew in a registry that was cleared", async () => {
    const sluice = openTable({ clock: new ManualClock() });
    sluice.tokenBucket("user", { rate: 0, burst: 5 }).allow("alice");
    const registry = new Registry();
    registerMetrics(sluice, { registry });
    registry.clear();
    registerMetrics(sluice, { registry });
    expect((await scrape(registry)).samples).toMatchObject({
      "sluice_allowed_total{table=\"main\",limiter=\"user\"}": 1,
    });
  });

  it("read the table once for each scrape", async () => {
    const sluice = openTable({ clock: new ManualClock() });
    const limiter = sluice.tokenBucket("user", { rate: 0, burst: 5 });
    const registry = new Registry();
    registerMetrics(sluice, { registry });
    const stats = vi.spyOn(sluice, "stats");
    for (let scrapes = 1; scrapes <= 3; scrapes++) {
      limiter.global.allow();
      expect((await scrape(registry)).samples["sluice_allowed_total{table=\"main\",limiter=\"user\"}"]).toBe(scrapes);
      expect(stats).toHaveBeenCalledTimes(scrapes);
    }
  });

  it("count the keys in use only with liveEveryMs, and walk the table no more often than that", async () => {
    const sluice = openTable({ clock: new ManualClock() });
    const limiter = sluice.tokenBucket("user", { rate: 0, burst: 5 });
    const other = sluice.slidingWindow("other", { limit: 5, windowMs: 60_000, slots: 3 });
    for (let i = 0; i < 50; i++) limiter.allow(i);
    for (let i = 0; i < 7; i++) other.allow(i);
    const [registry, rarely, always] = [new Registry(), new Registry(), new Registry()];
    registerMetrics(sluice, { registry });
    registerMetrics(sluice, { registry: rarely, liveEveryMs: Infinity });
    registerMetrics(sluice, { registry: always, liveEveryMs: 0 });
    const audit = vi.spyOn(sluice, "audit");
    const live = async (of: Registry): Promise<number | undefined> =>
      (await scrape(of)).samples["sluice_live_keys{table=\"main\",limiter=\"user\"}"];
    expect([await live(registry), await live(rarely), await live(always)]).toEqual([undefined, 50, 50]);
    expect((await scrape(rarely)).samples["sluice_live_keys{table=\"main\",limiter=\"other\"}"]).toBe(7);
    for (let i = 0; i < 20; i++) limiter.reset(i);
    expect([await live(registry), await live(rarely), await live(always)]).toEqual([undefined, 50, 30]);
    expect(audit).toHaveBeenCalledTimes(3);
  });

  it.each<[unknown, string]>([
    [{}, "\"registry\" expected a Registry of prom-client, got undefined"],
    [{ registry: {} }, "\"registry\" expected a Registry of prom-client, got an object"],
    [{ registry: 0, table: "" }, "\"table\" expected a label of 1 to 100 characters, got \"\""],
    [
      { registry: 0, prefix: "1a" },
      "\"prefix\" expected letters, digits, underscores and colons, no digit first, got \"1a\"",
    ],
    [{ registry: 0, liveEveryMs: -1 }, "\"liveEveryMs\" expected a number of milliseconds >= 0, or Infinity, got -1"],
    [undefined, "\"options\" expected an object, got undefined"],
    [{ registry: 0, live: 5 }, "\"options\" has no option \"live\"; did you mean \"liveEveryMs\"?"],
  ])("refuse the options %j", (options, message) => {
    const given = options as { registry?: unknown };
    if (given?.registry === 0) given.registry = new Registry();
    expect(() => registerMetrics(openTable({ clock: new ManualClock() }), options as MetricsOptions)).toThrow(message);
  });

  it("refuse anything but a Sluice", () => {
    expect(() => registerMetrics({} as Sluice, { registry: new Registry() })).toThrow(
      "\"sluice\" expected a Sluice, got an object",
    );
  });
});

describe("metrics of 4 threads", { timeout: 60_000 }, () => {
  const hire = Crew.of<MetricsJobs>(new URL("./metrics.worker.ts", import.meta.url));

  it("are read by a fifth, never decrease, and end at what the threads counted", async () => {
    const sluice = openTable({ capacity: 100_000 });
    sluice.tokenBucket("hot", { rate: 1_000_000, burst: 1000 });
    sluice.tokenBucket("cold", { rate: 0, burst: 1 });
    sluice.tokenBucket("shadow", { rate: 0, burst: 1, shadow: true });
    const registry = new Registry();
    registerMetrics(sluice, { registry });
    const crew = await hire(4, "untilStopped", sluice.handle, {});
    crew.begin();

    let before = (await scrape(registry)).samples;
    let grown = 0;
    for (let i = 0; i < 50; i++) {
      const counted = crew.counted();
      await until(() => crew.counted() > counted);
      const known = crew.counted();
      const { types, samples } = await scrape(registry);
      for (const [name, value] of Object.entries(samples)) {
        if (types[name.replace(/\{.*/, "")] === "counter") expect(value, name).toBeGreaterThanOrEqual(before[name]);
      }
      const now = samples["sluice_allowed_total{table=\"main\",limiter=\"hot\"}"]
        + samples["sluice_denied_total{table=\"main\",limiter=\"hot\"}"];
      expect(now).toBeGreaterThanOrEqual(known);
      if (
        now
          > before["sluice_allowed_total{table=\"main\",limiter=\"hot\"}"]
            + before["sluice_denied_total{table=\"main\",limiter=\"hot\"}"]
      ) grown++;
      before = samples;
    }
    expect(grown).toBe(50);
    await expect.poll(() => sluice.stats().limiters.hot.contended, { timeout: 50_000 }).toBeGreaterThan(0);
    crew.stop();
    const reports = await crew.reports();

    const { samples } = await scrape(registry);
    const total = (count: "allowed" | "denied" | "cold" | "shadowed"): number =>
      sum(reports.map((report) => report[count]));
    expect(reports.every(({ allowed }) => allowed > 0)).toBe(true);
    expect(samples["sluice_contended_total{table=\"main\",limiter=\"hot\"}"]).toBeGreaterThan(0);
    expect(samples).toMatchObject({
      "sluice_allowed_total{table=\"main\",limiter=\"hot\"}": total("allowed"),
      "sluice_denied_total{table=\"main\",limiter=\"hot\"}": total("denied"),
      "sluice_claimed_total{table=\"main\",limiter=\"cold\"}": total("cold"),
      "sluice_shadowed_total{table=\"main\",limiter=\"shadow\"}": total("shadowed") - 1,
      "sluice_threads{table=\"main\"}": 1,
    });
  });
});
