// The word of leased tokens under threads that race for it.

import { describe, expect, it } from "vitest";
import { HOLD_MS, Leases } from "../engine/policy/leases.js";
import { Crew, startWorker, sum } from "./crew.js";
import type { LeaseWordJobs } from "./lease-word.worker.js";

const LIFE_MS = 500;
const ASK = 2;
const workers = new URL("./lease-word.worker.ts", import.meta.url);
const hire = Crew.of<LeaseWordJobs>(workers);

describe("4 threads that lease", { timeout: 60_000 }, () => {
  it("spend every token once, and ask one at a time", async () => {
    for (const key of ["key", undefined]) {
      for (let attempt = 0;; attempt++) {
        const leases = new Leases({ startMs: 1 });
        const shared = new Int32Array(new SharedArrayBuffer(8));
        const crew = await hire(4, "spend", leases.sluice.handle, { key, shared, calls: 500_000, endMs: LIFE_MS });
        const reports = await crew.work();
        const added = sum(reports.map((report) => report.added));
        expect(sum(reports.map((report) => report.spent)) + leases.takeBack(key)).toBe(added);
        // Word 1 counts threads that asked while another one did.
        expect(shared[1]).toBe(0);
        const { contended } = leases.sluice.stats();
        expect(leases.sluice.audit().clean).toBe(true);
        leases.sluice.close();
        if (contended > 0 && reports.filter(({ asked }) => asked > 0).length > 1) break;
        expect(attempt, "tries without contention").toBeLessThan(10);
      }
    }
  });

  it("lose what a killed thread asked for, and ask again when its flag has lapsed", async () => {
    const leases = new Leases({ startMs: 1 });
    const worker = startWorker(workers, { handle: leases.sluice.handle, job: "ask and hang" });
    expect(await new Promise((resolve) => worker.once("message", resolve))).toBe(ASK);
    await worker.terminate();
    expect(leases.take("key")).toBe(0);
    leases.clock.advance(HOLD_MS);
    expect(leases.take("key")).toBe(ASK);
  });
});
