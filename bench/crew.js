// Threads of a Piscina pool that do the same job at the same time, for a given
// time. Jobs come from a module of their own, which every thread imports: its
// export `jobs` holds, by name, what makes a job for one thread:
//
//     (context, me, ports) => ({ decide, count })
//
// `decide()` makes `count` decisions and returns how many were admitted, or a
// promise of it. `me` numbers the threads from 0. A job is made once a thread,
// when it is first asked for.

import { fileURLToPath } from "node:url";
import { Piscina } from "piscina";

const MEMBER = fileURLToPath(new URL("crew-member.js", import.meta.url));

/** A word that the threads share: how many have come to work, over all turns. */
export const ARRIVED = 0;

/**
 * `size` threads. `context` is theirs as `workerData` would be; `portsFor(me)`
 * gives each its own ports, by name.
 */
export async function hire(size, { jobs, context, portsFor = () => ({}) }) {
  const words = new Int32Array(new SharedArrayBuffer(4));
  const pool = new Piscina({
    filename: MEMBER,
    minThreads: size,
    maxThreads: size,
    concurrentTasksPerWorker: 1,
    workerData: { jobs: new URL(jobs).href, context, words },
  });
  let arrivals = 0;
  /** Lets as many threads have a task at the same time as there are tasks: each begins when all have come. */
  const together = (tasks) => {
    arrivals += tasks.length;
    return Promise.all(
      tasks.map((task) => pool.run({ ...task, arrivals }, { transferList: Object.values(task.ports ?? {}) })),
    );
  };
  await together(Array.from({ length: size }, (_, me) => ({ me, ports: portsFor(me) })));
  return {
    /** Lets `count` of them do a job; resolves to what each of them did: { decisions, admitted, ms }. */
    work: (job, count, lengthMs) => together(Array.from({ length: count }, () => ({ job, lengthMs }))),
    dismiss: () => pool.destroy(),
  };
}

/**
 * Entrants in turn, with as many threads as `sizes` says, in rounds: decisions
 * a millisecond of all threads together, for each round, by name and by size.
 * Sizes go up in one round and down in the next: what drifts meanwhile cancels
 * out. `work(size, lengthMs)` is a crew's, and `isRight(done)` judges what one
 * thread did.
 *
 * @param {{ name: string, work: Function, isRight: (done: { decisions: number, admitted: number }) => boolean }[]} entrants
 * @returns the speeds, and by name how many calls were admitted in all
 */
export async function alternate(entrants, { sizes, rounds, lengthMs }) {
  const speeds = new Map(
    entrants.map(({ name }) => [name, new Map(sizes.map((size) => [size, new Float64Array(rounds)]))]),
  );
  const admitted = new Map(entrants.map(({ name }) => [name, 0]));
  for (let round = -1; round < rounds; round++) {
    for (let turn = 0; turn < entrants.length; turn++) {
      const { name, work, isRight } = entrants[(turn + round + 1) % entrants.length];
      for (const size of round % 2 ? sizes : sizes.toReversed()) {
        const all = await work(size, lengthMs);
        for (const done of all) {
          if (!isRight(done)) {
            throw new Error(
              `${name}, ${size} threads: wrong answers, ${done.admitted} of ${done.decisions} calls were admitted`,
            );
          }
          admitted.set(name, admitted.get(name) + done.admitted);
        }
        // The first round is to warm up.
        if (round >= 0) {
          speeds.get(name).get(size)[round] = all.reduce((sum, { decisions, ms }) => sum + decisions / ms, 0);
        }
      }
    }
  }
  return { speeds, admitted };
}
