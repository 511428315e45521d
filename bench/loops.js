// Loops over decisions, one compiled for each entrant from the same source. In
// one loop shared by all, the call would have as many targets as there are
// entrants, and no engine looks into such a call: each would pay some
// nanoseconds that its own caller in a server does not.

/** A function (...of `names`) whose code is nobody else's. */
const own = (names, body) => new Function(...names, body);

const OVER_AND_OVER = "let admitted = 0; for (let i = 0; i < count; i++) if (ask(key)) admitted++; return admitted";
const IN_ORDER =
  "let admitted = 0; for (let i = from; i < from + count; i++) if (ask(keys[i])) admitted++; return admitted";

const awaited = (body) => `return (async () => { ${body.replace("ask(", "await ask(")} })()`;
const pick = (body, isAsync) => (isAsync ? awaited(body) : body);

/** Asks `count` times for one key: a function that returns how many were admitted. */
export function askOneKey(ask, key, count, isAsync = false) {
  const loop = own(["ask", "key", "count"], pick(OVER_AND_OVER, isAsync));
  return () => loop(ask, key, count);
}

/** Asks for keys[from] to keys[from + count - 1]: a function of `from`. */
export function askKeys(ask, keys, count, isAsync = false) {
  const loop = own(["ask", "keys", "from", "count"], pick(IN_ORDER, isAsync));
  return (from) => loop(ask, keys, from, count);
}
