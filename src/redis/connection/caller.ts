// Asks Redis, if it may be asked, and keeps count of how that goes. Nothing
// here rejects: no answer is undefined, and the failure policy's to deal with.

import type { Script } from "../scripts/script.js";
import type { Breaker } from "./breaker.js";
import type { Connection } from "./connection.js";

/** Answers of a script: see lua.ts. */
export type Reply = readonly [
  granted: number,
  left: number,
  waitUs: number,
  fullUs: number,
  limitIndex: number,
  act?: string,
];

export interface GuardCounts {
  /** Calls that Redis did not answer in time, or answered with an error. */
  failures: number;
  /** Calls that were not made, since Redis had been given up. */
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

/** What a server that is not well says of it; before Redis 7 in the midst of an ERR about the script. */
const refusals =
  /OOM|READONLY|MISCONF|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|LOADING|BUSY|NOAUTH|NOPERM|permission|can't run this command/;

export class Guard {
  readonly counts: GuardCounts = { failures: 0, skipped: 0, late: 0 };
  readonly #connection: Connection;
  readonly #breaker: Breaker;

  constructor(connection: Connection, breaker: Breaker) {
    this.#connection = connection;
    this.#breaker = breaker;
  }

  get isReachable(): boolean {
    return !this.#breaker.isOpen;
  }

  /**
   * The script's answer, as `read` understands it; undefined if there is none.
   * Should it come late, `onLate` is called with it.
   */
  ask(
    script: Script,
    keys: string[],
    args: string[],
    onLate?: (reply: unknown) => void,
    read: (reply: unknown) => unknown = asItIs,
  ): Promise<unknown> {
    const { advice } = this.#breaker;
    if (advice === "skip") {
      this.counts.skipped++;
      return Promise.resolve(undefined);
    }
    return new Promise((resolve, reject) => {
      const onReply = (reply: unknown): void => {
        try {
          if (advice === "probe") this.#breaker.recovered();
          resolve(read(reply));
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
      this.#connection.send(script, keys, args, onReply, onError, (late) => {
        this.counts.late++;
        onLate?.(read(late));
      });
    });
  }
}

function asItIs(reply: unknown): unknown {
  return reply;
}
