// Calls that end by themselves after so long, all after the same time: so they
// fall due in the order in which they began, and one timer serves all of them.
// A timer for each would take about a microsecond more a call.

import { ownMs } from "../../engine/clock.js";

/** A call under way, in a list. */
export interface Pending {
  readonly dueMs: number;
  readonly giveUp: () => void;
  before: Pending | undefined;
  after: Pending | undefined;
}

export class Deadlines {
  readonly #afterMs: number;
  #first: Pending | undefined;
  #last: Pending | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(afterMs: number) {
    this.#afterMs = afterMs;
  }

  /** Calls `giveUp` after the time that all have, unless it was ended before. */
  begin(giveUp: () => void): Pending {
    const pending: Pending = { dueMs: ownMs() + this.#afterMs, giveUp, before: this.#last, after: undefined };
    if (this.#last) this.#last.after = pending;
    else this.#first = pending;
    this.#last = pending;
    if (!this.#timer) this.#timer = setTimeout(this.#look, this.#afterMs);
    // A timer that nobody waits for keeps no process alive.
    else if (this.#first === pending) this.#timer.ref();
    return pending;
  }

  end(pending: Pending): void {
    const { before, after } = pending;
    if (before) before.after = after;
    else if (this.#first === pending) this.#first = after;
    else return;
    if (after) after.before = before;
    else this.#last = before;
    if (!this.#first) this.#timer?.unref();
  }

  #look = (): void => {
    // One that was set between a deadline and the giving up is for later than what else is due.
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const first = this.#first;
    if (!first) return;
    const leftMs = first.dueMs - ownMs();
    // After a pause of this thread itself, replies may wait to be read: sockets come first.
    if (leftMs <= 0) setImmediate(this.#giveUp);
    else this.#timer = setTimeout(this.#look, Math.ceil(leftMs));
  };

  #giveUp = (): void => {
    const nowMs = ownMs();
    for (let first = this.#first; first && first.dueMs <= nowMs; first = this.#first) {
      this.end(first);
      first.giveUp();
    }
    this.#look();
  };
}
