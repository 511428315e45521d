// The contract of a limiter, run against the kinds of a table; and what a table promises besides.

import { type Key, type Limiter, ManualClock, Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import { decides, keepsBounds, KEYS, type Kind, type Place, tableKinds, waits } from "../../contract.js";
import { toNs } from "../../models/window-models.js";
import { create } from "../../tables.js";

function inTable(): Place<Limiter> {
  const clock = new ManualClock(1000);
  const sluice = Sluice.create({ capacity: 1000, clock });
  return {
    makers: sluice,
    stepMs: 1e-6,
    pass: (ms) => clock.set((toNs(clock.nowMs) + toNs(ms)) / 1e6),
    close: () => sluice.close(),
  };
}

describe("a limiter of a table", () => {
  decides(inTable, tableKinds);
  waits(inTable, tableKinds);
  keepsBounds(inTable, tableKinds);
});

/** How often a key is admitted at one moment. */
function drain(limiter: Limiter, key: Key): number {
  let admitted = 0;
  while (limiter.allow(key)) admitted++;
  return admitted;
}

describe.each(tableKinds)("$kind, in its table", ({ kind, make, atOnce, hasBurst }: Kind) => {
  const isWindow = /window/i.test(kind);

  it("counts what it admits and denies, and claims a slot for each key", () => {
    const { sluice } = create();
    const limiter = make(sluice, 5);
    for (const key of KEYS) {
      expect(drain(limiter, key)).toBe(atOnce(5));
      expect(limiter.allow(key)).toBe(false);
    }
    expect(sluice.stats().limiters.it).toMatchObject({
      allowed: atOnce(5) * KEYS.length,
      denied: 2 * KEYS.length,
      claimed: KEYS.length,
    });
    expect(sluice.audit()).toMatchObject({ clean: true, used: KEYS.length });
  });

  it("answers the same by key handles and allowMany as by allow", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 4);
    const ways: ((key: Key) => boolean)[] = [
      (key) => limiter.allow(key),
      (key) => limiter.allowMany([key])[0] === 1,
      (key) => limiter.key(key).allow(),
      (key) => limiter.key(key).consume().allowed,
      (key) => limiter.key(key).reserve(1, { maxWaitMs: 0 }).granted,
    ];
    const handle = limiter.key("handle");
    for (let step = 0; step < 60; step++) {
      const wanted = limiter.peek(0).allowed;
      expect(ways.map((way, i) => way(i)), `step ${step}`).toEqual(ways.map(() => wanted));
      expect(handle.allow()).toBe(wanted);
      expect(handle.peek()).toEqual(limiter.peek("handle"));
      expect(limiter.allowMany(["x", "y"]).join()).toBe(`${+wanted},${+wanted}`);
      clock.advance(step % 7 === 0 ? 1000 : 60);
    }
    const counts = sluice.stats().limiters.it;
    expect(counts.allowed).toBeGreaterThan(100);
    expect(counts.denied).toBeGreaterThan(100);
  });

  it("decides for many in order as one by one, duplicates too", () => {
    const { sluice } = create();
    const many = make(sluice, 3, "many");
    const alone = make(sluice, 3, "alone");
    const keys = Array.from({ length: 500 }, (_, i) => (i * 7) % 31);
    expect([...many.allowMany(keys)]).toEqual(keys.map((key) => Number(alone.allow(key))));
  });

  it("claims no slot for a peek, a refusal, a cost of 0, a reset or a refund", () => {
    const { sluice } = create();
    const limiter = make(sluice, 5);
    limiter.peek("never");
    limiter.allow("never", 0);
    limiter.reserve("never", 0);
    limiter.reset("never");
    limiter.refund("never", 5);
    if (hasBurst) expect(limiter.allow("never", 6)).toBe(false);
    expect(sluice.audit().used).toBe(0);
    drain(limiter, "key");
    const before = limiter.peek("key");
    for (let i = 0; i < 10; i++) limiter.allowMany(["key", "key"]);
    expect(limiter.peek("key")).toEqual(before);
  });

  it("gives a slot up at resetMs", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 5);
    drain(limiter, "key");
    const { resetMs } = limiter.peek("key");
    clock.set((toNs(1000 + resetMs) - 1) / 1e6);
    expect(sluice.audit()).toMatchObject({ used: 1, fresh: 0 });
    clock.set(toNs(1000 + resetMs) / 1e6);
    expect(sluice.audit()).toMatchObject({ used: 1, fresh: 1 });
  });

  it("takes a new rate and a new burst, and says them", () => {
    const { sluice, clock } = create();
    const limiter = make(sluice, 5);
    drain(limiter, "key");
    expect(limiter.rate).toBeGreaterThan(0);
    expect(limiter.limits[0]).toEqual({ rate: limiter.rate, burst: limiter.burst });
    if (isWindow) {
      limiter.setLimit(50);
      expect(limiter.burst).toBe(50);
      clock.advance(5000);
      expect(drain(limiter, "key")).toBe(50);
      limiter.setLimit(2);
      expect(() => limiter.setRate(50)).toThrow(/^"it" is a \w+Window and has no rate to set; use setLimit\(\)$/);
      expect(() => limiter.setBurst(2)).toThrow(/^"it" is a \w+Window and has no burst to set; use setLimit\(\)$/);
      for (const limit of [-1, Number.NaN, 0.5, "5", 2 ** 31]) {
        expect(() => limiter.setLimit(limit as number)).toThrow("\"limit\" expected an integer");
      }
    } else {
      limiter.setRate(50);
      if (kind === "several limits") limiter.setRate(50, 0);
      expect(limiter.rate).toBe(50);
      clock.advance(5000);
      expect(limiter.allow("key")).toBe(true);
      if (hasBurst) limiter.setBurst(2);
      else expect(() => limiter.setBurst(2)).toThrow(/^"it" is a warmUp and has no burst to set; use setRate\(\)$/);
      expect(() => limiter.setLimit(2)).toThrow(/^"it" is a \w+ and has no limit to set; use setRate\(\)/);
    }
    clock.advance(5000);
    expect(drain(limiter, "other")).toBe(hasBurst ? 2 : 1);
    for (const rate of [-1, Number.NaN, "5"]) {
      expect(() => limiter.setRate(rate as number)).toThrow("\"rate\" expected");
    }
    if (hasBurst) {
      for (const burst of [-1, Number.NaN, 0.5, "5"]) {
        expect(() => limiter.setBurst(burst as number)).toThrow("\"burst\" expected");
      }
    }
  });

  it("is the same from its name, and another with other options", () => {
    const { sluice } = create();
    const limiter = make(sluice, 5);
    expect(make(sluice, 5)).toBe(limiter);
    expect(sluice.limiter("it")).toBe(limiter);
    expect(() => make(sluice, 6)).toThrow(expect.objectContaining({ code: "ERR_SLUICE_POLICY_EXISTS" }));
  });
});
