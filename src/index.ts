export type {
  FixedWindowOptions,
  LeakyBucketOptions,
  SlidingWindowOptions,
  TokenBucketOptions,
  WarmUpOptions,
} from "./algorithms.js";
export type { GroupDecision, Part } from "./all.js";
export { ManualClock } from "./clock.js";
export type { Decision } from "./decision.js";
export { SluiceError, type SluiceErrorCode } from "./errors.js";
export { Hierarchy, type Keys } from "./hierarchy.js";
export type { Key } from "./key.js";
export { KeyedLimiter } from "./keyed.js";
export { Limiter, type LimiterStats, type ReserveOptions, type WaitOptions } from "./limiter.js";
export { every, perDay, perHour, perMinute, perSecond } from "./rate.js";
export type { Reservation } from "./reservation.js";
export { type AuditReport, Sluice, type SluiceOptions, type SluiceStats } from "./sluice.js";
export type { SluiceHandle, WhenFull } from "./table.js";
export { watch } from "./threads.js";
