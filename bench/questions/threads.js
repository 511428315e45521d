// One, two and four threads, on keys of their own and on one key. Ours; and
// what else lets threads share limits: a thread that owns all buckets and is
// asked by messages, a map in shared memory, processes of a cluster, and other
// languages, whose threads share everything.
//
// Not every machine gives two threads twice the work of one: cores may be two
// faces of one core, or busy with something else. So the same work is also done
// by threads that share nothing, each at a table of its own. What those gain
// the machine gives; what they gain beyond the others, sharing costs.

import assert from "node:assert/strict";
import { alternate, hire } from "../crew.js";
import { rival as go } from "../rivals/go.js";
import { rival as guava } from "../rivals/guava.js";
import { startOwner } from "../rivals/message-port.js";
import { clusterJobs, hireCluster } from "../rivals/rate-limiter-flexible-cluster.js";
import { sharedMapFor } from "../rivals/sharedmap.js";
import { quartiles, ratioFigure, sample } from "../rounds.js";
import { KEYS, makeTable, order, policies, SHARED } from "../thread-jobs.js";

const JOBS = new URL("../thread-jobs.js", import.meta.url);

const OWN_STRINGS = "own keys, strings";
const OWN_HOT = "own key, hot";
const REFUSED = "one key, refused";
const ADMITTED = "one key, admitted";
const charts = { [OWN_STRINGS]: "own-strings", [OWN_HOT]: "own-hot", [REFUSED]: "refused", [ADMITTED]: "admitted" };

/** What is asked of two threads, times one. */
const asked = { [OWN_STRINGS]: { least: 1.8 }, [OWN_HOT]: { least: 1.8 }, [REFUSED]: { least: 1.6 } };

const scopeOf = (
  small,
) => (small ? { sizes: [1, 2], rounds: 2, lengthMs: 10 } : { sizes: [1, 2, 4], rounds: 10, lengthMs: 150 });
const mostOf = (small) => Math.max(...scopeOf(small).sizes);

/** What a job is about: that of a rival is "who: what". */
const subjectOf = (job) => job.replace(/^.*: /, "");
const isRightFor = (
  job,
) => (subjectOf(job) === REFUSED ? () => true : ({ decisions, admitted }) => admitted === decisions);

const entrant = (name, crew, job) => ({
  name,
  work: (size, lengthMs) => crew.work(job, size, lengthMs),
  isRight: isRightFor(job),
});

const samplesOf = (series, job, speeds) =>
  [...speeds].map(([size, values]) => sample(charts[subjectOf(job)], series, size, "/ms", values));

const ratio = (values, others) => quartiles(values.map((value, round) => value / others[round]));
const gain = (speeds, size) => ratio(speeds.get(size), speeds.get(1));

/** Nothing was lost or granted twice between the threads. */
function checkCounts(sluice, admitted) {
  const taken = policies.plenty.burst - sluice.limiter("plenty").key(SHARED).peek().remaining;
  assert.ok(
    Math.abs(taken - admitted.get(ADMITTED)) <= 1,
    `${ADMITTED}: ${admitted.get(ADMITTED)} times, but ${taken} were taken`,
  );
  assert.equal(admitted.get(REFUSED), policies.few.burst, "the burst, and no more, whoever asks");
  assert.ok(sluice.audit().clean);
}

const ours = (clock, isAsked) => async (small) => {
  const sluice = makeTable(clock);
  const sharing = await hire(mostOf(small), { jobs: JOBS, context: { handle: sluice.handle } });
  const apart = await hire(mostOf(small), { jobs: JOBS, context: { clock } });
  const series = `sluice, ${clock} clock`;
  const atOwnTable = (job) => `${job}, at tables of their own`;
  const names = Object.keys(charts);
  const { speeds, admitted } = await alternate([
    ...names.map((job) => entrant(job, sharing, job)),
    ...[OWN_STRINGS, OWN_HOT].map((job) => entrant(atOwnTable(job), apart, job)),
  ], scopeOf(small));
  checkCounts(sluice, admitted);
  await sharing.dismiss();
  await apart.dismiss();
  sluice.close();
  return {
    samples: [
      ...names.flatMap((job) => samplesOf(series, job, speeds.get(job))),
      ...[OWN_STRINGS, OWN_HOT].flatMap((job) =>
        samplesOf(`${series}, a table each`, job, speeds.get(atOwnTable(job)))
      ),
    ],
    figures: [
      ...names.map((job) =>
        ratioFigure(`${job}, ${clock} clock: two workers x one`, gain(speeds.get(job), 2), isAsked ? asked[job] : {})
      ),
      ...[OWN_STRINGS, OWN_HOT].map((job) =>
        ratioFigure(`${atOwnTable(job)}, ${clock} clock: two workers x one`, gain(speeds.get(atOwnTable(job)), 2))
      ),
    ],
  };
};

/** A rival's jobs beside ours on the same keys, in the same rounds. */
async function besideOurs(rivalJobs, { context, portsFor }, small) {
  const sluice = makeTable("precise");
  const crew = await hire(mostOf(small), { jobs: JOBS, context: { handle: sluice.handle, ...context }, portsFor });
  const { speeds, admitted } = await alternate(
    [OWN_STRINGS, ...rivalJobs].map((job) => entrant(job, crew, job)),
    scopeOf(small),
  );
  await crew.dismiss();
  sluice.close();
  return { speeds, admitted };
}

const timesOurs = (name, speeds, job, asked) =>
  ratioFigure(
    `${OWN_STRINGS}, precise clock, one thread: decisions/s of ${name}`,
    ratio(speeds.get(OWN_STRINGS).get(1), speeds.get(job).get(1)),
    asked,
  );

async function owner(small) {
  const plenty = await startOwner(policies.plenty);
  const few = await startOwner(policies.few);
  const portsFor = () => ({
    plenty: plenty.open(),
    few: few.open(),
    serialPlenty: plenty.open(),
    serialFew: few.open(),
  });
  const ways = {
    "MessagePort, serial": "owner, serial",
    "MessagePort, pipelined": "owner, pipelined",
    "MessagePort, batches": "owner, batches",
  };
  const jobs = Object.entries(ways).flatMap(([series, way]) =>
    (way === "owner, batches" ? [OWN_STRINGS] : [OWN_STRINGS, REFUSED]).map((job) => ({
      series,
      job: `${way}: ${job}`,
    }))
  );
  const { speeds, admitted } = await besideOurs(jobs.map(({ job }) => job), { portsFor }, small);
  const refused = jobs.filter(({ job }) => subjectOf(job) === REFUSED);
  assert.equal(
    refused.reduce((sum, { job }) => sum + admitted.get(job), 0),
    policies.few.burst,
    "the burst, and no more, whoever asks",
  );
  await plenty.close();
  await few.close();
  return {
    samples: jobs.flatMap(({ series, job }) => samplesOf(series, job, speeds.get(job))),
    figures: [
      timesOurs("MessagePort, serial", speeds, `owner, serial: ${OWN_STRINGS}`, { least: 300 }),
      timesOurs("MessagePort, pipelined", speeds, `owner, pipelined: ${OWN_STRINGS}`, { least: 10 }),
      timesOurs("MessagePort, batches", speeds, `owner, batches: ${OWN_STRINGS}`),
    ],
  };
}

async function sharedmap(small) {
  const context = { plenty: sharedMapFor((mostOf(small) + 1) * KEYS), few: sharedMapFor(100) };
  const jobs = [OWN_STRINGS, REFUSED, ADMITTED].map((job) => `sharedmap: ${job}`);
  const { speeds, admitted } = await besideOurs(jobs, { context }, small);
  assert.equal(admitted.get(`sharedmap: ${REFUSED}`), policies.few.burst, "the burst, and no more, whoever asks");
  return {
    samples: jobs.flatMap((job) => samplesOf("sharedmap", job, speeds.get(job))),
    figures: [timesOurs("sharedmap", speeds, `sharedmap: ${OWN_STRINGS}`)],
  };
}

async function cluster(small) {
  const crew = await hireCluster(mostOf(small), policies);
  const { speeds, admitted } = await alternate(clusterJobs.map((job) => entrant(job, crew, job)), scopeOf(small));
  const refused = clusterJobs.filter((job) => subjectOf(job) === REFUSED);
  const most = refused.reduce((sum, job) => sum + admitted.get(job), 0);
  assert.ok(most <= policies.few.burst, `at most the burst, whoever asks, got ${most}`);
  await crew.dismiss();
  return {
    samples: clusterJobs.flatMap((job) =>
      samplesOf(`rate-limiter-flexible cluster, ${job.replace(/:.*/, "")}`, job, speeds.get(job))
    ),
  };
}

const outside = (rival) => async (small) => {
  if (rival.absent() !== undefined) return { samples: [] };
  const { sizes, rounds, lengthMs } = scopeOf(small);
  const found = await rival.measure("threads", {
    threads: sizes,
    order,
    rounds,
    ms: lengthMs,
    warmUpMs: small ? 100 : 1500,
  });
  return {
    samples: found.map(({ case: job, threads, values }) => sample(charts[job], rival.name, threads, "/ms", values)),
  };
};

const chart = (id, title) => ({
  id,
  title,
  kind: "lines",
  x: { label: "threads", scale: "linear" },
  y: { label: "decisions a millisecond", scale: "log" },
  better: "higher",
});

export const question = {
  question: "What do one, two and four threads decide together?",
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
    "a machine with more cores than threads, unless threads at tables of their own gain nearly as much as there are threads",
    "threads that claim slots at the same time",
    "the owner thread's own time, which is a core's that others lack",
  ],
};
