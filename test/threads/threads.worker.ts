// What the workers of threads.test.ts do. Each job gets ready first and
// returns the part that begins when the gate opens.

import type { Key, KeyedLimiter, Limiter, Reservation, Sluice } from "sluice";
import { seeded } from "../seed.js";
import { bucketOf, isStopped, type Member, publishCount, work } from "./crew-member.js";

type Keys = readonly (Key | undefined)[];

/** Ways to ask for one token of a key; they must all mean the same bucket. */
const ways: ((limiter: Limiter, key: Key | undefined) => boolean)[] = [
  (limiter, key) => (key === undefined ? limiter.global.allow() : limiter.allow(key)),
  (limiter, key) => bucketOf(limiter, key).allow(),
  (limiter, key) => (key === undefined ? limiter.global.consume() : limiter.consume(key)).allowed,
  (limiter, key) => (key === undefined ? limiter.global.allow() : limiter.allowMany([key])[0] === 1),
  (limiter, key) =>
    (key === undefined
      ? limiter.global.reserve(1, { maxWaitMs: 0 })
      : limiter.reserve(key, 1, { maxWaitMs: 0 })).granted,
];

/** Takes tokens now, with costs, and gives some back by cancel or refund. */
class TakesNow {
  readonly counts = { granted: 0, back: 0, refused: 0, cancels: 0, refunds: 0 };
  readonly #taking: { taken: Reservation; cost: number }[] = [];

  constructor(readonly pool: KeyedLimiter, readonly below: (n: number) => number) {}

  round(): void {
    const cost = 1 + this.below(5);
    const taken = this.pool.reserve(cost, { maxWaitMs: 0 });
    if (taken.granted) {
      this.counts.granted += cost;
      this.#taking.push({ taken, cost });
    } else {
      this.counts.refused++;
    }
    if (this.#taking.length > 4 || (this.#taking.length > 0 && !taken.granted)) this.#giveBack();
  }

  #giveBack(): void {
    const [{ taken, cost }] = this.#taking.splice(this.below(this.#taking.length), 1);
    this.counts.back += cost;
    if (this.below(2)) {
      if (!taken.cancel() || taken.cancel()) throw new Error("a cancel of tokens taken now gives them back, once");
      this.counts.cancels++;
    } else {
      // In two steps.
      this.pool.refund(cost - 1);
      this.pool.refund();
      this.counts.refunds++;
    }
  }
}

/** Takes single tokens from the future, where a cancel gives back one or nothing. */
class TakesLater {
  readonly counts = { granted: 0, back: 0, cancels: 0, kept: 0 };
  readonly #held: Reservation[] = [];

  constructor(readonly pool: KeyedLimiter, readonly below: (n: number) => number) {}

  round(): void {
    const reserved = this.pool.reserve();
    if (reserved.granted) {
      this.counts.granted++;
      this.#held.push(reserved);
    }
    if (this.#held.length <= 3) return;
    const [given] = this.#held.splice(this.below(this.#held.length), 1);
    if (given.cancel()) {
      this.counts.back++;
      this.counts.cancels++;
    } else {
      this.counts.kept++;
    }
    if (given.cancel()) throw new Error("a second cancel gave tokens back");
  }
}

const jobs = {
  /** Calls allow() `calls` times. The times are within: after the first call, before the last. */
  calls: (sluice: Sluice, { name, key, calls }: { name: string; key?: Key; calls: number }) => () => {
    const limiter = sluice.limiter(name);
    // The key is looked up at every call, as in most programs.
    const allow = key === undefined ? () => limiter.global.allow() : () => limiter.allow(key);
    let admitted = Number(allow());
    const startNs = process.hrtime.bigint();
    for (let i = 2; i < calls; i++) if (allow()) admitted++;
    const endNs = process.hrtime.bigint();
    if (allow()) admitted++;
    return { admitted, startNs, endNs };
  },

  /** Calls allow() in rounds over the keys until it is stopped and a whole round is refused. */
  untilRefused: (sluice: Sluice, { name, keys }: { name: string; keys: Keys }) => (): number[] => {
    const limiter = sluice.limiter(name);
    const admitted = keys.map(() => 0);
    let all = 0;
    for (;;) {
      const isLast = isStopped();
      const before = all;
      for (let round = 0; round < 20; round++) {
        keys.forEach((key, i) => {
          if (!ways[0](limiter, key)) return;
          admitted[i]++;
          all++;
        });
      }
      publishCount(all);
      if (isLast && all === before) return admitted;
    }
  },

  /** Asks for every key `rounds` times, each time in another way than the other workers. */
  everyWay:
    (sluice: Sluice, { name, keys, rounds, index }: Member & { name: string; keys: Keys; rounds: number }) =>
    (): number[] => {
      const limiter = sluice.limiter(name);
      const admitted = keys.map(() => 0);
      for (let round = 0; round < rounds; round++) {
        const way = ways[(round + index) % ways.length];
        keys.forEach((key, i) => {
          if (way(limiter, key)) admitted[i]++;
        });
      }
      return admitted;
    },

  giveAndTake: (sluice: Sluice, { rounds, index }: Member & { rounds: number }) => () => {
    const below = seeded(index + 1);
    const now = new TakesNow(sluice.limiter("now").key("pool"), below);
    const later = new TakesLater(sluice.limiter("later").key("pool"), below);
    for (let round = 0; round < rounds; round++) {
      now.round();
      later.round();
    }
    return { now: now.counts, later: later.counts };
  },

  /** Defines policies that the others define at the same time, and takes from each. */
  define: (sluice: Sluice, { count }: { count: number }) => (): number[] => {
    const admitted: number[] = [];
    for (let i = 0; i < count; i++) {
      const limiter = sluice.tokenBucket(`p${i}`, { rate: 0, burst: 3 });
      let own = 0;
      for (let call = 0; call < 3; call++) own += Number(limiter.allow("key")) + Number(limiter.global.allow());
      admitted.push(own);
    }
    return admitted;
  },

  /** Calls allow() once for each of many new keys. */
  firstTouch: (sluice: Sluice, { name, count }: { name: string; count: number }) => {
    const limiter = sluice.limiter(name);
    const keys = Array.from({ length: count }, (_, i) => `fresh ${i}`);
    const admitted = new Uint8Array(count);
    return (): Uint8Array => {
      for (let i = 0; i < count; i++) if (limiter.allow(keys[i])) admitted[i] = 1;
      return admitted;
    };
  },

  /** Touches keys of its own, each once, while looking whether the blocked ones still are. */
  flood: (
    sluice: Sluice,
    { name, blockedName, blocked, count, index }: Member & {
      name: string;
      blockedName: string;
      blocked: number;
      count: number;
    },
  ) =>
  () => {
    const limiter = sluice.limiter(name);
    const guard = sluice.limiter(blockedName);
    let admitted = 0;
    let refused = 0;
    let unblocked = 0;
    for (let i = 0; i < count; i++) {
      if (limiter.allow(`flood ${index} ${i}`)) admitted++;
      else refused++;
      if (i % 100 === 0) publishCount(i);
      if (i % 4 === 0 && guard.allow(`blocked ${i / 4 % blocked}`)) unblocked++;
    }
    publishCount(count);
    return { admitted, refused, unblocked };
  },
};

export type ThreadsJobs = typeof jobs;
await work(jobs);
