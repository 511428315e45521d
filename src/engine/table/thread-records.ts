// Which threads are attached: of each thread number, the thread that owns it
// and the thread that started the owner. assembly/layout.ts draws the record.
//
// The owner word is 0 if the number is free, else the owner's threadId + 1. A
// thread takes a free number and gives its own back; a number whose owner died
// is freed by the thread that started the owner.

import { threadId } from "node:worker_threads";
import type { KernelNumbers } from "./kernel.js";

export class ThreadRecords {
  readonly count: number;
  readonly #words: Int32Array;
  readonly #at: KernelNumbers;

  constructor(buffer: SharedArrayBuffer, at: KernelNumbers, count: number) {
    this.count = count;
    this.#words = new Int32Array(buffer);
    this.#at = at;
  }

  /**
   * Takes a free number for this thread, which `parent` started (its threadId + 1; 0: not known). -1 if
   * none is free.
   */
  claim(parent: number): number {
    for (let thread = 0; thread < this.count; thread++) {
      if (Atomics.compareExchange(this.#words, this.ownerAt(thread), 0, threadId + 1) !== 0) continue;
      this.#words[this.#parentAt(thread)] = parent;
      return thread;
    }
    return -1;
  }

  /** Frees a number if `owner` (by default this thread) has it. */
  release(thread: number, owner = threadId + 1): void {
    Atomics.compareExchange(this.#words, this.ownerAt(thread), owner, 0);
  }

  /** threadId + 1 of the thread that has a number; 0 if it is free. */
  owner(thread: number): number {
    return Atomics.load(this.#words, this.ownerAt(thread));
  }

  /** threadId + 1 of the thread that started the owner; 0 if it is not known. */
  parent(thread: number): number {
    return this.#words[this.#parentAt(thread)];
  }

  /** Numbers in use. */
  get attached(): number {
    let attached = 0;
    for (let thread = 0; thread < this.count; thread++) if (this.owner(thread) !== 0) attached++;
    return attached;
  }

  /** Index of the owner word among the 32-bit words. */
  ownerAt(thread: number): number {
    return (this.#at.THREADS + thread * this.#at.THREAD_BYTES + this.#at.SCRATCH_OWNER) / 4;
  }

  #parentAt(thread: number): number {
    return (this.#at.THREADS + thread * this.#at.THREAD_BYTES + this.#at.SCRATCH_PARENT) / 4;
  }
}
