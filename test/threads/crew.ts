// A crew: worker threads that attach to one table, wait at a gate, begin
// together and report what they did. Also the random numbers of seeded tests.

import { SHARE_ENV, Worker } from "node:worker_threads";
import type { SluiceHandle } from "sluice";

/** Flags of a job: word 0 opens the gate, word 1 ends the work, each of the others counts for one worker. */
const GATE = 0;
const STOP = 1;
const COUNTS = 2;

interface Message<Report> {
  ready?: true;
  report?: Report;
}

/** Starts a fixture of test/workers with none of the test runner's own options. */
export function startWorker(file: string, workerData: Record<string, unknown>): Worker {
  return new Worker(new URL(`../workers/${file}`, import.meta.url), {
    workerData,
    execArgv: [],
    env: SHARE_ENV,
    trackUnmanagedFds: false,
  });
}

export class Crew<Report> {
  readonly workers: Worker[];
  readonly #words: Int32Array;
  readonly #reports: Promise<Report>[];

  private constructor(words: Int32Array, workers: Worker[], reports: Promise<Report>[]) {
    this.#words = words;
    this.workers = workers;
    this.#reports = reports;
  }

  /** `size` workers that run `job` of a fixture with `options`; resolves when all wait at the gate. */
  static async hire<Report>(
    size: number,
    file: string,
    job: string,
    handle: SluiceHandle,
    options: Record<string, unknown> = {},
  ): Promise<Crew<Report>> {
    const words = new Int32Array(new SharedArrayBuffer(4 * (COUNTS + size)));
    const reports: Promise<Report>[] = [];
    const ready: Promise<void>[] = [];
    const workers = Array.from({ length: size }, (_, index) => {
      const worker = startWorker(file, { handle, job, index, size, words, ...options });
      ready.push(
        new Promise((resolve, reject) => {
          worker.on("message", (message: Message<Report>) => message.ready && resolve());
          worker.on("error", reject);
        }),
      );
      const report = new Promise<Report>((resolve, reject) => {
        worker.on("message", (message: Message<Report>) => "report" in message && resolve(message.report as Report));
        worker.on("error", reject);
        worker.on("exit", (code) => reject(new Error(`worker ${index} ended with ${code} and no report`)));
      });
      report.catch(() => {});
      reports.push(report);
      return worker;
    });
    await Promise.all(ready);
    return new Crew(words, workers, reports);
  }

  /** Opens the gate. */
  begin(): void {
    Atomics.store(this.#words, GATE, 1);
    Atomics.notify(this.#words, GATE);
  }

  /** Ends jobs that run until they are stopped. */
  stop(): void {
    Atomics.store(this.#words, STOP, 1);
  }

  /** What the workers have counted so far: never more than is true. */
  counted(): number {
    let sum = 0;
    for (let i = COUNTS; i < this.#words.length; i++) sum += Atomics.load(this.#words, i);
    return sum;
  }

  /** What each worker reported, once all have ended. */
  async reports(): Promise<Report[]> {
    const reports = await Promise.all(this.#reports);
    await Promise.all(this.workers.map((worker) => worker.terminate()));
    return reports;
  }

  async work(): Promise<Report[]> {
    this.begin();
    return this.reports();
  }
}

/** A generator of uniform integers below `n`, the same for the same seed (Marsaglia, "Xorshift RNGs", 2003). */
export function seeded(seed: number): (n: number) => number {
  let state = seed | 0 || 1;
  return (n) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % n;
  };
}

/** A new seed, printed; or the one in SLUICE_SEED. */
export function announceSeed(test: string): number {
  const seed = Number(process.env.SLUICE_SEED) || (Date.now() % 2 ** 31) || 1;
  console.log(`${test}: SLUICE_SEED=${seed}`);
  return seed;
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}

/** Runs the event loop until `isSo`. A test whose condition never comes fails by its time limit. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
}
