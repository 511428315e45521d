// A leaky bucket in front of a Piscina pool: tasks queue up to the bucket's
// size, leave it one by one at its rate, and run on the pool's threads.
//
// Every task has one outcome: its result or its own error; QUEUE_FULL, at once,
// when the bucket has no place for it; the signal's reason when it is aborted;
// CLOSED when the pool ends before it starts. Piscina (peer dependency) runs
// the tasks and ends those that are running.

import { Piscina } from "piscina";
import { checkInteger, checkOptions, MAX_COST, SluiceError } from "./engine/errors.js";
import type { Limiter } from "./engine/limiter/limiter.js";
import { Sluice } from "./engine/limiter/sluice.js";

export interface LeakyPoolOptions {
  /** The worker file, as Piscina's `filename`. */
  filename: string;
  /** Threads, and so tasks at the same time: 1 to 1024. */
  workers: number;
  /** Tasks that leave the bucket per second. */
  rate: number;
  /** Tasks that may wait; 0 takes only what can start at once. */
  queue: number;
  /** Where several pools, in several threads, share one rate. Left out, the pool has its own. */
  home?: { sluice: Sluice; name: string };
  /** More options for Piscina. */
  piscina?: Omit<ConstructorParameters<typeof Piscina>[0], "filename">;
}

export interface RunOptions {
  signal?: AbortSignal;
  /** The worker's exported function, as Piscina's `name`. */
  name?: string;
  transferList?: readonly unknown[];
}

interface Entry {
  task: unknown;
  options: RunOptions;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
  stopListening: () => void;
}

export class LeakyPool<Task = unknown, Result = unknown> {
  readonly #pool: Piscina;
  readonly #limiter: Limiter;
  readonly #own: Sluice | undefined;
  readonly #workers: number;
  readonly #most: number;
  readonly #queue: Entry[] = [];
  readonly #ending = new AbortController();
  #running = 0;
  #isPumping = false;
  #isClosed = false;
  #wake: (() => void) | undefined;
  #drained: (() => void)[] = [];

  constructor(options: LeakyPoolOptions) {
    checkOptions(options);
    const { filename, workers, rate, queue, home, piscina } = options;
    checkInteger("workers", workers, 1, 1024);
    checkInteger("queue", queue, 0, MAX_COST);
    this.#own = home ? undefined : Sluice.create({ capacity: 1, lineCapacity: 1, maxThreads: 1 });
    // The tasks wait here; in the bucket waits one for each pool that shares it.
    this.#limiter = (home?.sluice ?? this.#own!).leakyBucket(home?.name ?? "pool", { rate, queue: 1024 });
    this.#pool = new Piscina({ ...piscina, filename, minThreads: workers, maxThreads: workers });
    this.#workers = workers;
    this.#most = queue;
  }

  /** Tasks that wait in the bucket. */
  get queueSize(): number {
    return this.#queue.length;
  }

  /** Tasks that run. */
  get running(): number {
    return this.#running;
  }

  /**
   * Runs a task when its turn comes. Rejects at once with ERR_SLUICE_QUEUE_FULL
   * if the bucket is full and with ERR_SLUICE_CLOSED if the pool is closed; with
   * the signal's reason if it is aborted, waiting or running; else as the task.
   */
  run(task: Task, options: RunOptions = {}): Promise<Result> {
    return new Promise<unknown>((resolve, reject) => {
      checkOptions(options);
      const { signal } = options;
      signal?.throwIfAborted();
      if (this.#isClosed) throw closed();
      const startsAtOnce = this.#queue.length === 0 && this.#running < this.#workers && this.#limiter.peek().allowed;
      if (!startsAtOnce && this.#queue.length >= this.#most) {
        throw new SluiceError(
          "ERR_SLUICE_QUEUE_FULL",
          `"queue" is ${this.#most} and as many tasks wait; try again in ${this.#limiter.peek().retryAfterMs} ms`,
        );
      }
      const onAbort = (): void => {
        this.#queue.splice(this.#queue.indexOf(entry), 1);
        reject(signal!.reason);
        this.#settle();
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

  /** Takes the tasks out of the bucket in order: one when a thread is free and the rate allows. */
  async #pump(): Promise<void> {
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      while (this.#queue.length > 0) {
        if (this.#running >= this.#workers) {
          await new Promise<void>((resolve) => (this.#wake = resolve));
          continue;
        }
        if (!this.#limiter.allow()) await this.#limiter.wait(undefined, 1, { signal: this.#ending.signal });
        const entry = this.#queue.shift();
        if (entry) this.#start(entry);
        else this.#limiter.refund();
      }
    } catch (error) {
      // Nobody waits any more once the pool ends; anything else is everybody's.
      for (const entry of this.#queue.splice(0)) this.#refuse(entry, this.#ending.signal.aborted ? closed() : error);
    } finally {
      this.#isPumping = false;
      this.#settle();
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
        this.#settle();
      });
  }

  #refuse(entry: Entry, error: unknown): void {
    entry.stopListening();
    entry.reject(error);
  }

  #settle(): void {
    if (this.#queue.length > 0 || this.#running > 0) return;
    for (const done of this.#drained.splice(0)) done();
  }

  /** Takes no more tasks, lets those taken finish, and ends the threads. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#queue.length > 0 || this.#running > 0) await new Promise<void>((resolve) => this.#drained.push(resolve));
    await this.#end();
  }

  /** Takes no more tasks, rejects those that wait with ERR_SLUICE_CLOSED, and ends the threads and what runs on them. */
  async destroy(): Promise<void> {
    this.#isClosed = true;
    this.#ending.abort();
    for (const entry of this.#queue.splice(0)) this.#refuse(entry, closed());
    this.#wake?.();
    await this.#end();
  }

  async #end(): Promise<void> {
    await this.#pool.destroy();
    this.#own?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function closed(): SluiceError {
  return new SluiceError("ERR_SLUICE_CLOSED", "the pool is closed; the task did not start");
}
