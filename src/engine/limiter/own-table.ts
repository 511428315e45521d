// Where the limiters of the compat faces live: in a table of the user's, under a
// name, or in one of this thread's own, which serves a thousand of them.

import { shown, SluiceError } from "../errors.js";
import { checkOptions } from "../options.js";
import type { PolicyKind } from "../policy/kinds.js";
import type { Policy } from "../policy/policy.js";
import type { Limits } from "../policy/segment.js";
import { define, Sluice } from "./sluice.js";

/** A table that threads share, and the name under which they share a limiter there. */
export interface Home {
  sluice: Sluice;
  /** 1 to 96 bytes of UTF-8. */
  name: string;
}

let own: Sluice | undefined;
let made = 0;

/** @internal Defines a policy at `home`; without one, in a table of this thread's own. */
export function policyAt(home: Home | undefined, kind: PolicyKind, numbers: Limits): Policy {
  if (home !== undefined) {
    checkOptions(home, ["sluice", "name"], "home");
    if (!(home.sluice instanceof Sluice)) throw new TypeError(`"sluice" expected a Sluice, got ${shown(home.sluice)}`);
    return define(home.sluice, home.name, kind, numbers);
  }
  const name = `${kind} ${made++}`;
  own ??= Sluice.create({ capacity: 1, lineCapacity: 1, maxThreads: 1 });
  try {
    return define(own, name, kind, numbers);
  } catch (error) {
    if (!(error instanceof SluiceError && error.code === "ERR_SLUICE_TOO_MANY_POLICIES")) throw error;
    own = Sluice.create({ capacity: 1, lineCapacity: 1, maxThreads: 1 });
    return define(own, name, kind, numbers);
  }
}
