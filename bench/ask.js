// A question and its answer. Each case of a question runs in a fresh process
// of its own: one table in a process, as where it is used, and nothing that one
// case leaves behind (compiled code, shapes, garbage) weighs on the next.
//
// To add a question, write questions/<id>.js, which does nothing when imported
// but export this, and name it in the order of index.js:
//
//     export const question = {
//       question: 'What does one decision on a hot key cost?',
//       size: (small) => `${roundsOf(small)} rounds of 5,000 decisions`,
//       charts: [{ id: 'admitted', title: '...', kind: 'bars', x: null, y: { label: 'ns a decision', scale: 'linear' }, better: 'lower' }],
//       cases: { coarse: async (small) => ({ samples, figures }) },
//       figures: (samples) => [...],         // optional: what takes several cases to know
//       notMeasured: ['...'],
//     }
//
// A case returns samples (rounds.js, `sample`; every one names one of the
// charts) and, if it knows any, figures. `small` asks for a run that shows that
// all works, within two seconds or so, and whose figures nobody looks at.
// Entrants of one thread are timed by `interleave` of rounds.js.

import { fork } from "node:child_process";
import { totalmem } from "node:os";
import { fileURLToPath } from "node:url";

const CASE = fileURLToPath(new URL("case.js", import.meta.url));
/** The engine's own limit is for one program, and here are all rivals in one. */
const HEAP_MIB = Math.floor(totalmem() / 2 ** 21);

/** The question of this id. */
export async function load(id) {
  const { question } = await import(`./questions/${id}.js`);
  return { id, ...question };
}

/** What one case found, by a fresh process. */
function inFreshProcess(id, name, small) {
  return new Promise((resolve, reject) => {
    const child = fork(CASE, [id, name, ...(small ? ["small"] : [])], {
      execArgv: ["--expose-gc", `--max-old-space-size=${HEAP_MIB}`],
      // The C library's own threshold, but fixed: once it has grown, freed buffers stay resident and the next ones weigh nothing.
      env: { ...process.env, MALLOC_MMAP_THRESHOLD_: "131072" },
    });
    let found;
    child.on("message", (message) => (found = message));
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code === 0 && found !== undefined) resolve(found);
      else {reject(
          new Error(`${id}, ${name}: ended with ${signal ?? code}${found === undefined ? " and no answer" : ""}`),
        );}
    });
  });
}

/** Cases at a time. Of a small run nobody reads the figures. */
const lanesOf = (small) => (small ? 2 : 1);

/**
 * The answer, as it stands in the JSON (report/json.js). A case that fails is
 * named in `failed`, and the others go on. `beforeCase(name)` is called before
 * each case, `afterCase(name)` after it.
 */
export async function ask(question, { small, beforeCase, afterCase }) {
  const { id, charts, cases, notMeasured } = question;
  const startMs = performance.now();
  const found = new Map(Object.keys(cases).map((name) => [name, { samples: [], figures: [] }]));
  const failed = [];
  const waiting = [...found.keys()];
  const lane = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      beforeCase(name);
      try {
        found.set(name, await inFreshProcess(id, name, small));
      } catch (error) {
        failed.push(error.message);
      }
      afterCase(name);
    }
  };
  await Promise.all(Array.from({ length: lanesOf(small) }, lane));
  const samples = [...found.values()].flatMap((each) => each.samples);
  const figures = [...found.values()].flatMap((each) => each.figures);
  if (failed.length === 0) figures.push(...(question.figures?.(samples) ?? []));
  return {
    id,
    question: question.question,
    size: question.size(small),
    tookMs: Math.round(performance.now() - startMs),
    notMeasured,
    charts,
    samples,
    figures,
    ...(failed.length > 0 ? { failed } : {}),
  };
}
