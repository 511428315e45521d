// The rivals of the benchmarks limit, each of them, and as the policy says:
// who is compared with one that admits everything is compared with nothing.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterEach, describe, expect, it, vi } from "vitest";

interface Asked {
  ask(key: string | number): boolean | Promise<boolean>;
  close(): void | Promise<void>;
}

interface Rival {
  name: string;
  answers: "sync" | "promise";
  make(options: { rate: number; burst: number; capacity: number }): Asked;
}

interface Round {
  case: string;
  threads?: number;
  unit: string;
  values: number[];
}

interface Outside {
  name: string;
  absent(): string | undefined;
  version(): string;
  measure(
    question: string,
    options: { rounds: number; decisions?: number; keys?: number; order?: Uint32Array; ms?: number; warmUpMs?: number },
  ): Promise<Round[]>;
}

const bench = (file: string): string => new URL(`../${file}`, import.meta.url).href;
const { rivals, overRedis, outside, describeRivals }: {
  rivals: Rival[];
  overRedis: unknown[];
  outside: Outside[];
  describeRivals(): { name: string; version?: string; absent?: string }[];
} = await import(bench("rivals/index.js"));

const BURST = 5;
const RATE = 10;
/** Everything that was taken is there again, in a bucket as in a window. */
const REFILL_MS = (1000 * BURST) / RATE;

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

describe.each(rivals)("$name", ({ make, answers }) => {
  const policy = { rate: RATE, burst: BURST, capacity: 100 };

  /** The answers for a key. A timer that an answer needs is let run. */
  const answersFor = async ({ ask }: Asked, key: string | number, count: number): Promise<boolean[]> => {
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
  it("let the process end once they are closed, however long their windows are", async () => {
    const source = `
      const { rivals } = await import(${JSON.stringify(bench("rivals/index.js"))})
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

  it("says what to install where there are no tools for it", () => {
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
