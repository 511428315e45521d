// The word of leased tokens: step by step against a model, and by age of its tokens.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Key } from "../../../src/engine/table/key.js";
import { announceSeed } from "../../seed.js";
import { sum } from "../../threads/crew.js";
import { HOLD_MS, Leases } from "./leases.js";

const STEP_MS = 2 ** 21 / 1e6;
const LIFE_MS = 500;
const MOST = 2 ** 16 - 1;
const ASK = 2;
const SHORT = 1;
const PAUSE = 3;

const stepOf = (ms: number): number => Math.floor(Math.round(ms * 1e6) / 2 ** 21);

/** A model of the word, with a field for each thing. */
class ModelWord {
  #end = 0;
  #tokens = 0;
  #isHeld = false;
  #isTold = false;
  #size = 0;

  #isLive(nowMs: number): boolean {
    return stepOf(nowMs) < this.#end;
  }

  left(nowMs: number): number {
    return this.#isLive(nowMs) ? this.#tokens : 0;
  }

  state(nowMs: number): number {
    if (!this.#isLive(nowMs)) return 0;
    return !this.#isHeld ? 0 : this.#isTold ? PAUSE : ASK;
  }

  endMs(nowMs: number): number {
    return this.#isLive(nowMs) ? this.#end * STEP_MS : 0;
  }

  take(cost: number, nowMs: number): number {
    if (cost === 0) return 1;
    const left = this.left(nowMs);
    const isHeld = this.#isHeld && this.#isLive(nowMs);
    const isThere = cost <= left;
    const after = isThere ? left - cost : left;
    const isLow = after === 0 || (!this.#isTold && after <= 2 ** this.#size / 4 && stepOf(nowMs + HOLD_MS) < this.#end);
    const asks = !isHeld && (!isThere || isLow);
    if (isThere) this.#tokens = after;
    if (asks) {
      const until = stepOf(nowMs + HOLD_MS);
      this.#end = after > 0 ? Math.min(this.#end, until) : until;
      this.#tokens = after;
      this.#isHeld = true;
      this.#isTold = false;
    }
    return (isThere ? 1 : 0) + (asks ? ASK : 0);
  }

  /** Tokens added, and tokens kept of those that were left. */
  deposit(tokens: number, endMs: number, as: number, nowMs: number): { added: number; kept: number } {
    const kept = Math.min(this.left(nowMs), 2 ** this.#size);
    const added = Math.min(tokens, MOST - kept);
    this.#end = added === 0 && kept > 0 ? Math.min(this.#end, stepOf(endMs)) : stepOf(endMs);
    this.#tokens = kept + added;
    this.#isHeld = as === PAUSE;
    this.#isTold = as !== 0;
    if (added > 0) this.#size = Math.min(15, Math.floor(Math.log2(added)));
    return { added, kept };
  }

  takeBack(nowMs: number): number {
    const left = this.left(nowMs);
    this.#end = this.#tokens = this.#size = 0;
    this.#isHeld = this.#isTold = false;
    return left;
  }
}

type Step =
  | { do: "take"; on: number; cost: number }
  | { do: "deposit"; on: number; tokens: number; agoMs: number; as: number; pauseMs: number }
  | { do: "takeBack"; on: number }
  | { do: "pass"; ms: number };

const KEYS: readonly (Key | undefined)[] = ["alice", 7, undefined];
const on = fc.nat(KEYS.length - 1);
const costs = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(0, 1, 1, 1, 2, 3) },
  fc.nat(200),
  fc.constantFrom(MOST, MOST + 1, 2 ** 31 - 1),
);
const amounts = fc.oneof(
  fc.constantFrom(0, 1, 2, 15, 16, 17, 32),
  fc.nat(300),
  fc.constantFrom(32_768, MOST, MOST + 1, 2 ** 31 - 1),
);
const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant("take"), on, cost: costs }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("deposit"),
      on,
      tokens: amounts,
      agoMs: fc.nat(HOLD_MS),
      as: fc.constantFrom(0, 0, SHORT, PAUSE),
      pauseMs: fc.nat(150),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("takeBack"), on }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("pass"),
      ms: fc.oneof(fc.nat(30), fc.nat(1200), fc.double({ min: 0, max: 5, noNaN: true })),
    }),
  },
) as fc.Arbitrary<Step>;

describe("a word of leased tokens", () => {
  it("does what its model does, and spends no token later than two lives after it was requested", () => {
    const seed = announceSeed("leased words");
    let spentOld = 0;
    fc.assert(
      fc.property(
        fc.array(steps, { maxLength: 120, size: "max" }),
        fc.constantFrom(0, 5, 1e9, 9e11),
        (all, startMs) => {
          const leases = new Leases({ startMs });
          const models = KEYS.map(() => new ModelWord());
          /** Tokens by the time at which they were requested, the oldest first: the order in which they are spent. */
          const lots: { tokens: number; sentMs: number }[][] = KEYS.map(() => []);
          /** When the last deposit was requested: one thread asks at a time, so they come in order. */
          const sent = KEYS.map(() => 0);
          try {
            for (const step of all) {
              const nowMs = leases.clock.nowMs;
              if (step.do === "pass") {
                leases.clock.advance(step.ms);
                continue;
              }
              const key = KEYS[step.on];
              const model = models[step.on];
              if (step.do === "take") {
                const answer = leases.take(key, step.cost);
                expect(answer).toBe(model.take(step.cost, nowMs));
                for (let cost = answer & 1 ? step.cost : 0; cost > 0;) {
                  const lot = lots[step.on][0];
                  expect(lot, "a token from nowhere").toBeDefined();
                  expect(nowMs - lot.sentMs).toBeLessThan(2 * LIFE_MS);
                  if (nowMs - lot.sentMs > LIFE_MS) spentOld++;
                  const some = Math.min(cost, lot.tokens);
                  cost -= some;
                  lot.tokens -= some;
                  if (lot.tokens === 0) lots[step.on].shift();
                }
              } else if (step.do === "deposit") {
                const sentMs = Math.max(sent[step.on], nowMs - step.agoMs);
                sent[step.on] = sentMs;
                const lifeEndMs = sentMs + LIFE_MS;
                const endMs = step.as === PAUSE ? Math.min(lifeEndMs, nowMs + step.pauseMs) : lifeEndMs;
                const { added, kept } = model.deposit(step.tokens, endMs, step.as, nowMs);
                expect(leases.deposit(key, step.tokens, endMs, step.as)).toBe(added);
                let surplus = sum(lots[step.on].map(({ tokens }) => tokens)) - kept;
                while (surplus > 0) {
                  const lot = lots[step.on][0];
                  const some = Math.min(surplus, lot.tokens);
                  surplus -= some;
                  lot.tokens -= some;
                  if (lot.tokens === 0) lots[step.on].shift();
                }
                if (added > 0) lots[step.on].push({ tokens: added, sentMs });
              } else {
                expect(leases.takeBack(key)).toBe(model.takeBack(nowMs));
                lots[step.on] = [];
              }
              const { state, left, untilEndMs } = leases.look(key);
              expect({ state, left }).toEqual({ state: model.state(nowMs), left: model.left(nowMs) });
              const endMs = model.endMs(nowMs);
              // A word without tokens lapses unseen.
              if (left > 0 || state > 0) expect(untilEndMs).toBeCloseTo(endMs - nowMs, 3);
            }
            expect(leases.sluice.audit().clean).toBe(true);
          } finally {
            leases.sluice.close();
          }
        },
      ),
      // Fewer runs may not spend an old token.
      { seed, numRuns: 500 },
    );
    expect(spentOld).toBeGreaterThan(0);
  });

  it("makes the first caller that finds nothing ask, and no other until the flag lapses", () => {
    const leases = new Leases();
    expect(leases.take("key")).toBe(ASK);
    for (let i = 0; i < 10; i++) expect(leases.take("key")).toBe(0);
    leases.clock.advance(HOLD_MS - 2 * STEP_MS);
    expect(leases.take("key")).toBe(0);
    leases.clock.advance(2 * STEP_MS);
    expect(leases.take("key")).toBe(ASK);
  });

  it("has no tokens for an unknown key, after its slot was given away, and once it has lapsed", () => {
    const leases = new Leases({ capacity: 1 });
    leases.deposit("key", 100, LIFE_MS);
    expect(leases.take("key")).toBe(1);
    for (let i = 0; i < 1000; i++) leases.deposit(i, 1000, LIFE_MS);
    expect(leases.sluice.stats().evicted).toBeGreaterThan(0);
    expect(leases.take("key")).toBe(ASK);

    leases.deposit("key", 100, LIFE_MS);
    leases.clock.advance(LIFE_MS);
    expect(leases.take("key")).toBe(ASK);
  });

  it("writes only the flag for a refusal", () => {
    const leases = new Leases();
    leases.deposit("key", 5, LIFE_MS);
    expect(leases.take("key", 6)).toBe(ASK);
    const bytes = Buffer.from(leases.sluice.handle.memory.buffer);
    const { at, thread } = leases.policy.table;
    // This thread writes its counts and notes to its own record.
    const own = at.THREADS + thread * at.THREAD_BYTES;
    const untouched = (): Buffer => Buffer.concat([bytes.subarray(0, own), bytes.subarray(own + at.THREAD_BYTES)]);
    const before = untouched();
    for (let i = 0; i < 100; i++) expect(leases.take("key", 6)).toBe(0);
    expect(untouched().equals(before)).toBe(true);
  });

  it("gives its slot away once it has lapsed, and before any bucket does while it has not", () => {
    const leases = new Leases({ capacity: 1, whenFull: "deny" });
    let taken = 0;
    while (leases.take(taken) === ASK) taken++;
    const refused = taken;
    expect(leases.take(refused)).toBe(0);
    expect(leases.sluice.audit()).toMatchObject({ clean: true, fresh: 0 });
    leases.clock.advance(HOLD_MS);
    expect(leases.take(refused)).toBe(ASK);

    const evicting = new Leases({ capacity: 1 });
    const bucket = evicting.sluice.tokenBucket("bucket", { rate: 1e-9, burst: 1 });
    for (let i = 0; i < 20; i++) bucket.allow(i);
    for (let i = 0; i < 2000; i++) evicting.take(`lease ${i}`);
    const { limiters } = evicting.sluice.stats();
    expect(limiters.leases.evicted).toBeGreaterThan(0);
    for (let i = 0; i < 20; i++) expect(bucket.peek(i).allowed).toBe(false);
  });

  it("never repeats a word that an earlier owner of its slot may have seen", () => {
    const leases = new Leases({ capacity: 1 });
    const { table } = leases.policy;
    const { at, longs } = table;
    const sets = table.kernel.setsOffset(table.threads.count) / 8;
    const words = (): bigint[] =>
      Array.from(longs.subarray(sets, sets + table.words[at.HEADER_SET_COUNT / 4] * (at.SET_BYTES / 8)));
    let handed = 0;
    for (let i = 0; i < 1000; i++) {
      const before = words();
      // As many tokens as others have, less one, at the same end.
      leases.deposit(i, 7 - (i % 2), LIFE_MS);
      if (i % 2 === 0) leases.take(i);
      const after = words();
      for (let set = 0; set < before.length; set += at.SET_BYTES / 8) {
        for (let slot = set; slot < set + at.SLOT_COUNT; slot++) {
          if (before[slot] === after[slot] || before[slot] === 0n) continue;
          handed++;
          expect(after[slot + at.SLOT_STATE / 8]).not.toBe(before[slot + at.SLOT_STATE / 8]);
        }
      }
    }
    expect(handed).toBeGreaterThan(100);
  });
});
