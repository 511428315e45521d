// One case of a question, in a process of its own:
// `node --expose-gc bench/dist/case.js hot "admitted, coarse" [small]` prints
// what it found, or sends it to the process that forked it.

import { loadQuestion } from "./question.js";
import { answerTables } from "./report/tables.js";

const [id = "", name = "", size] = process.argv.slice(2);
const small = size === "small";
const question = await loadQuestion(id);
if (!Object.hasOwn(question.cases, name)) {
  throw new RangeError(`"case" expected one of ${Object.keys(question.cases).join(", ")}, got ${name}`);
}
const found = { figures: [], ...(await question.cases[name]!(small)) };
if (process.send) {
  await new Promise((resolve) => process.send!(found, resolve));
} else {
  console.log(answerTables({ ...question, ...found, size: question.size(small) }));
}
// Some rivals leave timers running.
process.exit();
