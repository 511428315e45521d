// A leaky bucket in front of a Piscina pool: tasks wait in a queue of bounded
// length, leave it one by one at a rate, and run on the pool's threads.
//
// Every task has one outcome: its result or its own error; ERR_SLUICE_QUEUE_FULL, at
// once, if the queue has no room for it; the signal's reason if it is aborted;
// ERR_SLUICE_CLOSED if the pool ends before it starts. Piscina (peer dependency) runs
// the tasks and ends those that are running.

import { Piscina } from "piscina";
import { checkInteger, MAX_COST, SluiceError, unexpected } from "./engine/errors.js";
import type { KeyedLimiter } from "./engine/limiter/keyed-limiter.js";
import { Sluice } from "./engine/limiter/sluice.js";
import { checkOptions } from "./engine/options.js";

export interface LeakyPoolOptions {
  /** The worker file, as Piscina's `filename`. */
  filename: string;
  /** Threads, which is also the most tasks at the same time: 1 to 1024. */
  workers: number;
  /** Tasks that start per second: > 0, or Infinity. */
  rate: number;
  /** Tasks that may wait: 0 to 2^31-1; with 0 the pool takes only tasks that can start at once. */
  queue: number;
  /**
   * The table and the limiter's name by which several pools, in several threads, share
   * one rate. Default: a rate of its own.
   */
  home?: { sluice: Sluice; name: string };
  /** More options for Piscina. */
  piscina?: Omit<ConstructorParameters<typeof Piscina>[0], "filename">;
}

export interface RunOptions {
  /** Aborts the task, whether it waits or runs. */
  signal?: AbortSignal;
  /** The worker's exported function, as Piscina's `name`. */
  name?: string;
  /** Objects to transfer to the thread, as Piscina's `transferList`. */
  transferList?: readonly unknown[];
}

interface Entry {
  task: unknown;
  options: RunOptions;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
  stopListening: () => void;
}

/** A Piscina pool that starts its tasks at a rate, and lets a bounded number of them wait. */
export class LeakyPool<Task = unknown, Result = unknown> {
  readonly #pool: Piscina;
  readonly #bucket: KeyedLimiter;
  readonly #name: string;
  readonly #own: Sluice | undefined;
  readonly #workers: number;
  readonly #maxQueue: number;
  readonly #queue: Entry[] = [];
  readonly #ending = new AbortController();
  #running = 0;
  #isPumping = false;
  #isClosed = false;
  #wake: (() => void) | undefined;
  #drained: (() => void)[] = [];

  /** @throws {TypeError | RangeError} if an option is wrong or unknown */
  constructor(options: LeakyPoolOptions) {
    checkOptions(options, ["filename", "workers", "rate", "queue", "home", "piscina"]);
    const { filename, workers, rate, queue, home, piscina } = options;
    if (home !== undefined) {
      checkOptions(home, ["sluice", "name"], "home");
      if (!(home.sluice instanceof Sluice)) throw unexpected("home.sluice", "a Sluice", home.sluice, "object");
    }
    checkInteger("workers", workers, 1, 1024);
    checkInteger("queue", queue, 0, MAX_COST);
    this.#own = home ? undefined : Sluice.create({ capacity: 1, lineCapacity: 1, maxThreads: 1 });
    this.#name = home?.name ?? "pool";
    // The tasks wait in the pool; in the bucket waits one for each pool that shares it.
    this.#bucket = (home?.sluice ?? this.#own!).leakyBucket(this.#name, { rate, queue: 1024 }).global;
    this.#pool = new Piscina({ ...piscina, filename, minThreads: workers, maxThreads: workers });
    this.#workers = workers;
    this.#maxQueue = queue;
  }

  /** Tasks that wait. */
  get queueSize(): number {
    return this.#queue.length;
  }

  /** Tasks that run. */
  get running(): number {
    return this.#running;
  }

  /**
   * Runs a task when its turn comes, and resolves to its result. Rejects with the
   * task's own error; at once with ERR_SLUICE_QUEUE_FULL if `queue` tasks wait, with
   * ERR_SLUICE_CLOSED if the pool is closed, and with a TypeError for unknown options;
   * with the signal's reason if the task is aborted, whether it waits or runs.
   */
  run(task: Task, options: RunOptions = {}): Promise<Result> {
    return new Promise<unknown>((resolve, reject) => {
      checkOptions(options, ["signal", "name", "transferList"]);
      const { signal } = options;
      signal?.throwIfAborted();
      if (this.#isClosed) throw this.#closed();
      const { allowed, retryAfterMs } = this.#bucket.peek();
      const startsAtOnce = this.#queue.length === 0 && this.#running < this.#workers && allowed;
      if (!startsAtOnce && this.#queue.length >= this.#maxQueue) {
        throw new SluiceError(
          "ERR_SLUICE_QUEUE_FULL",
          `queue full: ${this.#queue.length} tasks wait, queue is ${this.#maxQueue}`,
          { limiter: this.#name, cost: 1, retryAfterMs },
        );
      }
      const onAbort = (): void => {
        this.#queue.splice(this.#queue.indexOf(entry), 1);
        reject(signal!.reason);
        this.#resolveDrained();
      };
      const entry: Entry = {
        task,
        options,
        resolve,
        reject,
        stopListening: () => signal?.removeEventListener("abort", onAbort),
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#queue.push(entry);
      void this.#pump();
    }) as Promise<Result>;
  }

  /** Starts the tasks in order, each when a thread is free and the rate allows it. */
  async #pump(): Promise<void> {
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      while (this.#queue.length > 0) {
        if (this.#running >= this.#workers) {
          await new Promise<void>((resolve) => (this.#wake = resolve));
          continue;
        }
        if (!this.#bucket.allow()) await this.#bucket.wait(1, { signal: this.#ending.signal });
        const entry = this.#queue.shift();
        if (entry) this.#start(entry);
        else this.#bucket.refund();
      }
    } catch (error) {
      // Either the pool ends, or the wait failed for every task.
      for (const entry of this.#queue.splice(0)) {
        this.#refuse(entry, this.#ending.signal.aborted ? this.#closed() : error);
      }
    } finally {
      this.#isPumping = false;
      this.#resolveDrained();
    }
  }

  #start({ task, options, resolve, reject, stopListening }: Entry): void {
    stopListening();
    this.#running++;
    const { signal, name, transferList } = options;
    this.#pool
      .run(task, { signal: signal ?? null, name, transferList } as Parameters<Piscina["run"]>[1])
      .then(resolve, (error) => reject(signal?.aborted ? signal.reason : error))
      .finally(() => {
        this.#running--;
        this.#wake?.();
        this.#resolveDrained();
      });
  }

  #refuse(entry: Entry, error: unknown): void {
    entry.stopListening();
    entry.reject(error);
  }

  /** Resolves what waits for the last task. */
  #resolveDrained(): void {
    if (this.#queue.length > 0 || this.#running > 0) return;
    for (const done of this.#drained.splice(0)) done();
  }

  /** Takes no more tasks, lets the ones it has finish, and ends the threads. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#queue.length > 0 || this.#running > 0) await new Promise<void>((resolve) => this.#drained.push(resolve));
    await this.#end();
  }

  /**
   * Takes no more tasks, rejects the waiting ones with ERR_SLUICE_CLOSED, and ends the
   * threads with the tasks that run on them.
   */
  async destroy(): Promise<void> {
    this.#isClosed = true;
    this.#ending.abort();
    for (const entry of this.#queue.splice(0)) this.#refuse(entry, this.#closed());
    this.#wake?.();
    await this.#end();
  }

  async #end(): Promise<void> {
    await this.#pool.destroy();
    this.#own?.close();
  }

  /** As `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #closed(): SluiceError {
    return new SluiceError("ERR_SLUICE_CLOSED", "the pool is closed: the task did not start", { limiter: this.#name });
  }
}
