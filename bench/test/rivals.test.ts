// Each rival of the benchmarks limits as its policy says: a comparison with a rival
// that admits everything would mean nothing.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterEach, describe, expect, it, vi } from "vitest";
import { describeRivals, outside, overRedis, rivals } from "../rivals/index.js";
import type { Key, MadeRival } from "../rivals/rival.js";

const compiled = new URL("../dist/rivals/index.js", import.meta.url).href;
const BURST = 5;
const RATE = 10;
/** After this time everything is back, in a bucket and in a window. */
const REFILL_MS = (1000 * BURST) / RATE;

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

describe.each(rivals)("$name", ({ make, answers }) => {
  const policy = { rate: RATE, burst: BURST, capacity: 100 };

  /** The answers for a key. Timers that an answer needs are run. */
  const answersFor = async ({ ask }: MadeRival, key: Key, count: number): Promise<boolean[]> => {
    const all: boolean[] = [];
    for (let i = 0; i < count; i++) {
      const answer = ask(key);
      expect(typeof answer).toBe(answers === "sync" ? "boolean" : "object");
      if (answer instanceof Promise) void vi.advanceTimersByTimeAsync(10);
      all.push(await answer);
    }
    return all;
  };

  it("admits the burst of each key and no more, until time has passed", async () => {
    vi.useFakeTimers();
    const made = make(policy);
    const burstAndNoMore = [...Array(BURST).fill(true), false, false];
    expect(await answersFor(made, "10.0.0.1", BURST + 2)).toEqual(burstAndNoMore);
    expect(await answersFor(made, "10.0.0.2", BURST + 2)).toEqual(burstAndNoMore);
    expect(await answersFor(made, "10.0.0.1", 1)).toEqual([false]);
    await vi.advanceTimersByTimeAsync(REFILL_MS);
    expect(await answersFor(made, "10.0.0.1", BURST + 2)).toEqual(burstAndNoMore);
    const closed = made.close();
    await vi.advanceTimersByTimeAsync(10);
    await closed;
  });

  it("takes numbers as keys", async () => {
    vi.useFakeTimers();
    const made = make(policy);
    expect(await answersFor(made, 2654435761, BURST + 1)).toEqual([...Array(BURST).fill(true), false]);
    const closed = made.close();
    await vi.advanceTimersByTimeAsync(10);
    await closed;
  });
});

describe("the rivals", () => {
  it("are said to read a clock exactly if a decision reads one", async () => {
    const now = vi.spyOn(Date, "now");
    const precise = vi.spyOn(performance, "now");
    const hrtime = vi.spyOn(process, "hrtime");
    const bigint = vi.spyOn(process.hrtime, "bigint");
    for (const { name, make, readsClock } of rivals) {
      const { ask, close } = make({ rate: RATE, burst: BURST, capacity: 100 });
      await ask("10.0.0.1");
      for (const clock of [now, precise, hrtime, bigint]) clock.mockClear();
      await ask("10.0.0.1");
      const readings = [now, precise, hrtime, bigint].reduce((sum, { mock }) => sum + mock.calls.length, 0);
      await close();
      expect(readings > 0, name).toBe(readsClock);
    }
    vi.restoreAllMocks();
  });

  it("let the process end once they are closed, however long their windows are", async () => {
    const source = `
      const { rivals } = await import(${JSON.stringify(compiled)})
      for (const { make } of rivals) {
        const { ask, close } = make({ rate: 1e-9, burst: 1000, capacity: 100 })
        if (!(await ask('10.0.0.1'))) throw new Error('refused')
        await close()
      }
      console.log(rivals.length)`;
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", source], {
      timeout: 60_000,
    });
    expect(stdout.trim()).toBe(String(rivals.length));
    expect(stderr).toBe("");
  });

  it("have exact versions", () => {
    const described = describeRivals();
    expect(described).toHaveLength(rivals.length + overRedis.length + outside.length);
    for (const { name, version, absent } of described) {
      expect(version ?? absent, name).toMatch(/^\d+\.\d+\.\d+|^\d+\.\d+-\d|^own$|apt-get install/);
    }
  });
});

describe.each(outside)("$name", ({ name, absent, measure }) => {
  const reason = absent();
  if (reason !== undefined) process.stderr.write(`${name} is not run: ${reason}\n`);

  it("says what to install if its tools are missing", () => {
    vi.stubEnv("PATH", "/nowhere");
    expect(absent()).toMatch(/^no .*: apt-get install [-a-z ]+$/);
    expect(describeRivals().find((each) => each.name === name)).toEqual({
      name,
      what: expect.any(String),
      absent: absent(),
    });
  });

  it.skipIf(reason !== undefined)("runs, checks its own answers and reports every round", async () => {
    const order = Uint32Array.from({ length: 8000 }, (_, i) => (i * 7) % 100);
    const some = { rounds: 2, decisions: 2000, keys: 100, order, ms: 5, warmUpMs: 50 };
    const hot = await measure("hot", some);
    expect(hot.map((each) => each.case).sort()).toEqual(["admitted", "refused"]);
    const keyed = await measure("keys", some);
    const together = await measure("threads", some);
    expect(together.map(({ threads }) => threads).sort()).toEqual([1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4]);
    for (const { unit, values } of [...hot, ...keyed]) {
      expect(unit).toBe("ns");
      expect(values).toHaveLength(2);
      for (const ns of values) expect(ns).toBeGreaterThan(0);
    }
    for (const { unit, values } of together) {
      expect(unit).toBe("/ms");
      expect(values).toHaveLength(2);
    }
  });
});
