// What the workers of test/threads.test.ts do. Each job gets ready first and
// returns the part that begins when the gate opens.

import { bucketOf, isStopped, publishCount, work } from "./crew.js";

/** By the limiter's own `allow` where there is a key. */
const allow = (limiter, key) => (key === undefined ? limiter.global.allow() : limiter.allow(key));

/** Ways to ask for one token of a key; they must all mean the same bucket. */
const ways = [
  allow,
  (limiter, key) => bucketOf(limiter, key).allow(),
  (limiter, key) => bucketOf(limiter, key).consume().allowed,
  (limiter, key) => (key === undefined ? limiter.global.allow() : limiter.allowMany([key])[0] === 1),
  (limiter, key) => bucketOf(limiter, key).reserve(1, { maxWaitMs: 0 }).granted,
];

await work({
  /** Calls allow() so many times. The times are within: after the first call, before the last. */
  calls: (sluice, { name, key, calls }) => () => {
    const limiter = sluice.limiter(name);
    let admitted = Number(allow(limiter, key));
    const startNs = process.hrtime.bigint();
    for (let i = 2; i < calls; i++) if (allow(limiter, key)) admitted++;
    const endNs = process.hrtime.bigint();
    if (allow(limiter, key)) admitted++;
    return { admitted, startNs, endNs };
  },

  /** Calls allow() in rounds over the keys until it is stopped and a whole round is refused. */
  untilRefused: (sluice, { name, keys }) => () => {
    const limiter = sluice.limiter(name);
    const admitted = keys.map(() => 0);
    let all = 0;
    for (;;) {
      const isLast = isStopped();
      const before = all;
      for (let round = 0; round < 20; round++) {
        keys.forEach((key, i) => {
          if (!allow(limiter, key)) return;
          admitted[i]++;
          all++;
        });
      }
      publishCount(all);
      if (isLast && all === before) return admitted;
    }
  },

  /** Asks for every key so many times, each time in another way than the other workers. */
  everyWay: (sluice, { name, keys, rounds, index }) => () => {
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

  /**
   * Takes tokens now, with costs, and gives some back by cancel or refund; and
   * single tokens from the future, where a cancel gives back one or nothing.
   */
  giveAndTake: (sluice, { rounds, index }) => () => {
    const nowPool = sluice.limiter("now").key("pool");
    const laterPool = sluice.limiter("later").key("pool");
    const now = { granted: 0, back: 0, refused: 0, cancels: 0, refunds: 0 };
    const later = { granted: 0, back: 0, cancels: 0, kept: 0 };
    const taking = [];
    const held = [];
    let state = index + 1;
    const below = (n) => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return (state >>> 0) % n;
    };
    for (let round = 0; round < rounds; round++) {
      const cost = 1 + below(5);
      const taken = nowPool.reserve(cost, { maxWaitMs: 0 });
      if (taken.granted) {
        now.granted += cost;
        taking.push({ taken, cost });
      } else {
        now.refused++;
      }
      if (taking.length > 4 || (taking.length > 0 && !taken.granted)) {
        const { taken: given, cost: back } = taking.splice(below(taking.length), 1)[0];
        now.back += back;
        if (below(2)) {
          if (!given.cancel() || given.cancel()) throw new Error("a cancel of tokens taken now gives them back, once");
          now.cancels++;
        } else {
          // In two parts.
          nowPool.refund(back - 1);
          nowPool.refund();
          now.refunds++;
        }
      }
      const reserved = laterPool.reserve();
      if (reserved.granted) {
        later.granted++;
        held.push(reserved);
      }
      if (held.length > 3) {
        const given = held.splice(below(held.length), 1)[0];
        if (given.cancel()) {
          later.back++;
          later.cancels++;
        } else {
          later.kept++;
        }
        if (given.cancel()) throw new Error("a second cancel gave tokens back");
      }
    }
    return { now, later };
  },

  /** Defines policies that the others define at the same time, and takes from each. */
  define: (sluice, { count }) => () => {
    const admitted = [];
    for (let i = 0; i < count; i++) {
      const limiter = sluice.tokenBucket(`p${i}`, { rate: 0, burst: 3 });
      let own = 0;
      for (let call = 0; call < 3; call++) own += Number(limiter.allow("key")) + Number(limiter.global.allow());
      admitted.push(own);
    }
    return admitted;
  },

  /** Calls allow() once for each of many keys that nobody has used. */
  firstTouch: (sluice, { name, count }) => {
    const limiter = sluice.limiter(name);
    const keys = Array.from({ length: count }, (_, i) => `fresh ${i}`);
    const admitted = new Uint8Array(count);
    return () => {
      for (let i = 0; i < count; i++) if (limiter.allow(keys[i])) admitted[i] = 1;
      return admitted;
    };
  },

  /** Touches keys of its own, each once, while looking whether the blocked ones still are. */
  flood: (sluice, { name, blockedName, blocked, count, index }) => () => {
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
});
