// Those of this thread who wait for a turn that Redis has granted them. When
// one leaves early, those behind it on the same key move up, each taking the
// turn of the one before it as far as costs are equal, and the last turn is
// cancelled: so an abort gives its tokens back even from the middle of a queue.

import { ownMs } from "../engine/clock.js";
import { closed } from "../engine/errors.js";

/** A turn: when it comes, on this thread's clock, and how it is given back. */
interface Turn {
  atMs: number;
  giveBack: () => Promise<unknown>;
}

interface Waiter {
  readonly cost: number;
  turn: Turn;
  timer: NodeJS.Timeout | undefined;
  readonly settle: (outcome?: Promise<never>) => void;
}

/** The longest that a timer can be set to, ms. */
const LONGEST_SLEEP_MS = 2 ** 31 - 1;

export class RedisWaiters {
  readonly #queues = new Map<string, Waiter[]>();

  /** Resolves when the turn comes, `delayMs` from now. Rejects with the signal's reason. */
  add(
    key: string,
    cost: number,
    delayMs: number,
    giveBack: () => Promise<unknown>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    return new Promise((resolve) => {
      const onAbort = (): void => {
        void this.#leave(key, waiter);
        // Whatever the reason is: it may be undefined or 0.
        waiter.settle(Promise.reject(signal!.reason));
      };
      const waiter: Waiter = {
        cost,
        turn: { atMs: ownMs() + delayMs, giveBack },
        timer: undefined,
        settle: (outcome) => {
          signal?.removeEventListener("abort", onAbort);
          resolve(outcome);
        },
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      const queue = this.#queues.get(key);
      if (queue) queue.push(waiter);
      else this.#queues.set(key, [waiter]);
      this.#arm(key, waiter);
    });
  }

  /** Gives everybody's turn back, the last one's first, and rejects them with ERR_SLUICE_CLOSED. Resolves when Redis has them. */
  async end(): Promise<void> {
    const backs: Promise<void>[] = [];
    for (const [key, queue] of this.#queues) {
      for (const waiter of [...queue].reverse()) {
        backs.push(this.#leave(key, waiter));
        waiter.settle(Promise.reject(closed()));
      }
    }
    await Promise.all(backs);
  }

  #arm(key: string, waiter: Waiter): void {
    clearTimeout(waiter.timer);
    const leftMs = waiter.turn.atMs - ownMs();
    waiter.timer = setTimeout(() => {
      if (ownMs() < waiter.turn.atMs) {
        this.#arm(key, waiter);
        return;
      }
      this.#forget(key, waiter);
      waiter.settle();
    }, Math.min(Math.max(1, Math.ceil(leftMs)), LONGEST_SLEEP_MS));
  }

  async #leave(key: string, waiter: Waiter): Promise<void> {
    const queue = this.#queues.get(key)!;
    let { turn } = waiter;
    for (let i = queue.indexOf(waiter) + 1; i < queue.length && queue[i].cost === waiter.cost; i++) {
      const next = queue[i];
      [turn, next.turn] = [next.turn, turn];
      this.#arm(key, next);
    }
    this.#forget(key, waiter);
    // Nobody hears of it if the table has been closed before.
    await turn.giveBack().catch(() => {});
  }

  #forget(key: string, waiter: Waiter): void {
    clearTimeout(waiter.timer);
    const queue = this.#queues.get(key)!;
    if (queue.length === 1) this.#queues.delete(key);
    else queue.splice(queue.indexOf(waiter), 1);
  }
}
