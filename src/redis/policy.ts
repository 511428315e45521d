// What is behind a limiter in Redis.

import type { Limiter } from "../engine/limiter/limiter.js";
import type { Caller } from "./connection/caller.js";
import type { RedisKind } from "./kinds.js";

/** How to decide without Redis. */
export interface Failure {
  readonly policy: "open" | "closed" | "local";
  /** How soon Redis may be asked again, ms. */
  readonly probeMs: number;
}

export interface RedisPolicy {
  readonly name: string;
  /** What all keys in Redis begin with. */
  readonly prefix: string;
  readonly kind: RedisKind;
  readonly caller: Caller;
  readonly failure: Failure;
  /** Decides while Redis cannot be asked, under 'local'. */
  readonly standIn: Limiter | undefined;
}
