export type { Decision } from "./engine/bucket/decision.js";
export type { Reservation } from "./engine/bucket/reservation.js";
export { SluiceError, type SluiceErrorCode } from "./engine/errors.js";
export { type GroupDecision, type GroupReservation, Hierarchy, type Keys } from "./engine/limiter/all.js";
export type { ReserveOptions, WaitAllOptions, WaitOptions, WaitSyncOptions } from "./engine/limiter/call-options.js";
export type { Entry } from "./engine/limiter/entries.js";
export { KeyedLimiter } from "./engine/limiter/keyed-limiter.js";
export { Limiter } from "./engine/limiter/limiter.js";
export type { AuditReport, SluiceStats } from "./engine/limiter/reports.js";
export { Sluice, type SluiceOptions } from "./engine/limiter/sluice.js";
export { ManualClock } from "./engine/manual-clock.js";
export type {
  BucketLimits,
  FixedWindowOptions,
  LeakyBucketOptions,
  SlidingWindowOptions,
  TokenBucketOptions,
  WarmUpOptions,
} from "./engine/policy/algorithms.js";
export { every, perDay, perHour, perMinute, perSecond } from "./engine/policy/rate.js";
export type { LimiterStats } from "./engine/table/counters.js";
export { watch } from "./engine/table/deaths.js";
export type { SluiceHandle, WhenFull } from "./engine/table/header.js";
export type { Key } from "./engine/table/key.js";
