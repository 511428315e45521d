// The queue of waiters, against plain arrays.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Queue } from "../../../src/engine/waiting/queue.js";

interface Plain {
  row: number;
  key: number;
  dueAtMs: number;
  deadlineMs: number;
  order: number;
}

// Few keys, some in the same chain; halves beyond 31 bits, as the kernel gives them.
const keys = Array.from(
  { length: 7 },
  (_, i) => ({ low: i === 0 ? 0 : (0x9e3779b1 * i) >>> 0, high: i === 0 ? 0 : (0xffffffff - i) >>> 0, setA: 128 * i }),
);

const steps = fc.array(
  fc.oneof(
    {
      weight: 9,
      arbitrary: fc.record({
        does: fc.constant("add" as const),
        key: fc.nat(keys.length - 1),
        dueAtMs: fc.nat(20),
        deadlineMs: fc.constantFrom(3, 10, Infinity),
      }),
    },
    { weight: 3, arbitrary: fc.record({ does: fc.constant("remove" as const), which: fc.nat() }) },
    { weight: 2, arbitrary: fc.record({ does: fc.constant("move" as const), which: fc.nat(), dueAtMs: fc.nat(20) }) },
    { weight: 2, arbitrary: fc.constant({ does: "settle" as const }) },
  ),
  { maxLength: 150, size: "max" },
);

const wakeMs = ({ dueAtMs, deadlineMs }: Plain): number => Math.min(dueAtMs, deadlineMs);
const noop = (): void => {};

function check(rows: Queue, plain: readonly Plain[]): void {
  expect(rows.count).toBe(plain.length);
  expect([...rows].sort((a, b) => a - b)).toEqual(plain.map(({ row }) => row).sort((a, b) => a - b));
  const [first] = plain.toSorted((a, b) => wakeMs(a) - wakeMs(b) || a.order - b.order);
  expect(rows.first).toBe(first?.row ?? -1);
  expect(rows.latestFirst()).toEqual(plain.toReversed().map(({ row }) => row));
  keys.forEach((key, i) => {
    const queue = plain.filter((each) => each.key === i);
    expect(rows.lengthOf(key)).toBe(queue.length);
    expect(queue.map(({ row }) => rows.behind(row))).toEqual(queue.map((_, place) => queue[place + 1]?.row ?? -1));
  });
}

describe("the queue of waiters", () => {
  it("keeps each key's order of arrival, and the next to look at in front", () => {
    let most = 0;
    fc.assert(
      fc.property(steps, (walk) => {
        const rows = new Queue();
        const plain: Plain[] = [];
        walk.forEach((step, order) => {
          if (step.does === "add") {
            const row = rows.add(keys[step.key], 1, step.dueAtMs, step.deadlineMs, noop);
            plain.push({ row, key: step.key, dueAtMs: step.dueAtMs, deadlineMs: step.deadlineMs, order });
          } else if (plain.length > 0) {
            const at = step.does === "settle"
              ? plain.findIndex(({ row }) => row === rows.first)
              : step.which % plain.length;
            if (step.does === "move") {
              plain[at].dueAtMs = rows.dueAtMs[plain[at].row] = step.dueAtMs;
              rows.replace(plain[at].row);
            } else {
              rows.remove(plain[at].row);
              plain.splice(at, 1);
            }
          }
          most = Math.max(most, plain.length);
          check(rows, plain);
        });
      }),
      { numRuns: 60 },
    );
    expect(most).toBeGreaterThan(30);
  });

  it("frees the memory of a rush when it is empty, and begins again", () => {
    const rows = new Queue();
    for (let rush = 0; rush < 2; rush++) {
      const made = Array.from({ length: 5000 }, (_, i) => rows.add(keys[i % keys.length], i, i, Infinity, noop));
      expect(rows.dueAtMs.length).toBeGreaterThanOrEqual(5000);
      expect(made.map((row) => rows.cost[row])).toEqual(made.map((_, i) => i));
      for (const row of made) rows.remove(row);
      expect(rows.dueAtMs.length).toBeLessThan(100);
      expect(rows.first).toBe(-1);
    }
  });
});
