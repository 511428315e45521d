// How a thread sleeps for a limiter: blocked, or on a timer.

import { isMainThread } from "node:worker_threads";
import type { Bucket, DueAt } from "../bucket/bucket.js";
import type { Clock } from "../clock.js";
import { closed, SluiceError } from "../errors.js";
import type { Table } from "../table/table.js";
import { passed } from "./refusal.js";

/** A reservation to wait for. */
export interface Claim {
  readonly dueAt: DueAt;
  readonly delayMs: number;
}

/** Throws ERR_SLUICE_MAIN_THREAD in the main thread. */
export function checkMayBlock(limiter: string, cost: number): void {
  if (isMainThread) {
    throw new SluiceError(
      "ERR_SLUICE_MAIN_THREAD",
      "a synchronous wait would block the main thread; call it in a worker thread, or wait asynchronously",
      { limiter, cost },
    );
  }
}

const sleeper = new Int32Array(new SharedArrayBuffer(4));

/**
 * Blocks this worker thread until a reservation of `cost` may act. Throws ERR_SLUICE_TIMEOUT at the
 * deadline, and gives the tokens back.
 */
export function blockUntil(
  bucket: Bucket,
  cost: number,
  { dueAt, delayMs }: Claim,
  nowMs: number,
  timeoutMs: number,
): void {
  if (delayMs === 0) return;
  checkMayBlock(bucket.policy.name, cost);
  const { clock } = bucket.table;
  const deadlineMs = nowMs + timeoutMs;
  const most = clock.kind === "manual" ? 1 : LONGEST_SLEEP_MS;
  let dueAtMs = nowMs + delayMs;
  // Look again now and then, and at the end: the rate or a manual clock may have changed.
  for (;;) {
    nowMs = clock.now();
    const known = bucket.untilDue(dueAt, nowMs);
    if (known) {
      if (known.ns === 0) return;
      dueAt = known.dueAt;
      dueAtMs = nowMs + known.ns / 1e6;
    } else if (nowMs >= dueAtMs) {
      return;
    }
    if (nowMs >= deadlineMs) {
      bucket.cancel(cost, dueAt);
      throw passed(bucket.policy.name, cost, dueAtMs - nowMs);
    }
    Atomics.wait(sleeper, 0, 0, Math.min(Math.max(dueAtMs - nowMs, 0.001), deadlineMs - nowMs, most));
  }
}

/**
 * Sleeps until a table's clock reads `untilMs`; rejects with the signal's reason when it aborts, and
 * when the table is closed.
 */
export function sleepUntil(table: Table, untilMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const { clock } = table;
    let timer: NodeJS.Timeout | undefined;
    let stopListening: (() => void) | undefined;
    const stopWatching = table.onClose(() => {
      end();
      reject(closed());
    });
    const end = (): void => {
      clearTimeout(timer);
      stopListening?.();
      stopWatching();
      signal?.removeEventListener("abort", onAbort);
    };
    const onAbort = (): void => {
      end();
      reject(signal!.reason);
    };
    const look = (): void => {
      const leftMs = untilMs - clock.now();
      if (leftMs <= 0) {
        end();
        resolve();
      } else if (!clock.manual) {
        timer = setTimeout(look, sleepMs(clock, leftMs));
      }
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    stopListening = clock.manual?.onMove(look);
    look();
  });
}

/** Longest sleep, ms: at least this often, a waiter looks whether another thread changed the rate. */
const LONGEST_SLEEP_MS = 1000;
/** The same under a manual clock that another thread moves. */
const MANUAL_SLEEP_MS = 5;

/** What to set a timer to. It counts whole ms and may fire a little early: it is armed again then. */
export function sleepMs(clock: Pick<Clock, "kind">, leftMs: number): number {
  return Math.min(Math.max(1, Math.ceil(leftMs)), clock.kind === "manual" ? MANUAL_SLEEP_MS : LONGEST_SLEEP_MS);
}
