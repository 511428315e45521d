export type { GlideClient, IoredisClient, NodeRedisClient, RedisClient } from "./client.js";
export type { RedisDecision } from "./degraded.js";
export type {
  RedisFixedWindowOptions,
  RedisLeakyBucketOptions,
  RedisLimit,
  RedisSlidingWindowOptions,
  RedisTokenBucketOptions,
} from "./kinds.js";
export { LeasedLimiter, type LeasedOptions, type LeasedStats } from "./leased.js";
export { RedisLimiter, type RedisLimiterStats } from "./limiter.js";
export type { RedisReservation } from "./reservation.js";
export { type OnFailure, RedisSluice, type RedisSluiceOptions, type RedisSluiceStats } from "./sluice.js";
