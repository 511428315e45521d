/** The leaky pool: every task starts in its turn, and has exactly one outcome. */
import { ManualClock, Sluice } from "sluice";
import { LeakyPool } from "sluice/pool";
import { afterEach, describe, expect, it } from "vitest";
import type { Task } from "./pool.worker.js";
import { compiled, until } from "./threads/crew.js";

const filename = compiled(new URL("./pool.worker.ts", import.meta.url)).href;
const open: { destroy?(): Promise<void>; close(): unknown }[] = [];

afterEach(async () => {
  for (const each of open.splice(0).reverse()) await (each.destroy ? each.destroy() : each.close());
});

function words(count: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(4 * count));
}

function openGate(gate: Int32Array): void {
  Atomics.store(gate, 0, 1);
  Atomics.notify(gate, 0);
}

/** A pool on a manual clock. */
function create(
  options: { workers?: number; rate?: number; queue?: number } = {},
): { pool: LeakyPool<Task, unknown>; clock: ManualClock; sluice: Sluice } {
  const clock = new ManualClock(1000);
  const sluice = Sluice.create({ capacity: 100, clock });
  const pool = new LeakyPool<Task, unknown>({
    filename,
    workers: 2,
    rate: 10,
    queue: 10,
    home: { sluice, name: "pool" },
    piscina: { execArgv: [] },
    ...options,
  });
  open.push(sluice, pool);
  return { pool, clock, sluice };
}

/** Promises and their outcomes, in the order of the outcomes. */
class Outcomes {
  readonly list: string[] = [];
  readonly #all: Promise<unknown>[] = [];

  watch(name: string, promise: Promise<unknown>): void {
    this.#all.push(
      promise.then(
        (value) => this.list.push(`${name}: ${String(value)}`),
        (error: Error & { code?: string }) =>
          this.list.push(`${name} failed: ${error.code ?? error.message ?? String(error)}`),
      ),
    );
  }

  /** Resolves once every promise has its outcome; the time limit of the test fails one that never has. */
  async all(): Promise<string[]> {
    await Promise.all(this.#all);
    return this.list;
  }
}

const turn = async (): Promise<void> => {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};

describe("a leaky pool", { timeout: 30_000 }, () => {
  it("starts its tasks in order, one every 1 / rate, and resolves to their results", async () => {
    const { pool, clock } = create();
    const log = words(10);
    const outcomes = new Outcomes();
    for (let place = 0; place < 5; place++) {
      outcomes.watch(`${place}`, pool.run({ log, place, value: `task ${place}` }));
    }
    await until(() => log[0] === 1);
    expect(pool.queueSize).toBe(4);
    for (let begun = 2; begun <= 5; begun++) {
      clock.advance(99.999999);
      await turn();
      expect(pool.queueSize).toBe(6 - begun);
      clock.set(1000 + 100 * (begun - 1));
      await until(() => log[0] === begun);
      expect(pool.queueSize).toBe(5 - begun);
    }
    expect(await outcomes.all()).toEqual(["0: task 0", "1: task 1", "2: task 2", "3: task 3", "4: task 4"]);
    expect([...log.slice(1, 6)]).toEqual([1, 2, 3, 4, 5]);
    expect(pool.running).toBe(0);
  });

  it("runs no more tasks at once than it has threads, however fast the bucket leaks", async () => {
    const { pool, clock } = create({ rate: 1000, workers: 2 });
    const log = words(10);
    const gate = words(1);
    const outcomes = new Outcomes();
    for (let place = 0; place < 4; place++) outcomes.watch(`${place}`, pool.run({ log, place, gate, value: place }));
    for (let i = 0; i < 10; i++) {
      clock.advance(1);
      await turn();
    }
    await until(() => log[0] === 2);
    expect([pool.running, pool.queueSize]).toEqual([2, 2]);
    openGate(gate);
    for (let i = 0; i < 3; i++) {
      await turn();
      clock.advance(1);
    }
    await until(() => {
      clock.advance(1);
      return log[0] === 4;
    });
    expect((await outcomes.all()).toSorted()).toEqual(["0: 0", "1: 1", "2: 2", "3: 3"]);
  });

  it("refuses at once a task that the queue has no room for, and has room again when a task has left", async () => {
    const { pool, clock } = create({ queue: 2 });
    const outcomes = new Outcomes();
    for (const name of ["a", "b", "c"]) outcomes.watch(name, pool.run({ value: name }));
    await expect(pool.run({ value: "d" })).rejects.toMatchObject({
      code: "ERR_SLUICE_QUEUE_FULL",
      message: "queue full: 2 tasks wait, queue is 2",
      limiter: "pool",
      cost: 1,
      retryAfterMs: 200,
    });
    await expect(pool.run({ value: "e" })).rejects.toMatchObject({ code: "ERR_SLUICE_QUEUE_FULL" });
    clock.advance(100);
    await until(() => pool.queueSize === 1);
    outcomes.watch("f", pool.run({ value: "f" }));
    await expect(pool.run({ value: "g" })).rejects.toMatchObject({ code: "ERR_SLUICE_QUEUE_FULL" });
    await until(() => {
      clock.advance(50);
      return outcomes.list.length === 4;
    });
    expect((await outcomes.all()).toSorted()).toEqual(["a: a", "b: b", "c: c", "f: f"]);
  });

  it("with queue 0 takes only tasks that can start at once", async () => {
    const { pool, clock } = create({ queue: 0 });
    expect(await pool.run({ value: 1 })).toBe(1);
    await expect(pool.run({ value: 2 })).rejects.toMatchObject({ code: "ERR_SLUICE_QUEUE_FULL" });
    clock.advance(100);
    expect(await pool.run({ value: 3 })).toBe(3);
  });

  it("rejects a task that is aborted while it waits, and gives its place and turn to others", async () => {
    const { pool, clock } = create({ queue: 2 });
    const log = words(10);
    const outcomes = new Outcomes();
    const abort = new AbortController();
    outcomes.watch("a", pool.run({ log, place: 0, value: "a" }));
    outcomes.watch("b", pool.run({ log, place: 1, value: "b" }, { signal: abort.signal }));
    outcomes.watch("c", pool.run({ log, place: 2, value: "c" }));
    await until(() => outcomes.list.length === 1);
    abort.abort(new Error("gave up"));
    await turn();
    expect(outcomes.list).toEqual(["a: a", "b failed: gave up"]);
    outcomes.watch("d", pool.run({ log, place: 3, value: "d" }));
    clock.advance(100);
    await until(() => outcomes.list.length === 3);
    clock.advance(100);
    expect(await outcomes.all()).toEqual(["a: a", "b failed: gave up", "c: c", "d: d"]);
    expect([...log.slice(0, 5)]).toEqual([3, 1, 0, 2, 3]);
    await expect(pool.run({}, { signal: AbortSignal.abort(new Error("too late")) })).rejects.toThrow("too late");
  });

  it("rejects a task that is aborted while it runs with the reason, and runs the next on another thread", async () => {
    const { pool, clock } = create({ workers: 1 });
    const log = words(10);
    const abort = new AbortController();
    const outcomes = new Outcomes();
    outcomes.watch("hung", pool.run({ log, place: 0, gate: words(1) }, { signal: abort.signal }));
    outcomes.watch("next", pool.run({ log, place: 1, value: "done" }));
    await until(() => log[0] === 1);
    expect(pool.running).toBe(1);
    abort.abort(new Error("took too long"));
    await until(() => outcomes.list.length === 1);
    expect(outcomes.list).toEqual(["hung failed: took too long"]);
    await until(() => {
      clock.advance(10);
      return outcomes.list.length === 2;
    });
    expect(await outcomes.all()).toEqual(["hung failed: took too long", "next: done"]);
    expect([pool.running, pool.queueSize]).toEqual([0, 0]);
  });

  it("reports a task's failure to its caller only", async () => {
    const { pool, clock } = create();
    const outcomes = new Outcomes();
    outcomes.watch("a", pool.run({ error: "broken" }));
    outcomes.watch("b", pool.run({ value: "fine" }));
    await until(() => outcomes.list.length === 1);
    clock.advance(100);
    expect(await outcomes.all()).toEqual(["a failed: broken", "b: fine"]);
  });

  it("runs another of the worker's functions by its name", async () => {
    const { pool } = create();
    expect(await pool.run({ value: 21 }, { name: "double" })).toBe(42);
  });

  it("when closed takes no more tasks, and finishes those it has", async () => {
    const { pool, clock } = create();
    const outcomes = new Outcomes();
    for (const name of ["a", "b", "c"]) outcomes.watch(name, pool.run({ value: name }));
    let isClosed = false;
    const closing = pool.close().then(() => (isClosed = true));
    await expect(pool.run({ value: "d" })).rejects.toMatchObject({ code: "ERR_SLUICE_CLOSED" });
    await turn();
    expect(isClosed).toBe(false);
    await until(() => {
      clock.advance(10);
      return isClosed;
    });
    await closing;
    expect(outcomes.list.toSorted()).toEqual(["a: a", "b: b", "c: c"]);
    expect([pool.running, pool.queueSize]).toEqual([0, 0]);
    await pool.close();
  });

  it("closes also if its last task is aborted while it waits", async () => {
    const { pool } = create();
    const abort = new AbortController();
    const outcomes = new Outcomes();
    outcomes.watch("a", pool.run({ value: "a" }));
    outcomes.watch("b", pool.run({ value: "b" }, { signal: abort.signal }));
    await until(() => outcomes.list.length === 1);
    const closing = pool.close();
    abort.abort(new Error("gave up"));
    await closing;
    expect(await outcomes.all()).toEqual(["a: a", "b failed: gave up"]);
  });

  it("when destroyed rejects at once the waiting and the running tasks, and leaves nothing behind", async () => {
    const { pool, sluice } = create({ workers: 1 });
    const log = words(10);
    const outcomes = new Outcomes();
    outcomes.watch("running", pool.run({ log, place: 0, gate: words(1) }));
    outcomes.watch("b", pool.run({ value: "b" }));
    outcomes.watch("c", pool.run({ value: "c" }, { signal: new AbortController().signal }));
    await until(() => log[0] === 1);
    await pool.destroy();
    const list = await outcomes.all();
    expect(list.filter((each) => each.endsWith("ERR_SLUICE_CLOSED"))).toEqual([
      "b failed: ERR_SLUICE_CLOSED",
      "c failed: ERR_SLUICE_CLOSED",
    ]);
    expect(list.some((each) => each.startsWith("running failed: "))).toBe(true);
    await until(() => pool.running === 0);
    expect(pool.queueSize).toBe(0);
    await expect(pool.run({ value: "d" })).rejects.toMatchObject({ code: "ERR_SLUICE_CLOSED" });
    // The turn that no task took went back.
    expect(sluice.limiter("pool").global.peek().retryAfterMs).toBe(100);
  });

  it("when destroyed rejects all tasks that wait for the rate", async () => {
    const { pool } = create({ rate: 0.001, queue: 100 });
    const outcomes = new Outcomes();
    outcomes.watch("first", pool.run({ value: 1 }));
    await until(() => outcomes.list.length === 1);
    for (let i = 0; i < 50; i++) outcomes.watch(`${i}`, pool.run({ value: i }));
    expect(pool.queueSize).toBe(50);
    await pool.destroy();
    expect((await outcomes.all()).filter((each) => each.endsWith("ERR_SLUICE_CLOSED")).length).toBe(50);
    expect([pool.running, pool.queueSize]).toEqual([0, 0]);
  });

  it("shares one rate with another pool of the same home, and has a queue of its own", async () => {
    const { pool, clock, sluice } = create();
    const other = new LeakyPool<Task, unknown>({
      filename,
      workers: 1,
      rate: 10,
      queue: 10,
      home: { sluice, name: "pool" },
      piscina: { execArgv: [] },
    });
    open.push(other);
    const log = words(10);
    const outcomes = new Outcomes();
    for (let place = 0; place < 6; place++) {
      outcomes.watch(`${place}`, (place % 2 ? pool : other).run({ log, place, value: "done" }));
    }
    for (let moves = 0; moves < 6; moves++) {
      await until(() => outcomes.list.length > moves);
      await turn();
      expect(log[0]).toBe(moves + 1);
      clock.advance(100);
    }
    expect((await outcomes.all()).toSorted()).toEqual([0, 1, 2, 3, 4, 5].map((place) => `${place}: done`));
  });

  it("without a home has a rate of its own, on the real clock", async () => {
    const pool = new LeakyPool<Task, unknown>({ filename, workers: 2, rate: 50, queue: 20, piscina: { execArgv: [] } });
    open.push(pool);
    const startMs = performance.now();
    await Promise.all(Array.from({ length: 11 }, (_, value) => pool.run({ value })));
    // The first at once, the tenth behind it after ten intervals of 20 ms: never before.
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(199);
  });

  it("refuses options that are wrong", () => {
    expect(() => new LeakyPool({ filename, workers: 0, rate: 1, queue: 1 })).toThrow(
      "\"workers\" expected an integer from 1 to 1024, got 0",
    );
    expect(() => new LeakyPool({ filename, workers: 1, rate: 1, queue: -1 })).toThrow(
      "\"queue\" expected an integer from 0 to 2147483647, got -1",
    );
    expect(() => new LeakyPool({ filename, workers: 1, rate: Number.NaN, queue: 1 })).toThrow("\"rate\" expected");
    const options = { filename, workers: 1, rate: 1, queue: 1 };
    expect(() => new LeakyPool({ ...options, threads: 1 } as never)).toThrow("\"options\" has no option \"threads\"");
    expect(() => new LeakyPool({ ...options, home: { table: 1 } } as never)).toThrow(
      "\"home\" has no option \"table\"; known are sluice, name",
    );
    expect(() => new LeakyPool({ ...options, home: { sluice: {}, name: "x" } } as never)).toThrow(
      "\"home.sluice\" expected a Sluice, got an object",
    );
  });

  it("rejects unknown options of a run", async () => {
    const { pool } = create();
    await expect(pool.run({}, { singal: 1 } as never)).rejects.toThrow(
      "\"options\" has no option \"singal\"; did you mean \"signal\"?",
    );
  });
});
