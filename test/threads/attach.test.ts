/** How threads attach to a table, and how they leave it. */
import { once } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Worker } from "node:worker_threads";
import { KeyedLimiter, Limiter, ManualClock, Sluice, type SluiceHandle } from "sluice";
import { afterEach, describe, expect, it } from "vitest";
import { kernelConstants } from "../../src/engine/table/kernel.js";
import { create } from "../tables.js";
import { Crew, startWorker, until } from "./crew.js";
import type { LimiterJobs } from "./limiter.worker.js";

const { at } = kernelConstants();
const started: Worker[] = [];

afterEach(async () => {
  await Promise.all(started.splice(0).map((worker) => worker.terminate()));
});

/** A worker that does what messages ask of it. */
async function startAttached(workerData: Record<string, unknown> = {}) {
  const worker = startWorker(new URL("./attached.worker.ts", import.meta.url), workerData);
  started.push(worker);
  let isReady = false;
  const ask = async (name: string, options: Record<string, unknown> = {}): Promise<unknown> => {
    if (isReady) worker.postMessage({ ask: name, ...options });
    const [{ answer, error }] = await once(worker, "message");
    if (error) throw Object.assign(new Error(error.message), error);
    return answer;
  };
  expect(await ask("be ready")).toBe("ready");
  isReady = true;
  return { worker, ask };
}

/** A handle with `change` made to a copy of a table's first page of memory. */
function forged(handle: SluiceHandle, change: (words: Int32Array) => void): SluiceHandle {
  const pages = handle.memory.buffer.byteLength / 65536;
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  new Uint8Array(memory.buffer).set(new Uint8Array(handle.memory.buffer, 0, 65536));
  change(new Int32Array(memory.buffer));
  return { sluice: handle.sluice, memory };
}

describe("attach", () => {
  const sluice = Sluice.create({ capacity: 100, maxThreads: 4, clock: new ManualClock() });
  sluice.tokenBucket("p", { rate: 0, burst: 10 });

  it("gives the same Sluice again in one thread", () => {
    expect(Sluice.attach(sluice.handle)).toBe(sluice);
    expect(Sluice.attach({ ...sluice.handle })).toBe(sluice);
    expect(Sluice.attach(sluice.handle).limiter("p")).toBe(sluice.limiter("p"));
    expect(sluice.stats().threads).toBe(1);
    const other = Sluice.create({ capacity: 100 });
    expect(Sluice.attach(other.handle)).toBe(other);
    expect(other).not.toBe(sluice);
    other.close();
  });

  it("gives the same table in another thread", async () => {
    const { ask } = await startAttached();
    await ask("attach", { handle: sluice.handle });
    await ask("attach", { handle: sluice.handle });
    expect(sluice.stats().threads).toBe(2);
    expect(await ask("allow", { name: "p", key: "shared", cost: 6 })).toBe(true);
    expect(sluice.limiter("p").peek("shared").remaining).toBe(4);
    expect(sluice.limiter("p").allow("shared", 4)).toBe(true);
    expect(await ask("allow", { name: "p", key: "shared" })).toBe(false);
  });

  it("sees limiters that any thread makes later", async () => {
    const { ask } = await startAttached({ handle: sluice.handle });
    await expect(ask("allow", { name: "late" })).rejects.toMatchObject({
      code: "ERR_SLUICE_NO_POLICY",
      message: expect.stringContaining("\"late\""),
    });
    sluice.tokenBucket("late", { rate: 0, burst: 1 });
    expect(await ask("allow", { name: "late" })).toBe(true);
    expect(await ask("tokenBucket", { name: "later", limit: { rate: 0, burst: 2 } })).toBe("later");
    expect(sluice.limiter("later").burst).toBe(2);
    await expect(ask("tokenBucket", { name: "later", limit: { rate: 0, burst: 3 } })).rejects.toMatchObject({
      code: "ERR_SLUICE_POLICY_EXISTS",
    });
  });

  it("names both versions if the table has another layout", () => {
    const version = at.LAYOUT_VERSION;
    const older = forged(sluice.handle, (words) => (words[at.HEADER_VERSION / 4] = version + 41));
    expect(() => Sluice.attach(older)).toThrow(expect.objectContaining({
      code: "ERR_SLUICE_LAYOUT",
      message: expect.stringMatching(new RegExp(`layout ${version}, the table has ${version + 41}\\b`)),
    }));
    expect(() => Sluice.attach({ ...sluice.handle, sluice: version + 7 })).toThrow(expect.objectContaining({
      code: "ERR_SLUICE_LAYOUT",
      message: expect.stringMatching(new RegExp(`layout ${version}, .*handle: ${version + 7}\\b`)),
    }));
    // The same copy without a change attaches: it is the version that was refused.
    Sluice.attach(forged(sluice.handle, (words) => (words[at.HEADER_TABLE_ID / 4] ^= 1))).close();
  });

  it("names both first words if the memory has no table", () => {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
    new Int32Array(memory.buffer)[at.HEADER_MAGIC / 4] = 12345;
    expect(() => Sluice.attach({ sluice: at.LAYOUT_VERSION, memory })).toThrow(expect.objectContaining({
      code: "ERR_SLUICE_LAYOUT",
      message: expect.stringMatching(new RegExp(`${at.MAGIC}\\b.*\\b12345\\b`)),
    }));
  });

  it.each([
    ["nothing", undefined, "undefined"],
    ["null", null, "null"],
    ["a number", 1, "1"],
    ["a string", "handle", "\"handle\""],
    ["an array", [], "an array"],
    ["an object without a memory", { sluice: 1 }, "an object"],
    [
      "a memory that is not a WebAssembly.Memory",
      { sluice: 1, memory: { buffer: new SharedArrayBuffer(65536) } },
      "an object",
    ],
    ["a Sluice", sluice, "an object"],
  ])("refuses %s", (_, handle, shown) => {
    expect(() => Sluice.attach(handle as SluiceHandle)).toThrow(
      new TypeError(`"handle" expected the handle of a Sluice, got ${shown}`),
    );
  });

  it("refuses one thread too many, and takes it when another has left", async () => {
    const small = Sluice.create({ capacity: 10, maxThreads: 2 });
    const first = await startAttached({ handle: small.handle });
    const second = await startAttached();
    await expect(second.ask("attach", { handle: small.handle })).rejects.toMatchObject({
      code: "ERR_SLUICE_TOO_MANY_THREADS",
      message: expect.stringContaining("all 2 threads"),
    });
    await first.ask("close");
    expect(small.stats().threads).toBe(1);
    await second.ask("attach", { handle: small.handle });
    expect(small.stats().threads).toBe(2);
    small.close();
  });

  it("keeps its thread number while the handle is kept, whatever the garbage collector does", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const { handle } = Sluice.create({ capacity: 10, maxThreads: 4, clock: new ManualClock() });
    for (let i = 0; i < 6; i++) {
      await new Promise((resolve) => setImmediate(resolve));
      collect();
      await new Promise((resolve) => setImmediate(resolve));
      expect(Sluice.attach(handle).stats().threads).toBe(1);
    }
    Sluice.attach(handle).close();
  });
});

describe("close", () => {
  it("frees the thread number for others, in a thread that goes on", async () => {
    const sluice = Sluice.create({ capacity: 10, maxThreads: 2 });
    const worker = await startAttached();
    for (let i = 0; i < 5; i++) {
      await worker.ask("attach", { handle: sluice.handle });
      expect(sluice.stats().threads).toBe(2);
      await worker.ask("close");
      expect(sluice.stats().threads).toBe(1);
    }
    await expect(worker.ask("stats")).rejects.toMatchObject({ code: "ERR_SLUICE_CLOSED" });
    sluice.close();
  });

  it("may be called again, or by leaving a scope", () => {
    const sluice = Sluice.create({ capacity: 10 });
    sluice.close();
    expect(() => sluice.close()).not.toThrow();
    const disposed = Sluice.create({ capacity: 10 });
    disposed[Symbol.dispose]();
    expect(() => disposed.stats()).toThrow(expect.objectContaining({ code: "ERR_SLUICE_CLOSED" }));
  });

  it("of one thread leaves the table to the others, and lets this one come back", async () => {
    const sluice = Sluice.create({ capacity: 10, clock: new ManualClock() });
    sluice.tokenBucket("p", { rate: 0, burst: 3 }).allow("key");
    const { handle } = sluice;
    const { ask } = await startAttached({ handle });
    sluice.close();
    expect(await ask("allow", { name: "p", key: "key" })).toBe(true);
    const again = Sluice.attach(handle);
    expect(again).not.toBe(sluice);
    expect(again.limiter("p").peek("key").remaining).toBe(1);
    again.close();
  });

  it("rejects waits", async () => {
    const sluice = Sluice.create({ capacity: 10 });
    const limiter = sluice.tokenBucket("p", { rate: 10, burst: 1 });
    limiter.allow("key");
    limiter.global.allow();
    const waits = [limiter.wait("key"), limiter.wait("key"), limiter.global.wait()];
    const outcomes = Promise.allSettled(waits);
    sluice.close();
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "ERR_SLUICE_CLOSED" } });
    }
  });

  const uses: [string, (sluice: Sluice) => unknown][] = [
    ["handle", (sluice) => sluice.handle],
    ["tokenBucket", (sluice) => sluice.tokenBucket("q", { rate: 1, burst: 1 })],
    ["limiter", (sluice) => sluice.limiter("p")],
    ["stats", (sluice) => sluice.stats()],
    ["audit", (sluice) => sluice.audit()],
  ];
  it.each(uses)("makes %s of the Sluice throw ERR_SLUICE_CLOSED", (_, use) => {
    const sluice = Sluice.create({ capacity: 10 });
    sluice.tokenBucket("p", { rate: 1, burst: 1 });
    sluice.close();
    expect(() => use(sluice)).toThrow(expect.objectContaining({ code: "ERR_SLUICE_CLOSED" }));
  });

  // The scratch of a closed thread may belong to another one by now: a late write would garble its keys.
  const limiterUses: [string, (limiter: Limiter, keyed: KeyedLimiter, global: KeyedLimiter) => unknown][] = [
    ["allow of a string", (limiter) => limiter.allow("key")],
    ["allow of a number", (limiter) => limiter.allow(1)],
    ["allow of bytes", (limiter) => limiter.allow(new Uint8Array(3))],
    ["allow of the global bucket", (limiter) => limiter.global.allow()],
    ["allow of a key handle", (_, keyed) => keyed.allow()],
    ["allow of the global handle", (_, __, global) => global.allow()],
    ["consume", (limiter) => limiter.consume("key")],
    ["peek", (limiter) => limiter.peek("key")],
    ["allowMany", (limiter) => limiter.allowMany(["key", 1])],
    ["reserve", (limiter) => limiter.reserve("key")],
    ["charge", (limiter) => limiter.charge("key")],
    ["refund", (limiter) => limiter.refund("key")],
    ["reset", (limiter) => limiter.reset("key")],
    ["key", (limiter) => limiter.key("another")],
    ["setRate", (limiter) => limiter.setRate(2)],
    ["setBurst", (limiter) => limiter.setBurst(2)],
    ["limits", (limiter) => limiter.limits],
  ];
  it.each(limiterUses)("makes %s of its limiters throw ERR_SLUICE_CLOSED, and touches no memory", (_, use) => {
    const sluice = Sluice.create({ capacity: 10, clock: new ManualClock(1) });
    const limiter = sluice.tokenBucket("p", { rate: 1, burst: 1 });
    const keyed = limiter.key("handle");
    const global = limiter.global;
    const { memory } = sluice.handle;
    sluice.close();
    const before = Buffer.from(Buffer.from(memory.buffer));
    expect(() => use(limiter, keyed, global)).toThrow(expect.objectContaining({ code: "ERR_SLUICE_CLOSED" }));
    expect(Buffer.from(memory.buffer).equals(before)).toBe(true);
  });
});

describe("the coarse clock", { timeout: 30_000 }, () => {
  const cellOf = (handle: SluiceHandle): Float64Array => new Float64Array(handle.memory.buffer, at.HEADER_CLOCK, 1);

  it("goes on while the thread that made it is busy", () => {
    const sluice = Sluice.create({ capacity: 10, clock: "coarse" });
    const cell = cellOf(sluice.handle);
    // Blocks this thread's event loop until the cell has moved many times.
    let last = cell[0];
    for (let moves = 0; moves < 50;) {
      const now = cell[0];
      expect(now).toBeGreaterThanOrEqual(last);
      if (now > last) moves++;
      last = now;
    }
    sluice.close();
  });

  it("refills buckets", async () => {
    const sluice = Sluice.create({ capacity: 10, clock: "coarse" });
    const limiter = sluice.tokenBucket("p", { rate: 1000, burst: 1 });
    let admitted = 0;
    while (admitted < 20) if (limiter.allow("key")) admitted++;
    expect(admitted).toBe(20);
    sluice.close();
  });

  it("is kept going by another thread when the one that made the table is terminated", async () => {
    const { worker, ask } = await startAttached();
    const handle = await ask("create", { options: { capacity: 10, clock: "coarse", maxThreads: 3 } }) as SluiceHandle;
    const cell = cellOf(handle);
    const sluice = Sluice.attach(handle);
    const first = cell[0];
    await until(() => cell[0] > first);

    // Its ticker ended with it: from here on, another thread keeps the time.
    await worker.terminate();
    const left = cell[0];
    await until(() => cell[0] > left);
    const takenOver = cell[0];
    await until(() => cell[0] > takenOver + 10);
    sluice.close();
  });

  it("is kept going by another thread when the one that made the table closes it", async () => {
    const sluice = Sluice.create({ capacity: 10, clock: "coarse" });
    const { handle } = sluice;
    const { ask } = await startAttached({ handle });
    const cell = cellOf(handle);
    sluice.close();
    const left = cell[0];
    await until(() => cell[0] > left + 100);
    expect(await ask("stats")).toMatchObject({ threads: 1 });
  });

  it("lets a thread end by itself", async () => {
    const { worker, ask } = await startAttached();
    await ask("create", { options: { capacity: 10, clock: "coarse" } });
    const exit = once(worker, "exit");
    worker.postMessage({ ask: "end" });
    expect(await exit).toEqual([0]);
  });
});

describe("a tier", () => {
  const hire = Crew.of<LimiterJobs>(new URL("./limiter.worker.ts", import.meta.url));

  it("is found by its name from another thread", async () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("user", {
      rate: 1,
      burst: 2,
      tiers: { gold: { burst: 10 }, lead: { burst: 5, rate: 3 } },
    });
    limiter.tier("gold").allow("alice", 4);
    const crew = await hire(1, "tiers", sluice.handle, { name: "user", tiers: ["gold", "lead"], key: "alice" });
    const [{ itself, tiers }] = await crew.work();
    expect(itself).toMatchObject({ limit: 2, remaining: 1 });
    expect(tiers[0]).toMatchObject({ limit: 10, remaining: 5 });
    expect(tiers[1]).toMatchObject({ limit: 5, remaining: 4 });
    expect(limiter.tier("gold").peek("alice").remaining).toBe(5);
  });
});

describe("a limit that another thread sets", () => {
  it("is in force at the next call, even while the clock stands still", async () => {
    const { sluice } = create();
    const limiter = sluice.tokenBucket("user", { rate: 0, burst: 3 });
    const handle = limiter.key("alice");
    expect([handle.allow(), handle.allow(3)]).toEqual([true, false]);
    const { ask } = await startAttached({ handle: sluice.handle });
    await ask("setBurst", { name: "user", burst: 1 });
    expect([handle.allow(2), handle.allow(), handle.allow()]).toEqual([false, true, false]);
  });
});
