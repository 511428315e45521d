// The benchmarks: all questions in turn, their answers in the terminal, as JSON
// and as a page. A figure that is not met is a finding, not an error; a case
// that fails is one.

import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { ask, load } from "./ask.js";
import { watchMachine } from "./machine.js";
import { compare } from "./report/compare.js";
import { html } from "./report/html.js";
import { readRun, RunError, SCHEMA, writeRun } from "./report/json.js";
import { answerTables, figureTable, machineLines } from "./report/tables.js";
import { describeRivals } from "./rivals/index.js";

/** Files of questions/, in the order of the report. */
const order = [
  "hot",
  "keys",
  "key-types",
  "batches",
  "memory",
  "threads",
  "waiters",
  "latency",
  "flood",
  "kinds",
  "calls",
  "http",
  "redis",
];

const options = {
  only: { type: "string" },
  small: { type: "boolean", default: false },
  json: { type: "string", default: new URL("results/latest.json", import.meta.url).pathname },
  html: { type: "string" },
  compare: { type: "string" },
  tolerance: { type: "string", default: "0.2" },
  list: { type: "boolean", default: false },
  help: { type: "boolean", default: false },
};

const usage = `npm run bench -- [options]

  --only <question>[,...]  these questions only: ${order.join(", ")}
  --small                  a run that shows that all works, of no use for its figures
  --json <file>            where the run is kept; bench/results/latest.json
  --html <file>            the same as a page; beside the JSON
  --compare <old.json>     ratios to an older run; exits 1 if a sample is worse by more than the tolerance.
                           Followed by another run's file, compares the two and measures nothing.
  --tolerance <share>      0.2
  --list                   the questions
  --help                   this`;

function refuse(message) {
  console.error(`${message}\n\n${usage}`);
  process.exit(2);
}

/** A file that is no run, or not one to compare with, is a wrong option too. */
function orRefuse(work) {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RunError)) throw error;
    refuse(error.message);
  }
}

function read() {
  let values, positionals;
  try {
    ({ values, positionals } = parseArgs({ options, allowPositionals: true }));
  } catch (error) {
    refuse(error.message);
  }
  const ids = values.only?.split(",") ?? order;
  for (const id of ids) {
    if (!order.includes(id)) refuse(`"--only" expected questions out of ${order.join(", ")}, got ${id}`);
  }
  const tolerance = Number(values.tolerance);
  if (values.tolerance.trim() === "" || !(tolerance >= 0)) {
    refuse(`"--tolerance" expected a number >= 0, got ${values.tolerance}`);
  }
  if (positionals.length > (values.compare === undefined ? 0 : 1)) {
    refuse(`expected options only, got ${positionals.at(-1)}`);
  }
  return {
    ...values,
    ids,
    tolerance,
    other: positionals[0],
    html: values.html ?? values.json.replace(/(\.json)?$/, ".html"),
  };
}

/** A line on stderr for each case: in a terminal the last line tells what is being done, and about how long the rest takes. */
function progress(total) {
  const startMs = performance.now();
  const seconds = (ms) => `${(ms / 1000).toFixed(0)} s`;
  let begun = 0;
  let done = 0;
  return {
    begin(id, name) {
      begun++;
      const elapsedMs = performance.now() - startMs;
      const rest = done > 0 ? `, about ${seconds((elapsedMs / done) * (total - done))} to go` : "";
      const line = `${id}: ${name} (${begun} of ${total}, ${seconds(elapsedMs)}`;
      process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}${rest})` : `${line})\n`);
    },
    end() {
      done++;
      if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
    },
  };
}

async function measure({ ids, small }) {
  const startedAt = new Date();
  const machine = watchMachine();
  const questions = await Promise.all(ids.map(load));
  const { begin, end } = progress(questions.reduce((sum, { cases }) => sum + Object.keys(cases).length, 0));
  const answers = [];
  machine.spin();
  for (const question of questions) {
    const answer = await ask(question, {
      small,
      beforeCase: (name) => begin(question.id, name),
      afterCase() {
        // Beside another case it would measure that.
        if (!small) machine.spin();
        end();
      },
    });
    if (small) machine.spin();
    answers.push(answer);
    console.log(`${answerTables(answer)}\n`);
  }
  return {
    schema: SCHEMA,
    startedAt: startedAt.toISOString(),
    tookMs: Date.now() - startedAt.getTime(),
    small,
    machine: machine.report(),
    rivals: describeRivals(),
    questions: answers,
  };
}

function print({ small, machine, rivals, questions }) {
  const figures = questions.flatMap(({ id, figures }) =>
    figures.map((figure) => ({ ...figure, name: `${id}: ${figure.name}` }))
  );
  console.log(`# All figures\n\n${machineLines(machine)}`);
  if (small) console.log("length   a small run: look at it to see that it works, not for its figures");
  for (const { name, version, absent } of rivals) {
    console.log(`rival    ${name} ${absent === undefined ? version : `is absent: ${absent}`}`);
  }
  console.log(`\n${figureTable(figures)}`);
}

const readOrRefuse = (path) => orRefuse(() => readRun(path));

function printComparison(old, run, tolerance) {
  const { text, isWorse } = orRefuse(() => compare(old, run, tolerance));
  console.log(`\n${text}`);
  if (isWorse) process.exitCode = 1;
}

const asked = read();
if (asked.help) console.log(usage);
else if (asked.list) {
  for (const { id, question } of await Promise.all(order.map(load))) console.log(`${id.padEnd(10)} ${question}`);
} else if (asked.other !== undefined) {
  printComparison(readOrRefuse(asked.compare), readOrRefuse(asked.other), asked.tolerance);
} else {
  const old = asked.compare === undefined ? undefined : readOrRefuse(asked.compare);
  const run = await measure(asked);
  writeRun(asked.json, run);
  writeFileSync(asked.html, html(run));
  print(run);
  console.log(`\nThe run is in ${asked.json}, and as a page in ${asked.html}.`);
  if (old) printComparison(old, run, asked.tolerance);
  const failed = run.questions.flatMap(({ failed = [] }) => failed);
  if (failed.length > 0) {
    console.error(`\nfailed:\n${failed.join("\n")}`);
    process.exitCode = 1;
  }
}
