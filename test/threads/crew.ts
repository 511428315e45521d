// A crew: worker threads that attach to one table, wait at a gate, begin
// together, and report what they did.

import { SHARE_ENV, Worker } from "node:worker_threads";
import type { SluiceHandle } from "sluice";
import type { Job, Member } from "./crew-member.js";

/** Flags of a job: word 0 opens the gate, word 1 ends the work, each of the others counts for one worker. */
const GATE = 0;
const STOP = 1;
const COUNTS = 2;

const TESTS = new URL("..", import.meta.url).href;
const COMPILED = new URL("../../build/test-workers/test/", import.meta.url).href;

/** Where `npm test` has put the compiled form of a file under test/: workers run it, since Node reads no TypeScript. */
export function compiled(source: URL): URL {
  return new URL(source.href.replace(TESTS, COMPILED).replace(/ts$/, "js"));
}

/** Starts a `.worker.ts` with none of the test runner's own options. */
export function startWorker(source: URL, workerData: object): Worker {
  return new Worker(compiled(source), { workerData, execArgv: [], env: SHARE_ENV, trackUnmanagedFds: false });
}

/** What a job is given besides what every member of a crew is given. */
type OptionsOf<Each extends Job> = Omit<Parameters<Each>[1], keyof Member>;
type ReportOf<Each extends Job> = Awaited<ReturnType<ReturnType<Each>>>;

interface Message<Report> {
  ready?: true;
  report?: Report;
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

  /**
   * Hires crews for the jobs of a `.worker.ts`: `size` workers that run `job` with
   * `options`. Resolves when all stand at the gate.
   */
  static of<Jobs extends Record<string, Job>>(source: URL) {
    return <Name extends keyof Jobs & string>(
      size: number,
      job: Name,
      handle: SluiceHandle,
      options: OptionsOf<Jobs[Name]>,
    ): Promise<Crew<ReportOf<Jobs[Name]>>> => Crew.#hire(size, source, { handle, job, ...options });
  }

  static async #hire<Report>(size: number, source: URL, given: object): Promise<Crew<Report>> {
    const words = new Int32Array(new SharedArrayBuffer(4 * (COUNTS + size)));
    const reports: Promise<Report>[] = [];
    const ready: Promise<void>[] = [];
    const workers = Array.from({ length: size }, (_, index) => {
      const worker = startWorker(source, { index, size, words, ...given });
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

  /** Ends the jobs that go on until the crew stops. */
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

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}

/** Runs the event loop until `isSo`. A test whose condition never comes fails by its time limit. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
}
