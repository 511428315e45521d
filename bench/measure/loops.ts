// Loops over decisions, one compiled for each entrant from the same source. In
// one loop shared by all entrants, the call would have as many targets as there
// are entrants. No engine inlines such a call, so each entrant would pay some
// nanoseconds that its callers in a server do not pay.

import type { Ask } from "../rivals/rival.js";

const OVER_AND_OVER = "let admitted = 0; for (let i = 0; i < count; i++) if (ask(key)) admitted++; return admitted";
const IN_ORDER =
  "let admitted = 0; for (let i = from; i < from + count; i++) if (ask(keys[i])) admitted++; return admitted";

/** How many calls were admitted: a promise if the loop awaits its answers. */
export type Admitted = number | Promise<number>;

/** A function whose code no other function shares. */
function own(names: string[], body: string, isAsync: boolean): (...values: unknown[]) => Admitted {
  const code = isAsync ? `return (async () => { ${body.replace("ask(", "await ask(")} })()` : body;
  return new Function(...names, code) as (...values: unknown[]) => Admitted;
}

/** Asks `count` times for one key. */
export function askOneKey<K>(ask: Ask<K>, key: K, count: number, isAsync = false): () => Admitted {
  const loop = own(["ask", "key", "count"], OVER_AND_OVER, isAsync);
  return () => loop(ask, key, count);
}

/** Asks for keys[from] to keys[from + count - 1]. */
export function askKeys<K>(
  ask: Ask<K>,
  keys: readonly K[],
  count: number,
  isAsync = false,
): (from: number) => Admitted {
  const loop = own(["ask", "keys", "from", "count"], IN_ORDER, isAsync);
  return (from) => loop(ask, keys, from, count);
}
