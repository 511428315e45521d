// Calls to Redis behind the breaker, and counts of how they go. A call never
// rejects because of Redis: without an answer it resolves to undefined, and the
// caller then applies `onFailure`.

import type { Script } from "../scripts/script.js";
import type { Breaker } from "./breaker.js";
import type { Send } from "./connection.js";

export interface CallCounts {
  /** Calls that Redis did not answer in time, or answered with an error. */
  failures: number;
  /** Calls that were not made, because Redis had been given up. */
  skipped: number;
  /** Answers that came after their deadline. */
  late: number;
  /** Why the last of the failures failed. */
  lastFailure?: unknown;
}

/** An error about this one key or script: the server itself is well. */
function isAboutTheKey(error: unknown): boolean {
  return error instanceof Error && /^ERR|WRONGTYPE|ResponseError/.test(error.message) && !refusals.test(error.message);
}

/** What a server that is not well says of itself; before Redis 7 in the midst of an ERR about the script. */
const refusals =
  /OOM|READONLY|MISCONF|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|LOADING|BUSY|NOAUTH|NOPERM|permission|can't run this command/;

/** @internal */
export class Caller {
  readonly counts: CallCounts = { failures: 0, skipped: 0, late: 0 };
  readonly #send: Send;
  readonly #breaker: Breaker;

  constructor(send: Send, breaker: Breaker) {
    this.#send = send;
    this.#breaker = breaker;
  }

  /** False while Redis has been given up and is only probed. */
  get isReachable(): boolean {
    return !this.#breaker.isOpen;
  }

  /**
   * The script's answer; undefined if there is none. If it comes late, `onLate` is
   * called with it. Rejects with ERR_SLUICE_CLOSED if the breaker's table is closed.
   */
  call(script: Script, keys: string[], args: string[], onLate?: (reply: unknown) => void): Promise<unknown> {
    const { advice } = this.#breaker;
    if (advice === "skip") {
      this.counts.skipped++;
      return Promise.resolve(undefined);
    }
    return new Promise((resolve, reject) => {
      const onReply = (reply: unknown): void => {
        try {
          if (advice === "probe") this.#breaker.recovered();
          resolve(reply);
        } catch (closed) {
          reject(closed);
        }
      };
      const onError = (error: unknown): void => {
        this.counts.failures++;
        this.counts.lastFailure = error;
        try {
          if (!isAboutTheKey(error)) this.#breaker.failed();
          else if (advice === "probe") this.#breaker.recovered();
          resolve(undefined);
        } catch (closed) {
          reject(closed);
        }
      };
      this.#send(script, keys, args, onReply, onError, (late) => {
        this.counts.late++;
        onLate?.(late);
      });
    });
  }
}
