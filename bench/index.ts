// The benchmarks: asks all questions in turn, and prints the answers in the
// terminal, as JSON and as a page. A missed target is a finding and no error; a
// case that fails is an error.
//
//     npm run bench                          everything, in about 20 minutes
//     npm run bench -- --only hot,keys       some questions
//     npm run bench -- --small               does everything still work?
//     npm run bench -- --compare old.json    what became slower?
//     npm run bench -- --figures             everything, and new figures in the documents
//
// The figures in README.md and docs/figures.md come from bench/figures.json. The
// last command measures on a quiet machine, writes that file, and fills the tables
// of both documents. `--figures bench/figures.json` only fills the tables again.

import { copyFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { ask } from "./ask.js";
import { watchMachine } from "./machine.js";
import { type Options, orRefuse, printUsage, readOptions, refuse } from "./options.js";
import { committedRun } from "./paths.js";
import { progressOf } from "./progress.js";
import { loadQuestion, order } from "./question.js";
import { compare } from "./report/compare.js";
import { writeDocuments } from "./report/documents.js";
import { html } from "./report/html.js";
import { type Answer, readRun, type Run, SCHEMA, writeRun } from "./report/run.js";
import { answerTables, figureTable, machineLines } from "./report/tables.js";
import { describeRivals } from "./rivals/index.js";

async function measure({ ids, small }: Options): Promise<Run> {
  const startedAt = new Date();
  const machine = watchMachine();
  const questions = await Promise.all(ids.map(loadQuestion));
  const progress = progressOf(questions.reduce((sum, { cases }) => sum + Object.keys(cases).length, 0));
  const answers: Answer[] = [];
  machine.spin();
  for (const question of questions) {
    const answer = await ask(question, {
      small,
      beforeCase: (name) => progress.begin(question.id, name),
      afterCase() {
        // The cases of a small run overlap, and would disturb it.
        if (!small) machine.spin();
        progress.end();
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

function printRun({ small, machine, rivals, questions }: Run): void {
  const figures = questions.flatMap(({ id, figures }) =>
    figures.map((figure) => ({ ...figure, name: `${id}: ${figure.name}` }))
  );
  console.log(`# All figures\n\n${machineLines(machine)}`);
  if (small) console.log("length   a small run: it shows that everything works, and its figures mean nothing");
  for (const { name, version, absent } of rivals) {
    console.log(`rival    ${name} ${absent === undefined ? version : `is absent: ${absent}`}`);
  }
  console.log(`\n${figureTable(figures)}`);
}

function printComparison(old: Run, run: Run, tolerance: number): void {
  const { text, isWorse } = orRefuse(() => compare(old, run, tolerance));
  console.log(`\n${text}`);
  if (isWorse) process.exitCode = 1;
}

function printFailures({ questions }: Run): void {
  const failed = questions.flatMap(({ failed = [] }) => failed);
  if (failed.length === 0) return;
  console.error(`\nfailed:\n${failed.join("\n")}`);
  process.exitCode = 1;
}

async function measureAndReport(options: Options): Promise<void> {
  const { json, html: page, compare, figures, tolerance } = options;
  const old = compare === undefined ? undefined : orRefuse(() => readRun(compare));
  const run = await measure(options);
  writeRun(json, run);
  writeFileSync(page, html(run));
  printRun(run);
  console.log(`\nThe run is in ${json}, and as a page in ${page}.`);
  if (old) printComparison(old, run, tolerance);
  printFailures(run);
  if (figures && process.exitCode !== 1) quote(json);
}

/** Makes a run the one whose figures the documents quote. */
function quote(path: string): void {
  const { small } = orRefuse(() => readRun(path));
  if (small) refuse(`"${path}" expected a whole run, got a small one`);
  if (resolve(path) !== committedRun) copyFileSync(path, committedRun);
  console.log(`Written: ${writeDocuments().join(", ")}`);
}

const options = readOptions();
const { measured, compare: old } = options;
if (options.help) printUsage();
else if (options.list) {
  for (const { id, question } of await Promise.all(order.map(loadQuestion))) {
    console.log(`${id.padEnd(10)} ${question}`);
  }
} else if (measured !== undefined && options.figures) quote(measured);
else if (measured !== undefined && old !== undefined) {
  const [before, after] = [old, measured].map((path) => orRefuse(() => readRun(path)));
  printComparison(before, after, options.tolerance);
} else await measureAndReport(options);
