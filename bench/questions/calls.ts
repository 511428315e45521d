// The calls other than allow, each on a hot key that has all its tokens.

import { perDay, Sluice } from "sluice";
import { askOneKey } from "../measure/loops.js";
import { interleave } from "../measure/rounds.js";
import { costRatio, ratioFigure, timeSamples } from "../measure/statistics.js";
import { barChart, type Case, type Question } from "../question.js";
import type { Ask } from "../rivals/rival.js";

const DECISIONS = 2000;
const KEY = "10.0.0.1";
const REFERENCE = "allow(key)";
/** Never used up here. */
const policy = { rate: perDay(1), burst: 2 ** 31 - 1 };
const roundsOf = (small: boolean): number => (small ? 10 : 100);

const calls: Case = async (small) => {
  const sluice = Sluice.create({ capacity: 1000, clock: "coarse" });
  const limiter = sluice.tokenBucket("calls", policy);
  const tenant = sluice.tokenBucket("tenant", policy);
  const handle = limiter.key(KEY);
  const two: Parameters<typeof sluice.all>[0] = [[limiter, KEY], [tenant, "acme"]];
  /** Each makes its call and says whether it was granted. */
  const each: Record<string, Ask<string>> = {
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
    "all of two limiters": () => sluice.all(two).allowed,
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
    { rounds: roundsOf(small), decisions: DECISIONS },
  );
  sluice.close();
  return {
    samples: timeSamples("calls", times),
    figures: [...times.keys()].filter((name) => name !== REFERENCE).map((name) =>
      ratioFigure(`${name}: cost of ${REFERENCE}`, costRatio(times, name, REFERENCE))
    ),
  };
};

export const question: Question = {
  question: "What do the calls other than allow cost?",
  size: (small) => `${roundsOf(small)} rounds of ${DECISIONS} calls each, coarse clock`,
  charts: [barChart("calls", "A call on a hot key", "ns a call", "log")],
  cases: { calls },
  notMeasured: ["waits that have to wait (waiters)", "calls of several threads", "refusals"],
};
