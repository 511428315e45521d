// Offsets for TypeScript, by the classes that are laid out in layout/.

import { BucketSegment, Declaration, Policy, POLICY_DECLARATION, RingSegment, Segment } from "./layout/policy";
import { WarmUpSegment, WindowSegment } from "./layout/policy";
import { Header } from "./layout/table";
import { Counters, Scratch } from "./layout/thread";

export { ALGORITHM_SHIFT, BUCKET, FIXED_WINDOW, FLAG_CUT_WAIT, FLAG_PAY_LATER, FLAG_QUEUE } from "./layout/policy";
export { FLAG_SHADOW, FLAG_UNLIMITED, LEASE, LIMITS, MAX_LIMITS, POLICY_GLOBAL, POLICY_LIMITS } from "./layout/policy";
export { POLICY_NAME, POLICY_NAME_MAX, POLICY_SEGMENT, RING, SEGMENT_BYTES, SLIDING_COUNTER } from "./layout/policy";
export { WARM_UP } from "./layout/policy";
export { LINE_BYTES, LINE_GROUP_SETS, LINE_OWNER_BITS, LINE_SET_BYTES, LINE_SLOT_COUNT } from "./layout/slots";
export { PAGE_SETS, SET_BYTES, SIDE_BITS, SLOT_COUNT, SLOT_STATE, SLOT_STEP, SLOTS_END } from "./layout/slots";
export { ADMIT, DENY, EVICT, HEADER_POLICY_COUNT, HEADER_POLICY_LOCK, HEADER_TICKER } from "./layout/table";
export { LAYOUT_VERSION, LOCK_BYTES, LOCK_COUNT, LOCK_SLOT, LOCKS, MAGIC, POLICIES, POLICY_BITS } from "./layout/table";
export { POLICY_BYTES, POLICY_COUNT } from "./layout/table";
export { COUNTERS_BYTES, MAX_BATCH, MAX_SCRATCH_BYTES, SCRATCH_ANSWERS, SCRATCH_BATCH } from "./layout/thread";
export { SCRATCH_BYTES, SCRATCH_COUNTERS, SCRATCH_LIMITS, SCRATCH_LINE, SCRATCH_NAME } from "./layout/thread";
export { SCRATCH_SEGMENT, SCRATCH_TAKEN, THREAD_BYTES, THREADS } from "./layout/thread";

export const HEADER_MAGIC: usize = offsetof<Header>("magic");
export const HEADER_VERSION: usize = offsetof<Header>("version");
export const HEADER_SET_COUNT: usize = offsetof<Header>("setCount");
export const HEADER_THREAD_COUNT: usize = offsetof<Header>("threadCount");
export const HEADER_HASH_KEY: usize = offsetof<Header>("hashKey0");
export const HEADER_EPOCH: usize = offsetof<Header>("epochNs");
export const HEADER_CLOCK_KIND: usize = offsetof<Header>("clockKind");
export const HEADER_WHEN_FULL: usize = offsetof<Header>("whenFull");
export const HEADER_TABLE_ID: usize = offsetof<Header>("tableId");
export const HEADER_CAPACITY: usize = offsetof<Header>("capacity");
export const HEADER_LINE_SET_COUNT: usize = offsetof<Header>("lineSetCount");
export const HEADER_CLOCK: usize = offsetof<Header>("clockMs");
export const HEADER_CLOCK_NS: usize = offsetof<Header>("clockNs");

export const POLICY_VERSION: usize = offsetof<Policy>("version");
export const POLICY_LOCK: usize = offsetof<Policy>("lock");
export const POLICY_KIND: usize = offsetof<Policy>("kind");
export const POLICY_FLAGS: usize = offsetof<Policy>("flags");
export const POLICY_WALKED: usize = offsetof<Policy>("walked");
export const POLICY_NAME_BYTES: usize = offsetof<Policy>("nameBytes");
export const POLICY_LIMIT_COUNT: usize = offsetof<Policy>("limitCount");
export const POLICY_RATE: usize = POLICY_DECLARATION + offsetof<Declaration>("rate");
export const POLICY_BURST: usize = POLICY_DECLARATION + offsetof<Declaration>("burst");
export const POLICY_EXTRA: usize = POLICY_DECLARATION + offsetof<Declaration>("extra");

export const SEGMENT_T0: usize = offsetof<Segment>("t0");
export const SEGMENT_LIFE: usize = offsetof<Segment>("life");
export const SEGMENT_RATE: usize = offsetof<Segment>("rate");
export const SEGMENT_BURST: usize = offsetof<Segment>("burst");
export const SEGMENT_LIMIT_TOKENS: usize = offsetof<Segment>("limitTokens");
export const SEGMENT_FLAGS: usize = offsetof<Segment>("flags");

export const BUCKET_V0: usize = offsetof<BucketSegment>("v0");
export const BUCKET_MULTIPLIER: usize = offsetof<BucketSegment>("multiplier");
export const BUCKET_BURST_UNITS: usize = offsetof<BucketSegment>("burstUnits");
export const BUCKET_NS_PER_UNIT: usize = offsetof<BucketSegment>("nsPerUnit");
export const BUCKET_QUEUE_UNITS: usize = offsetof<BucketSegment>("queueUnits");
export const BUCKET_BEFORE_MULTIPLIER: usize = offsetof<BucketSegment>("beforeMultiplier");
export const BUCKET_LAST_START: usize = offsetof<BucketSegment>("lastStart");
export const BUCKET_SECOND_LAST_START: usize = offsetof<BucketSegment>("secondLastStart");
export const BUCKET_PRE_SHIFT: usize = offsetof<BucketSegment>("preShift");
export const BUCKET_TOKEN_SHIFT: usize = offsetof<BucketSegment>("tokenShift");
export const BUCKET_SCALE: usize = offsetof<BucketSegment>("scale");
export const BUCKET_BEFORE_PRE_SHIFT: usize = offsetof<BucketSegment>("beforePreShift");
export const BUCKET_LAST_SHIFT: usize = offsetof<BucketSegment>("lastShift");
export const BUCKET_SECOND_LAST_SHIFT: usize = offsetof<BucketSegment>("secondLastShift");

export const WINDOW_NS: usize = offsetof<WindowSegment>("windowNs");
export const WINDOW_INVERSE: usize = offsetof<WindowSegment>("inverse");
export const WINDOW_INVERSE_SHIFT: usize = offsetof<WindowSegment>("inverseShift");
export const WINDOW_COUNT_BITS: usize = offsetof<WindowSegment>("countBits");

export const RING_SLOT_NS: usize = offsetof<RingSegment>("slotNs");
export const RING_INVERSE: usize = offsetof<RingSegment>("inverse");
export const RING_INVERSE_SHIFT: usize = offsetof<RingSegment>("inverseShift");
export const RING_LENGTH: usize = offsetof<RingSegment>("ringLength");

export const WARM_UP_NS: usize = offsetof<WarmUpSegment>("warmUpNs");
export const WARM_UP_THRESHOLD: usize = offsetof<WarmUpSegment>("threshold");
export const WARM_UP_MAX_PERMITS: usize = offsetof<WarmUpSegment>("maxPermits");
export const WARM_UP_SLOPE: usize = offsetof<WarmUpSegment>("slope");
export const WARM_UP_STABLE_NS: usize = offsetof<WarmUpSegment>("stableNs");

export const SCRATCH_OWNER: usize = offsetof<Scratch>("owner");
export const SCRATCH_PARENT: usize = offsetof<Scratch>("parent");
export const SCRATCH_LINE_LOCKED: usize = offsetof<Scratch>("lineLocked");
export const SCRATCH_KEY: usize = offsetof<Scratch>("key");
export const SCRATCH_SET_A: usize = offsetof<Scratch>("setA");
export const SCRATCH_SET_B: usize = offsetof<Scratch>("setB");
export const SCRATCH_REMAINING: usize = offsetof<Scratch>("remaining");
export const SCRATCH_RETRY_NS: usize = offsetof<Scratch>("retryNs");
export const SCRATCH_RESET_NS: usize = offsetof<Scratch>("resetNs");
export const SCRATCH_DELAY_NS: usize = offsetof<Scratch>("delayNs");
export const SCRATCH_TOKENS: usize = offsetof<Scratch>("tokens");
export const SCRATCH_DUE_AT: usize = offsetof<Scratch>("dueAt");
export const SCRATCH_PRESENT_MS: usize = offsetof<Scratch>("presentMs");
export const SCRATCH_LIMIT_INDEX: usize = offsetof<Scratch>("limitIndex");
export const SCRATCH_SLOT: usize = offsetof<Scratch>("slot");

export const COUNTERS_ALLOWED: usize = offsetof<Counters>("allowed");
export const COUNTERS_DENIED: usize = offsetof<Counters>("denied");
export const COUNTERS_EVICTED: usize = offsetof<Counters>("evicted");
export const COUNTERS_CONTENDED: usize = offsetof<Counters>("contended");
export const COUNTERS_FULL_DENIED: usize = offsetof<Counters>("fullDenied");
export const COUNTERS_FULL_ALLOWED: usize = offsetof<Counters>("fullAllowed");
export const COUNTERS_CLAIMED: usize = offsetof<Counters>("claimed");
export const COUNTERS_SHADOWED: usize = offsetof<Counters>("shadowed");
export const COUNTERS_LIVE: usize = offsetof<Counters>("live");
