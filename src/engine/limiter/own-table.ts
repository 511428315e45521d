// Tables for limiters that were given none: one serves a thousand of them.

import { SluiceError } from "../errors.js";
import type { PolicyKind } from "../policy/kinds.js";
import type { Policy } from "../policy/policy.js";
import type { Limits } from "../policy/segment.js";
import { define, Sluice } from "./sluice.js";

/** Where a limiter lives: a table that other threads share, under a name. Left out, a table of this thread's own. */
export interface Home {
  sluice: Sluice;
  name: string;
}

let own: Sluice | undefined;
let made = 0;

/** Defines a policy at `home`, or in a table of this thread's own. */
export function settle(home: Home | undefined, kind: PolicyKind, limits: Limits): Policy {
  if (home !== undefined) {
    if (!(home?.sluice instanceof Sluice)) {
      throw new TypeError("\"home\" expected { sluice, name }, with a Sluice and a name");
    }
    return define(home.sluice, home.name, kind, limits);
  }
  const name = `${kind} ${made++}`;
  own ??= Sluice.create({ capacity: 1, lineCapacity: 1, maxThreads: 1 });
  try {
    return define(own, name, kind, limits);
  } catch (error) {
    if (!(error instanceof SluiceError && error.code === "ERR_SLUICE_TOO_MANY_POLICIES")) throw error;
    own = Sluice.create({ capacity: 1, lineCapacity: 1, maxThreads: 1 });
    return define(own, name, kind, limits);
  }
}
