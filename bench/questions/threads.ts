// One, two and four threads, on keys of their own and on one key. Ours, and other
// ways for threads to share limits: a thread that owns all buckets and is asked by
// messages, a map in shared memory, processes of a cluster, and other languages,
// whose threads share everything.
//
// Not every machine does twice the work with two threads: its cores may be two
// halves of one core, or busy. So the same work is also done by threads that share
// nothing, each at a table of its own. The gain of those is the machine's; the
// difference between the two is the cost of sharing.

import assert from "node:assert/strict";
import type { Sluice } from "sluice";
import { alternate, type Alternated, type CrewEntrant, hire, type Speeds, type WorkTogether } from "../measure/crew.js";
import { type Quartiles, ratio, ratioFigure, sample } from "../measure/statistics.js";
import { rival as go } from "../outside/go.js";
import { rival as guava } from "../outside/guava.js";
import { type Case, lineChart, type Question } from "../question.js";
import type { Chart, Figure, Sample, Target } from "../report/run.js";
import type { OutsideRival } from "../rivals/rival.js";
import { sharedMapFor } from "../rivals/sharedmap.js";
import type { Done, Ports } from "../workers/crew-member.js";
import { clusterJobs, hireCluster } from "../workers/flexible-cluster.js";
import { startOwner } from "../workers/message-port.js";
import { type Clock, KEYS, makeTable, order, policies, SHARED } from "../workers/thread-jobs.js";

const jobsModule = new URL("../workers/thread-jobs.js", import.meta.url);

const OWN_STRINGS = "own keys, strings";
const OWN_HOT = "own key, hot";
const REFUSED = "one key, refused";
const ADMITTED = "one key, admitted";
const charts: Record<string, string> = {
  [OWN_STRINGS]: "own-strings",
  [OWN_HOT]: "own-hot",
  [REFUSED]: "refused",
  [ADMITTED]: "admitted",
};

/** Targets for two threads, as a multiple of one. */
const targets: Record<string, Target> = {
  [OWN_STRINGS]: { least: 1.8 },
  [OWN_HOT]: { least: 1.8 },
  [REFUSED]: { least: 1.6 },
};

function scopeOf(small: boolean): { sizes: number[]; rounds: number; lengthMs: number } {
  return small ? { sizes: [1, 2], rounds: 2, lengthMs: 10 } : { sizes: [1, 2, 4], rounds: 10, lengthMs: 150 };
}
const largestOf = (small: boolean): number => Math.max(...scopeOf(small).sizes);

/** What a job is about. A rival's job is named "rival: what". */
const subjectOf = (job: string): string => job.replace(/^.*: /, "");

const entrant = (name: string, crew: { work: WorkTogether }, job: string): CrewEntrant => ({
  name,
  work: (size, lengthMs) => crew.work(job, size, lengthMs),
  isRight: ({ decisions, admitted }: Done) => subjectOf(job) === REFUSED || admitted === decisions,
});

function samplesOf(series: string, job: string, speeds: Speeds): Sample[] {
  return [...speeds].map(([size, values]) => sample(charts[subjectOf(job)], series, size, "/ms", values));
}

/** `size` threads as a multiple of one. */
const gain = (speeds: Speeds, size: number): Quartiles => ratio(speeds.get(size)!, speeds.get(1)!);

/** Nothing was lost or granted twice between the threads. */
function checkCounts(sluice: Sluice, admitted: Alternated["admitted"]): void {
  const taken = policies.plenty.burst - sluice.limiter("plenty").key(SHARED).peek().remaining;
  assert.ok(
    Math.abs(taken - admitted.get(ADMITTED)!) <= 1,
    `${ADMITTED}: ${admitted.get(ADMITTED)} times, but ${taken} were taken`,
  );
  assert.equal(admitted.get(REFUSED), policies.few.burst, "the burst of all threads together, and no more");
  assert.ok(sluice.audit().clean);
}

const ours = (clock: Clock, hasTargets: boolean): Case => async (small) => {
  const sluice = makeTable(clock);
  const sharing = await hire(largestOf(small), { jobs: jobsModule, context: { handle: sluice.handle } });
  const apart = await hire(largestOf(small), { jobs: jobsModule, context: { clock } });
  const series = `sluice, ${clock} clock`;
  const names = Object.keys(charts);
  const apartNames = [OWN_STRINGS, OWN_HOT];
  const atOwnTable = (job: string): string => `${job}, at tables of their own`;
  const { speeds, admitted } = await alternate([
    ...names.map((job) => entrant(job, sharing, job)),
    ...apartNames.map((job) => entrant(atOwnTable(job), apart, job)),
  ], scopeOf(small));
  checkCounts(sluice, admitted);
  await sharing.dismiss();
  await apart.dismiss();
  sluice.close();
  const figureOf = (name: string, target: Target = {}): Figure =>
    ratioFigure(`${name}, ${clock} clock: two workers x one`, gain(speeds.get(name)!, 2), target);
  return {
    samples: [
      ...names.flatMap((job) => samplesOf(series, job, speeds.get(job)!)),
      ...apartNames.flatMap((job) => samplesOf(`${series}, a table each`, job, speeds.get(atOwnTable(job))!)),
    ],
    figures: [
      ...names.map((job) => figureOf(job, hasTargets ? targets[job] : {})),
      ...apartNames.map((job) => figureOf(atOwnTable(job))),
    ],
  };
};

interface Beside {
  context?: object;
  portsFor?: (me: number) => Ports;
}

/** A rival's jobs beside ours on the same keys, in the same rounds. */
async function besideOurs(rivalJobs: string[], { context, portsFor }: Beside, small: boolean): Promise<Alternated> {
  const sluice = makeTable("precise");
  const crew = await hire(largestOf(small), {
    jobs: jobsModule,
    context: { handle: sluice.handle, ...context },
    ...(portsFor && { portsFor }),
  });
  const found = await alternate([OWN_STRINGS, ...rivalJobs].map((job) => entrant(job, crew, job)), scopeOf(small));
  await crew.dismiss();
  sluice.close();
  return found;
}

/** Ours as a multiple of a rival, both with one thread. */
function timesRival(name: string, { speeds }: Alternated, job: string, target?: Target): Figure {
  return ratioFigure(
    `${OWN_STRINGS}, precise clock, one thread: decisions/s of ${name}`,
    ratio(speeds.get(OWN_STRINGS)!.get(1)!, speeds.get(job)!.get(1)!),
    target,
  );
}

const owner: Case = async (small) => {
  const plenty = await startOwner(policies.plenty);
  const few = await startOwner(policies.few);
  const portsFor = (): Ports => ({
    plenty: plenty.open(),
    few: few.open(),
    serialPlenty: plenty.open(),
    serialFew: few.open(),
  });
  const jobs = [
    { series: "MessagePort, serial", job: `owner, serial: ${OWN_STRINGS}` },
    { series: "MessagePort, serial", job: `owner, serial: ${REFUSED}` },
    { series: "MessagePort, pipelined", job: `owner, pipelined: ${OWN_STRINGS}` },
    { series: "MessagePort, pipelined", job: `owner, pipelined: ${REFUSED}` },
    { series: "MessagePort, batches", job: `owner, batches: ${OWN_STRINGS}` },
  ];
  const found = await besideOurs(jobs.map(({ job }) => job), { portsFor }, small);
  const refused = jobs.filter(({ job }) => subjectOf(job) === REFUSED);
  const admitted = refused.reduce((sum, { job }) => sum + found.admitted.get(job)!, 0);
  assert.equal(admitted, policies.few.burst, "the burst of all threads together, and no more");
  await plenty.close();
  await few.close();
  return {
    samples: jobs.flatMap(({ series, job }) => samplesOf(series, job, found.speeds.get(job)!)),
    figures: [
      timesRival("MessagePort, serial", found, `owner, serial: ${OWN_STRINGS}`, { least: 300 }),
      timesRival("MessagePort, pipelined", found, `owner, pipelined: ${OWN_STRINGS}`, { least: 10 }),
      timesRival("MessagePort, batches", found, `owner, batches: ${OWN_STRINGS}`),
    ],
  };
};

const sharedmap: Case = async (small) => {
  const context = { plenty: sharedMapFor((largestOf(small) + 1) * KEYS), few: sharedMapFor(100) };
  const jobs = [OWN_STRINGS, REFUSED, ADMITTED].map((job) => `sharedmap: ${job}`);
  const found = await besideOurs(jobs, { context }, small);
  const admitted = found.admitted.get(`sharedmap: ${REFUSED}`);
  assert.equal(admitted, policies.few.burst, "the burst of all threads together, and no more");
  return {
    samples: jobs.flatMap((job) => samplesOf("sharedmap", job, found.speeds.get(job)!)),
    figures: [timesRival("sharedmap", found, `sharedmap: ${OWN_STRINGS}`)],
  };
};

const cluster: Case = async (small) => {
  const crew = await hireCluster(largestOf(small), policies);
  const { speeds, admitted } = await alternate(clusterJobs.map((job) => entrant(job, crew, job)), scopeOf(small));
  const refused = clusterJobs.filter((job) => subjectOf(job) === REFUSED);
  const sum = refused.reduce((sum, job) => sum + admitted.get(job)!, 0);
  assert.ok(sum <= policies.few.burst, `at most the burst of all processes together, got ${sum}`);
  await crew.dismiss();
  return {
    samples: clusterJobs.flatMap((job) =>
      samplesOf(`rate-limiter-flexible cluster, ${job.replace(/:.*/, "")}`, job, speeds.get(job)!)
    ),
  };
};

const outside = (rival: OutsideRival): Case => async (small) => {
  if (rival.absent() !== undefined) return { samples: [] };
  const { sizes, rounds, lengthMs } = scopeOf(small);
  const options = { threads: sizes, order, rounds, ms: lengthMs, warmUpMs: small ? 100 : 1500 };
  const found = await rival.measure("threads", options);
  return {
    samples: found.map(({ case: job, threads, values }) => sample(charts[job], rival.name, threads!, "/ms", values)),
  };
};

function chart(id: string, title: string): Chart {
  const x = { label: "threads", scale: "linear" } as const;
  return lineChart(id, title, x, { label: "decisions a millisecond", scale: "log" }, "higher");
}

export const question: Question = {
  question: "How much do one, two and four threads decide together?",
  size: (small) => `${scopeOf(small).rounds} rounds of ${scopeOf(small).lengthMs} ms each`,
  charts: [
    chart("own-strings", `${KEYS.toLocaleString("en")} string keys of each thread's own`),
    chart("own-hot", "A hot key of each thread's own"),
    chart("refused", "One key for all threads, refused"),
    chart("admitted", "One key for all threads, admitted"),
  ],
  cases: {
    precise: ours("precise", true),
    coarse: ours("coarse", false),
    owner,
    sharedmap,
    cluster,
    [go.name]: outside(go),
    [guava.name]: outside(guava),
  },
  notMeasured: [
    "more cores than this machine has: threads at tables of their own show what its cores can give",
    "threads that claim slots at the same time",
    "the owner thread's own time, which occupies a core",
  ],
};
