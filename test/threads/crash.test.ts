/**
 * Threads that end in the middle of their work: the others go on, and only
 * what the dead threads had taken is lost.
 */
import { once } from "node:events";
import type { Worker } from "node:worker_threads";
import { ManualClock, Sluice } from "sluice";
import { afterEach, describe, expect, it } from "vitest";
import { Bucket } from "../../src/engine/bucket/bucket.js";
import { Policy } from "../../src/engine/policy/policy.js";
import { Table } from "../../src/engine/table/table.js";
import { announceSeed, seeded } from "../seed.js";
import { startWorker, until } from "./crew.js";

const started: Worker[] = [];

afterEach(async () => {
  await Promise.all(started.splice(0).map((worker) => worker.terminate()));
});

/** A worker that is terminated at the end of the test; `name` is that of its `.worker.ts`. */
function start(name: string, workerData: object): Worker {
  const worker = startWorker(new URL(`./${name}.worker.ts`, import.meta.url), workerData);
  started.push(worker);
  return worker;
}

describe("1000 workers terminated at work", () => {
  it("leave a table that is clean, exact and decides throughout", { timeout: 120_000 }, async () => {
    const KILLS = 1000;
    const AT_ONCE = 4;
    const KINDS = ["hammer", "setter", "definer", "reserver"];
    const below = seeded(announceSeed("terminations"));
    const rate = 50_000;
    const burst = 1000;
    const sluice = Sluice.create({ capacity: 500, lineCapacity: 200, maxThreads: AT_ONCE + 4 });
    const hot = sluice.tokenBucket("hot", { rate, burst });
    const slow = { rate: 100, burst: 50 };
    sluice.tokenBucket("slow", slow);
    const crowd = sluice.tokenBucket("crowd", { rate: 100, burst: 10 });
    sluice.tokenBucket("shaken", { rate: 5, burst: 5 });
    const lined = { limit: 500, windowMs: 50, slots: 5 };
    sluice.slidingWindow("lined", lined);

    // Word 0 counts the admissions of the hot global bucket, word 1 the survivor's rounds.
    const words = new Int32Array(new SharedArrayBuffer(8));
    const startNs = process.hrtime.bigint();
    const survivor = start("survivor", { handle: sluice.handle, words });
    const survivorEnd = once(survivor, "exit");
    survivor.on("error", (error) => expect(error).toBeUndefined());
    await until(() => Atomics.load(words, 1) > 0);

    /** Both survivors decide, and the hot key has not been admitted too often. */
    let decisions = 0;
    const goOn = async (): Promise<void> => {
      const rounds = Atomics.load(words, 1);
      for (let i = 0; i < 100; i++) {
        if (hot.global.allow()) Atomics.add(words, 0, 1);
        crowd.allow(`hot ${i % 8}`);
        crowd.allow(`main ${decisions++}`);
      }
      await until(() => Atomics.load(words, 1) > rounds);
      const admitted = Atomics.load(words, 0);
      expect(admitted).toBeLessThanOrEqual(burst + rate * Number(process.hrtime.bigint() - startNs) / 1e9);
    };

    let kills = 0;
    let hired = 0;
    const ended = new Map<string, number>(KINDS.map((kind) => [kind, 0]));
    const lane = async (): Promise<void> => {
      while (hired < KILLS) {
        const number = hired++;
        const kind = KINDS[number % KINDS.length];
        const worker = startWorker(new URL("./crash.worker.ts", import.meta.url), {
          handle: sluice.handle,
          words,
          kind,
          stream: number * 1e7,
          rates: [1e-5, 5, 1e9, 0, Infinity],
        });
        const failed: unknown[] = [];
        worker.on("error", (error) => failed.push(error));
        const isAtWork = await Promise.race([
          once(worker, "message").then(() => true),
          once(worker, "exit").then(() => false),
        ]);
        if (!isAtWork) throw failed[0] ?? new Error("a worker ended before its time");
        await new Promise((resolve) => setTimeout(resolve, below(2)));
        for (const endNs = process.hrtime.bigint() + BigInt(below(500_000)); process.hrtime.bigint() < endNs;);
        expect(await worker.terminate()).toBe(1);
        expect(failed).toEqual([]);
        ended.set(kind, ended.get(kind)! + 1);
        if (++kills % 50 === 0) await goOn();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, lane));

    await goOn();
    survivor.postMessage("end");
    expect(await survivorEnd).toEqual([0]);
    expect([...ended.values()]).toEqual(KINDS.map(() => KILLS / KINDS.length));
    expect(sluice.audit()).toMatchObject({ clean: true, busy: 0, torn: 0, doubles: 0, strangers: 0, locksHeld: 0 });

    const stats = sluice.stats();
    expect(stats.threads).toBe(1);
    expect(stats.limiters.crowd.evicted).toBeGreaterThan(100_000);
    expect(stats.limiters.crowd.contended).toBeGreaterThan(0);
    expect(stats.limiters.hot.contended).toBeGreaterThan(0);
    expect(Object.keys(stats.limiters).length).toBeGreaterThan(20);
    const seconds = Number(process.hrtime.bigint() - startNs) / 1e9;
    expect(stats.limiters.hot.allowed).toBeLessThanOrEqual(burst + rate * seconds);
    // A worker may end between an admission and its count.
    expect(Math.abs(stats.limiters.hot.allowed - Atomics.load(words, 0))).toBeLessThanOrEqual(KILLS);
    expect(stats.limiters.lined.allowed).toBeLessThanOrEqual(
      lined.limit * (Math.floor(seconds / (lined.windowMs / 1000)) + 1) + stats.limiters.lined.claimed,
    );
    expect(stats.limiters.lined.claimed).toBeGreaterThan(10_000);
    // The slow policy's key is never fresher than the crowd's keys, so it keeps its slot.
    expect(stats.limiters.slow).toMatchObject({ claimed: 1, evicted: 0 });
    expect(stats.limiters.slow.allowed).toBeLessThanOrEqual(slow.burst + slow.rate * seconds);
    expect(stats.limiters.slow.allowed).toBeGreaterThan(slow.burst);
    expect(sluice.audit().used).toBeGreaterThan(0);
    sluice.close();
  });
});

describe("a thread number", { timeout: 60_000 }, () => {
  /** Resolves to the next answer of a worker. */
  async function answerOf(worker: Worker): Promise<unknown> {
    const [{ answer, error }] = await once(worker, "message");
    if (error) throw Object.assign(new Error(error.message), { code: error.code });
    return answer;
  }

  const ends: Record<string, (worker: Worker) => void> = {
    "exits by itself": (worker) => worker.postMessage({ ask: "exit" }),
    "has nothing left to do": (worker) => worker.postMessage({ ask: "end" }),
    "dies of an exception": (worker) => worker.postMessage({ ask: "throw" }),
    "is terminated": (worker) => void worker.terminate(),
  };

  it("is free again after a worker ends, however it ends", async () => {
    const sluice = Sluice.create({ capacity: 10, maxThreads: 2, clock: new ManualClock() });
    sluice.tokenBucket("p", { rate: 0, burst: 100 });
    const errors: unknown[] = [];
    for (let i = 0; i < 20; i++) {
      const [end, act] = Object.entries(ends)[i % 4];
      const worker = start("attached", { handle: sluice.handle });
      worker.on("error", (error) => errors.push(error));
      expect(await answerOf(worker)).toBe("ready");
      expect(sluice.stats().threads, end).toBe(2);
      worker.postMessage({ ask: "allow", name: "p", key: "key" });
      expect(await answerOf(worker)).toBe(true);
      const exit = new Promise((resolve) => worker.once("exit", resolve));
      act(worker);
      await exit;
      expect(sluice.stats().threads, end).toBe(1);
    }
    expect(errors).toHaveLength(5);
    expect(sluice.stats().allowed).toBe(20);
    expect(sluice.audit().clean).toBe(true);
    sluice.close();
  });

  it("is free again after a worker of a worker ends with it", async () => {
    const sluice = Sluice.create({ capacity: 10, maxThreads: 3 });
    for (let i = 0; i < 5; i++) {
      const worker = start("parent", { handle: sluice.handle });
      expect(await answerOf(worker)).toBe("ready");
      expect(sluice.stats().threads).toBe(3);
      await worker.terminate();
      expect(sluice.stats().threads).toBe(1);
    }
    sluice.close();
  });
});

describe("a thread that died while it held a lock", { timeout: 60_000 }, () => {
  /** Its number in the table, and a thread id that is not in use. */
  const DEAD = 7;
  const DEAD_ID = 999_999;

  function scene() {
    const sluice = Sluice.create({ capacity: 1000, maxThreads: 16, clock: new ManualClock() });
    const limiter = sluice.tokenBucket("p", { rate: 0, burst: 5 });
    const table = Table.attach(sluice.handle);
    const { at, words, longs } = table;
    const bucketOf = (key: string): Bucket => new Bucket(new Policy(table, 1), key);
    const stripe = ({ low, high }: Bucket): number =>
      (at.LOCKS + ((((high << 22) | (low >>> 10)) >>> 0) % at.LOCK_COUNT) * at.LOCK_BYTES) / 4;
    const wordOf = ({ low, high }: Bucket): bigint => (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);

    // Another key in a slot of the set that the dead thread claims in.
    const alice = bucketOf("alice");
    let victim = 0;
    let old = "";
    for (let i = 0; victim === 0; i++) {
      old = `old ${i}`;
      if (stripe(bucketOf(old)) === stripe(alice)) continue;
      limiter.allow(old);
      for (let slot = alice.setA; slot < alice.setA + at.SLOTS_END; slot += at.SLOT_STEP) {
        if (longs[slot / 8] === wordOf(bucketOf(old))) victim = slot;
      }
    }

    Atomics.store(words, table.threads.ownerAt(DEAD), DEAD_ID + 1);
    return {
      sluice,
      limiter,
      table,
      at,
      words,
      longs,
      alice,
      old,
      victim,
      wordOf,
      stripeOf: (key: string) => stripe(bucketOf(key)),
      lock: stripe(alice),
      busy: (BigInt(DEAD + 1) << 2n) | 3n,
      close: () => (table.leave(), sluice.close()),
    };
  }

  /** A worker that asks for one key once. */
  function ask(sluice: Sluice, key: string) {
    const words = new Int32Array(new SharedArrayBuffer(12));
    start("claimer", { handle: sluice.handle, name: "p", key, words });
    return {
      hasBegun: () => Atomics.load(words, 0) === 1,
      isDone: () => Atomics.load(words, 1) === 1,
      isAllowed: () => Atomics.load(words, 2) === 1,
    };
  }

  /** The others decide on keys of other stripes, old and new. */
  function decideElsewhere({ limiter, stripeOf, lock, old }: ReturnType<typeof scene>): void {
    let others = 0;
    for (let i = 0; others < 500; i++) {
      const key = `other ${i}`;
      if (stripeOf(key) === lock || key === old) continue;
      expect(limiter.allow(key)).toBe(true);
      others++;
    }
  }

  const deaths: [string, { isBusy: boolean; isRenamed: boolean }][] = [
    ["before it took a slot,", { isBusy: false, isRenamed: false }],
    ["with a slot that it had not renamed yet,", { isBusy: true, isRenamed: false }],
    ["with a slot that it had renamed,", { isBusy: true, isRenamed: true }],
  ];
  it.each(deaths)(
    "%s blocks only calls that need it, until it is buried",
    async (_, { isBusy, isRenamed }) => {
      const all = scene();
      const { sluice, table, at, words, longs, alice, old, victim, wordOf, lock, busy } = all;
      const others = sluice.audit().used;

      Atomics.store(words, lock, DEAD + 1);
      words[lock + at.LOCK_SLOT / 4] = victim;
      if (isBusy) Atomics.store(longs, (victim + at.SLOT_STATE) / 8, busy);
      if (isRenamed) Atomics.store(longs, victim / 8, wordOf(alice));
      expect(sluice.audit()).toMatchObject({ clean: false, busy: Number(isBusy), locksHeld: 1, torn: 0, doubles: 0 });

      // Until the slot is renamed it is the old key's, whose callers wait too.
      const waiting = [ask(sluice, "alice"), ...(isBusy && !isRenamed ? [ask(sluice, old)] : [])];
      const before = sluice.stats().contended;
      await until(() =>
        waiting.every((each) => each.hasBegun()) && sluice.stats().contended > before + 200 * waiting.length
      );
      decideElsewhere(all);
      expect(waiting.map((each) => each.isDone())).toEqual(waiting.map(() => false));

      // Burying another thread frees nothing of this one, nor of a living one.
      table.bury(DEAD_ID + 1);
      expect(Atomics.load(words, lock)).toBe(DEAD + 1);
      const living = at.LOCKS / 4 + ((lock - at.LOCKS / 4 + at.LOCK_BYTES / 4) % ((at.LOCK_COUNT * at.LOCK_BYTES) / 4));
      Atomics.store(words, living, 3);

      table.bury(DEAD_ID);
      await until(() => waiting.every((each) => each.isDone()));
      expect(waiting.map((each) => each.isAllowed())).toEqual(waiting.map(() => true));
      expect(Atomics.load(words, table.threads.ownerAt(DEAD))).toBe(0);
      expect(Atomics.load(words, living)).toBe(3);
      Atomics.store(words, living, 0);
      expect(sluice.audit()).toMatchObject({ clean: true, used: others + 501 - Number(isRenamed) });

      // The old key loses its bucket only if its slot was taken.
      expect(sluice.limiter("p").peek(old).remaining).toBe(isRenamed ? 5 : 4);
      expect(sluice.limiter("p").peek("alice").remaining).toBe(4);
      all.close();
    },
  );

  it.each([["of a key", true], ["of a slot that was empty", false]])(
    "on the line %s frees it when it is buried",
    async (_, isUsed) => {
      const sluice = Sluice.create({ capacity: 100, lineCapacity: 100, maxThreads: 16, clock: new ManualClock(500) });
      const limiter = sluice.slidingWindow("p", { limit: 5, windowMs: 1000, slots: 4 });
      const table = Table.attach(sluice.handle);
      const { at, words, longs } = table;
      limiter.allow("alice");
      const first = table.kernel.lineSetsOffset(table.threads.count, words[at.HEADER_SET_COUNT / 4]);
      const sets = Array.from({ length: words[at.HEADER_LINE_SET_COUNT / 4] }, (_, i) => first + i * at.LINE_SET_BYTES);
      const slots = sets.flatMap((set) =>
        Array.from(
          { length: at.LINE_SLOT_COUNT },
          (_, i) => ({ keyAt: set + i * at.SLOT_STEP, line: (set + (i + 1) * at.LINE_BYTES) / 4 }),
        )
      );
      const held = slots.filter(({ keyAt }) => longs[keyAt / 8] !== 0n);
      expect(held).toHaveLength(1);
      const { line } = isUsed ? held[0] : slots.find((slot) => slot !== held[0])!;

      const free = Atomics.load(words, line);
      expect(free & at.LINE_OWNER_BITS).toBe(0);
      Atomics.store(words, table.threads.ownerAt(DEAD), DEAD_ID + 1);
      Atomics.store(words, line, free | (DEAD + 1));
      // A thread records which line it writes before it locks it.
      Atomics.store(words, (at.THREADS + DEAD * at.THREAD_BYTES + at.SCRATCH_LINE_LOCKED) / 4, line * 4);
      expect(sluice.audit()).toMatchObject({ clean: false, locksHeld: 1 });
      const waiting = ask(sluice, "alice");
      const before = sluice.stats().contended;
      await until(() => waiting.hasBegun() && (waiting.isDone() || sluice.stats().contended > before + 200));
      expect(waiting.isDone()).toBe(!isUsed);
      for (let i = 0; i < 20; i++) expect(limiter.allow(`other ${i}`)).toBe(true);

      table.bury(DEAD_ID);
      await until(() => waiting.isDone());
      expect(Atomics.load(words, line) & at.LINE_OWNER_BITS).toBe(0);
      expect(limiter.peek("alice").remaining).toBe(3);
      expect(sluice.audit()).toMatchObject({ clean: true, used: 21 });
      table.leave();
      sluice.close();
    },
  );

  it.each([["HEADER_POLICY_LOCK", "tokenBucket"], ["POLICY_LOCK", "setRate"]] as const)(
    "on its %s blocks %s() until it is buried",
    async (name, ask) => {
      const all = scene();
      const { sluice, limiter, table, at, words } = all;
      const lock =
        (name === "HEADER_POLICY_LOCK" ? at.HEADER_POLICY_LOCK : at.POLICIES + at.POLICY_BYTES + at.POLICY_LOCK) / 4;
      const worker = start("attached", { handle: sluice.handle });
      await once(worker, "message");
      Atomics.store(words, lock, DEAD + 1);
      expect(sluice.audit()).toMatchObject({ clean: false, locksHeld: 1 });

      let isDone = false;
      const done = once(worker, "message").then(([message]) => ((isDone = true), message));
      worker.postMessage({ ask, name: ask === "setRate" ? "p" : "q", rate: 7, limit: { rate: 7, burst: 1 } });
      for (let turn = 0; turn < 1000; turn++) {
        await new Promise((resolve) => setImmediate(resolve));
        limiter.allow(`key ${turn}`);
      }
      expect(isDone).toBe(false);
      expect(limiter.rate).toBe(0);

      table.bury(DEAD_ID);
      expect(await done).not.toHaveProperty("error");
      expect(sluice.limiter(ask === "setRate" ? "p" : "q").rate).toBe(7);
      expect(sluice.audit().clean).toBe(true);
      all.close();
    },
  );
});
