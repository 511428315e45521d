// Limiters with a fault each, for tests that see whether a judge notices.

import type { Limiter } from "sluice";

/** A limiter with one method changed. */
export function changed<Name extends keyof Limiter>(limiter: Limiter, name: Name, to: Limiter[Name]): Limiter {
  return new Proxy(limiter, {
    get(target, property) {
      if (property === name) return to;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
