// The calls other than allow, each on a hot key that has all its tokens.

import { perDay, Sluice } from "sluice";
import { askOneKey } from "../loops.js";
import { costRatio, interleave, ratioFigure, sample, WARM } from "../rounds.js";

const DECISIONS = 2000;
const KEY = "10.0.0.1";
const REFERENCE = "allow(key)";
/** Never used up here. */
const policy = { rate: perDay(1), burst: 2 ** 31 - 1 };
const roundsOf = (small) => (small ? 10 : 100);

async function calls(small) {
  const sluice = Sluice.create({ capacity: 1000, clock: "coarse" });
  const limiter = sluice.tokenBucket("calls", policy);
  const tenant = sluice.tokenBucket("tenant", policy);
  const handle = limiter.key(KEY);
  const parts = [[limiter, KEY], [tenant, "acme"]];
  /** Each makes its call and says whether it was granted. */
  const each = {
    [REFERENCE]: (key) => limiter.allow(key),
    "consume(key)": (key) => limiter.consume(key).allowed,
    "peek(key)": (key) => limiter.peek(key).allowed,
    "key().allow()": () => handle.allow(),
    "key().consume()": () => handle.consume().allowed,
    "reserve(key), cancel()": (key) => {
      const reservation = limiter.reserve(key);
      reservation.cancel();
      return reservation.granted;
    },
    "charge(key), refund(key)": (key) => {
      limiter.charge(key);
      limiter.refund(key);
      return true;
    },
    "all of two limiters": () => sluice.all(parts).allowed,
    "setRate()": () => {
      limiter.setRate(policy.rate);
      return true;
    },
  };
  const entrants = Object.entries(each).map(([name, call]) => ({ name, call, isAsync: false }));
  entrants.push({ name: "await wait(key), at once", call: (key) => limiter.wait(key).then(() => true), isAsync: true });
  const times = await interleave(
    entrants.map(({ name, call, isAsync }) => ({
      name,
      isAsync,
      run: askOneKey(call, KEY, DECISIONS, isAsync),
      isRight: (granted) => granted === DECISIONS,
    })),
    { rounds: roundsOf(small), decisions: DECISIONS, slots: WARM },
  );
  sluice.close();
  return {
    samples: [...times].map(([name, ns]) => sample("calls", name, null, "ns", ns)),
    figures: [...times.keys()].filter((name) => name !== REFERENCE).map((name) =>
      ratioFigure(`${name}: cost of ${REFERENCE}`, costRatio(times, name, REFERENCE))
    ),
  };
}

export const question = {
  question: "What do the calls other than allow cost?",
  size: (small) => `${roundsOf(small)} rounds of ${DECISIONS} calls each, coarse clock`,
  charts: [{
    id: "calls",
    title: "A call on a hot key",
    kind: "bars",
    x: null,
    y: { label: "ns a call", scale: "log" },
    better: "lower",
  }],
  cases: { calls },
  notMeasured: ["waits that have to wait (waiters)", "calls of several threads", "refusals"],
};
