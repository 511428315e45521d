export type { RedisLimiterStats } from "./buckets.js";
export type { CallCounts } from "./connection/caller.js";
export type { GlideClient, IoredisClient, NodeRedisClient, RedisClient } from "./connection/client.js";
export type { RedisDecision } from "./connection/fallback.js";
export { RedisKeyedLimiter } from "./keyed-limiter.js";
export type {
  RedisFixedWindowOptions,
  RedisLeakyBucketOptions,
  RedisLimit,
  RedisSlidingWindowOptions,
  RedisTokenBucketOptions,
} from "./kinds.js";
export { LeasedLimiter, type LeasedOptions, type LeasedStats } from "./lease/leased.js";
export { RedisLimiter } from "./limiter.js";
export type { RedisReservation } from "./reservation.js";
export { type OnFailure, RedisSluice, type RedisSluiceOptions, type RedisSluiceStats } from "./sluice.js";
