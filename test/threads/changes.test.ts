// Limits that change while threads take all they can get.

import { setTimeout } from "node:timers/promises";
import { type Limiter, Sluice } from "sluice";
import { afterEach, describe, expect, it } from "vitest";
import { callsOf } from "../tables.js";
import type { ChangesJobs } from "./changes.worker.js";
import { Crew, until } from "./crew.js";

const hire = Crew.of<ChangesJobs>(new URL("./changes.worker.ts", import.meta.url));
const open: Sluice[] = [];
afterEach(() => {
  for (const sluice of open.splice(0)) sluice.close();
});

const FAST = 1e6;
const BURST = 1000;

describe.each(["precise", "coarse"] as const)(
  "a rate that is lowered from a million to 1 a second, by the %s clock",
  (clock) => {
    const kinds: [string, (sluice: Sluice) => Limiter, (limiter: Limiter, rate: number) => void][] = [
      [
        "a token bucket",
        (sluice) => sluice.tokenBucket("it", { rate: FAST, burst: BURST }),
        (it, rate) => it.setRate(rate),
      ],
      [
        "a leaky bucket",
        (sluice) => sluice.leakyBucket("it", { rate: FAST, burst: BURST }),
        (it, rate) => it.setRate(rate),
      ],
      [
        "several limits",
        (sluice) =>
          sluice.tokenBucket("it", { limits: [{ rate: FAST, burst: BURST }, { rate: 2 * FAST, burst: BURST }] }),
        (it, rate) => it.setRate(rate, 0),
      ],
    ];
    it.each(kinds.flatMap((kind) => ["key", undefined].map((key) => [...kind, key] as const)))(
      "leaves no debt: %s at full load (key %4$s)",
      { timeout: 60_000 },
      async (_, define, set, key) => {
        const sluice = Sluice.create({ capacity: 1000, clock });
        open.push(sluice);
        const limiter = define(sluice);
        const crew = await hire(2, "takes", sluice.handle, { name: "it", key });
        crew.begin();
        let moved = 0;
        // A busy machine gets more rounds, a violation none.
        for (let round = 0; round < 10 || (moved === 0 && round < 100); round++) {
          set(limiter, FAST);
          const before = crew.counted();
          // At full load: more was taken than the burst holds.
          await until(() => crew.counted() > before + 2 * BURST);
          const atChange = crew.counted();
          set(limiter, 1);
          // The new rate begins within 5 ms, and a tick of the coarse clock.
          await setTimeout(30);
          if (crew.counted() > atChange) moved++;
          const { retryAfterMs } = callsOf(limiter, key).peek(1);
          expect(retryAfterMs).toBeLessThanOrEqual(1000.001);
        }
        crew.stop();
        await crew.reports();
        expect(moved, "rounds in which others took while the rate changed").toBeGreaterThan(0);
      },
    );
  },
);
