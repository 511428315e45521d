// A program of a user, which only has to type-check: against the declarations of
// the built package, every call as documented, and the mistakes that do not compile.

import {
  every,
  type GroupDecision,
  type KeyedLimiter,
  type Limiter,
  ManualClock,
  perSecond,
  Sluice,
  type SluiceError,
  type SluiceHandle,
} from "sluice";
import { Limiter as GoLimiter, Sometimes } from "sluice/go";
import { RateLimiter } from "sluice/guava";

export async function program(handle: SluiceHandle, signal: AbortSignal): Promise<unknown[]> {
  const sluice = Sluice.create({ capacity: 1000, lineCapacity: 10, clock: new ManualClock(), whenFull: "deny" });
  const user: Limiter = sluice.tokenBucket("user", {
    rate: perSecond(10),
    burst: 20,
    tiers: { gold: { burst: 200 }, platinum: { limits: [{ rate: 1, burst: 2 }] } },
  });
  const several = sluice.tokenBucket("several", { limits: [{ rate: 1, burst: 2 }], shadow: true });
  const meter = sluice.leakyBucket("meter", { rate: 1, burst: 2 });
  const queue = sluice.leakyBucket("queue", { rate: every(100), queue: 2 });
  const fixed = sluice.fixedWindow("fixed", { limit: 1, windowMs: 1000, align: "wall" });
  const sliding = sluice.slidingWindow("sliding", { limit: 1, windowMs: 1000, slots: 4 });
  const warm = sluice.warmUp("warm", { rate: 1, warmupMs: 1000, coldFactor: 2 });
  const alice: KeyedLimiter = user.key("alice");
  const decision: GroupDecision = sluice.all([[user, "alice"], [several, 7n, 2], [alice, 2], [user.global]]);
  const { granted, refusedBy } = sluice.reserveAll([[user, 1]], { maxWaitMs: 10 });
  await sluice.waitAll([[user, new Uint8Array(2)]], { signal, timeoutMs: 10 });
  await user.wait("alice", 1, { signal, timeoutMs: 10, maxWaiters: 3 });
  user.limits.map(({ rate, burst }) => rate * burst);
  fixed.setLimit(3);
  const { code, limiter, cost, retryAfterMs } = {} as SluiceError;
  const go = new GoLimiter(1, 2, { sluice, name: "go" });
  await go.waitN(2, { deadlineMs: go.now() + 10, signal });
  new Sometimes({ first: 1, every: 2, intervalMs: 3 }).do(() => {});
  const seconds: number = await RateLimiter.create(5, { warmupMs: 10 }).acquire(2, { signal });
  using reservation = user.reserve("alice");
  return [
    Sluice.attach(handle).limiter("user").tier("gold").global.peek().limitIndex,
    [meter, queue, sliding, warm, decision.refusedBy, granted, refusedBy, reservation.delayMs, seconds],
    [code, limiter, cost, retryAfterMs],
  ];
}

export function mistakes(sluice: Sluice, limiter: Limiter, key: string | undefined): void {
  // @ts-expect-error A key is missing.
  limiter.allow();
  // @ts-expect-error A key may be missing.
  limiter.allow(key);
  // @ts-expect-error A handle has its key.
  limiter.global.allow("alice");
  // @ts-expect-error An entry without a key.
  sluice.all([[limiter]]);
  // @ts-expect-error An entry of a handle has no key.
  sluice.all([[limiter.global, "alice"]]);
  // @ts-expect-error One limit and several.
  sluice.tokenBucket("both", { rate: 1, burst: 1, limits: [{ rate: 1, burst: 1 }] });
  // @ts-expect-error Half a limit.
  sluice.tokenBucket("half", { rate: 1 });
  // @ts-expect-error A meter without a burst.
  sluice.leakyBucket("meter", { rate: 1 });
  // @ts-expect-error An unknown option.
  limiter.reserve("alice", 1, { maxWait: 1 });
  // @ts-expect-error Made by Sluice.create only.
  new Sluice();
}
