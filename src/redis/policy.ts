// What is behind a limiter of Redis.

import type { Limiter } from "../engine/limiter/limiter.js";
import type { Guard } from "./connection/caller.js";
import type { RedisKind } from "./kinds.js";

/** What a decision without Redis is. */
export interface Failure {
  readonly policy: "open" | "closed" | "local";
  /** How soon Redis may be asked again, ms. */
  readonly probeMs: number;
}

export interface RedisPolicy {
  readonly name: string;
  readonly prefix: string;
  readonly kind: RedisKind;
  readonly guard: Guard;
  readonly failure: Failure;
  /** Decides while Redis cannot be asked, under 'local'. */
  readonly standIn: Limiter | undefined;
}
