// One case of a question, by itself: `node --expose-gc bench/case.js hot coarse [small]`
// prints what it found, or sends it to whoever forked it.

import { load } from "./ask.js";
import { answerTables } from "./report/tables.js";

const [id, name, size] = process.argv.slice(2);
const question = await load(id);
if (!Object.hasOwn(question.cases, name)) {
  throw new RangeError(`"case" expected one of ${Object.keys(question.cases).join(", ")}, got ${name}`);
}
const found = { figures: [], ...(await question.cases[name](size === "small")) };
if (process.send) {
  await new Promise((resolve) => process.send(found, resolve));
} else {
  console.log(answerTables({ ...question, ...found, size: question.size(size === "small") }));
}
// Rivals have timers for their keys.
process.exit();
