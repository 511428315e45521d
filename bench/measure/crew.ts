// Threads of a Piscina pool that do the same job at the same time, for a given
// time. Jobs come from a module that every thread imports. Its export `jobs`
// holds, by name, a function that makes a job for one thread. Each thread makes
// a job once, when it is first asked for it.

import type { MessagePort } from "node:worker_threads";
import { Piscina } from "piscina";
import type { Done, Ports, Task } from "../workers/crew-member.js";

const member = new URL("../workers/crew-member.js", import.meta.url).href;

export interface CrewOptions {
  /** The module of the jobs. */
  jobs: URL;
  /** What every job gets, as `workerData` would be passed. */
  context?: object;
  /** Ports of thread `me`, by name. */
  portsFor?: (me: number) => Ports;
}

/** Lets `count` threads (or processes) do a job for some time; resolves to what each of them did. */
export type WorkTogether = (job: string, count: number, lengthMs: number) => Promise<Done[]>;

export interface Crew {
  work: WorkTogether;
  dismiss(): Promise<void>;
}

/** Starts `size` threads. */
export async function hire(size: number, { jobs, context, portsFor = () => ({}) }: CrewOptions): Promise<Crew> {
  const words = new Int32Array(new SharedArrayBuffer(4));
  const pool = new Piscina({
    filename: member,
    minThreads: size,
    maxThreads: size,
    concurrentTasksPerWorker: 1,
    workerData: { jobs: jobs.href, context, words },
  });
  let arrivals = 0;
  /** Gives one task to each thread at the same time: a task begins when all have arrived. */
  const together = <T>(tasks: Omit<Task, "arrivals">[]): Promise<T[]> => {
    arrivals += tasks.length;
    return Promise.all(tasks.map((task) => {
      const transferList: MessagePort[] = Object.values(task.ports ?? {});
      return pool.run({ ...task, arrivals }, { transferList });
    }));
  };
  await together(Array.from({ length: size }, (_, me) => ({ me, ports: portsFor(me) })));
  return {
    work: (job, count, lengthMs) => together<Done>(Array.from({ length: count }, () => ({ job, lengthMs }))),
    dismiss: () => pool.destroy(),
  };
}

export interface CrewEntrant {
  name: string;
  work(size: number, lengthMs: number): Promise<Done[]>;
  /** Judges what one thread did. */
  isRight(done: Done): boolean;
}

/** Decisions a millisecond of all threads together in each round, by the number of threads. */
export type Speeds = Map<number, Float64Array>;

export interface Alternated {
  /** By the entrant's name. */
  speeds: Map<string, Speeds>;
  /** Calls admitted in all, by the entrant's name. */
  admitted: Map<string, number>;
}

export interface AlternateOptions {
  /** Numbers of threads. */
  sizes: number[];
  rounds: number;
  lengthMs: number;
}

/**
 * Entrants take turns, with each number of threads. Sizes go up in one round and
 * down in the next, so a drift cancels out.
 */
export async function alternate(
  entrants: CrewEntrant[],
  { sizes, rounds, lengthMs }: AlternateOptions,
): Promise<Alternated> {
  const speedsOf = (): Speeds => new Map(sizes.map((size) => [size, new Float64Array(rounds)]));
  const speeds = new Map(entrants.map(({ name }) => [name, speedsOf()]));
  const admitted = new Map(entrants.map(({ name }) => [name, 0]));
  // Round -1 is to warm up.
  for (let round = -1; round < rounds; round++) {
    for (let turn = 0; turn < entrants.length; turn++) {
      const { name, work, isRight } = entrants[(turn + round + 1) % entrants.length];
      for (const size of round % 2 ? sizes : sizes.toReversed()) {
        const all = await work(size, lengthMs);
        for (const done of all) {
          if (!isRight(done)) {
            const counts = `${done.admitted} of ${done.decisions} calls were admitted`;
            throw new Error(`${name}, ${size} threads: wrong answers, ${counts}`);
          }
          admitted.set(name, admitted.get(name)! + done.admitted);
        }
        if (round < 0) continue;
        speeds.get(name)!.get(size)![round] = all.reduce((sum, { decisions, ms }) => sum + decisions / ms, 0);
      }
    }
  }
  return { speeds, admitted };
}
