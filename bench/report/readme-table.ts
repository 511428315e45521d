// The short table of README.md. A row is left out if the run has no such question,
// and an optional row if the run has no such figure.

import { conditions, figureText, markdownTable, sampleText } from "./markdown.js";
import type { Answer, Figure, Run, Sample } from "./run.js";

/** The cells of a row; undefined leaves it out. */
type Row = (run: Run) => [text: string, value: string] | undefined;

const KEY_CALL = "a hot key, `key('alice').allow()`";
const STRING_CALL = "a hot key, `allow('alice')`";
/** Everything on this chart took turns in one process, with our default clock. */
const HOT = "admitted-precise";

const answerTo = (run: Run, id: string): Answer | undefined => run.questions.find((each) => each.id === id);

const missing = (id: string, what: string): Error =>
  new Error(`the question "${id}" has no ${what}: README.md expects one`);

/** A sample of a chart of bars. */
function sampleRow(text: string, id: string, chart: string, series: string): Row {
  return (run) => {
    const answer = answerTo(run, id);
    if (answer === undefined) return undefined;
    const found = answer.samples.find((sample) => sample.chart === chart && sample.series === series);
    if (found === undefined) throw missing(id, `${series} in ${chart}`);
    return [text, sampleText(found, ` ${found.unit}`)];
  };
}

/** The quickest rival on a hot key, of those that read a clock or of those that read none. */
function quickestRow(text: string, readsClock: boolean): Row {
  return (run) => {
    const names = run.rivals.filter((rival) => (rival.readsClock ?? true) === readsClock).map(({ name }) => name);
    const samples = answerTo(run, "hot")?.samples ?? [];
    const quickest = samples
      .filter(({ chart, series }) => chart === HOT && names.includes(series))
      .sort((a, b) => a.median - b.median)
      .at(0);
    return quickest && [`${text}: ${quickest.series}`, sampleText(quickest, ` ${quickest.unit}`)];
  };
}

interface FigureRow {
  id: string;
  name: RegExp;
  /** Whether the run may lack the figure: for a rival whose toolchain may be absent. */
  isOptional?: boolean;
}

/** The figure of this name; the least if there are several. It names the rival. */
function figureRow(text: string, { id, name, isOptional = false }: FigureRow): Row {
  return (run) => {
    const answer = answerTo(run, id);
    if (answer === undefined) return undefined;
    const found = answer.figures.filter((figure) => name.test(figure.name));
    if (found.length === 0) {
      if (isOptional) return undefined;
      throw missing(id, `figure ${name}`);
    }
    const least = found.reduce((a, b): Figure => (a.measured <= b.measured ? a : b));
    const [, rival] = /: decisions\/s of ([^:,]+)/.exec(least.name) ?? [];
    return [rival === undefined ? text : `${text} ${rival}`, figureText(least)];
  };
}

/** Decisions a second among many keys, against a rival. */
function keysRow(text: string, ours: string, keys: string, rival: string, isOptional = false): Row {
  const name = new RegExp(`^sluice ${ours}, ${keys} keys, coarse clock: decisions/s of ${rival}`);
  return figureRow(text, { id: "keys", name, isOptional });
}

/** Rivals that read a clock. Their figures name no condition after the rival. */
const CLOCKED = "(?!Go)[^,]+$";
const CLOCKLESS = ".*, which reads no clock$";

const rows: Row[] = [
  sampleRow(KEY_CALL, "hot", HOT, "sluice key()"),
  sampleRow(STRING_CALL, "hot", HOT, "sluice allow(key)"),
  sampleRow(`${KEY_CALL}, coarse clock`, "hot", "admitted-coarse", "sluice key()"),
  sampleRow(`${STRING_CALL}, coarse clock`, "hot", "admitted-coarse", "sluice allow(key)"),
  quickestRow("a hot key, the quickest rival in Node that reads a clock", true),
  quickestRow("a hot key, the quickest rival that reads none", false),
  sampleRow("one `performance.now()`, which the precise clock contains", "hot", HOT, "one performance.now()"),
  keysRow("10,000 string keys, coarse clock: decisions/s, times those of", "allow", "10,000", CLOCKED),
  keysRow("1,000,000 string keys, coarse clock: decisions/s, times those of", "allow", "1,000,000", CLOCKED),
  keysRow("the same, times those of", "allow", "1,000,000", CLOCKLESS, true),
  keysRow("the same, times those of", "allow", "1,000,000", "Go", true),
  keysRow("the same in batches of 256, times those of", "allowMany, \\d+", "1,000,000", CLOCKED),
  keysRow("the same in batches of 256, times those of", "allowMany, \\d+", "1,000,000", CLOCKLESS, true),
  keysRow("the same in batches of 256, times those of", "allowMany, \\d+", "1,000,000", "Go", true),
  figureRow("bytes a key", { id: "memory", name: /^bytes a key$/ }),
  figureRow("two threads, string keys of their own, precise clock: decisions/s, times those of one thread", {
    id: "threads",
    name: /^own keys, strings, precise clock: two workers/,
  }),
  figureRow("100,000 waiters: 99 of 100 wake up late by at most", {
    id: "waiters",
    name: /^sluice wait, a key each: 99 of 100/,
  }),
  figureRow("memory of a waiter", { id: "waiters", name: /^sluice wait, a key each: bytes/ }),
];

/** Why a rival that reads no clock is cheaper, and what that costs. */
const CLOCKLESS_NOTE = `The clock is precise, the default, unless a row says coarse. fast-ratelimit is quicker on a \
hot key because it reads no clock: it counts down a number in a Map, and a timer started by the key's first call \
removes the number. That costs a timer for every key in use and a window that ends when the event loop gets to it; \
it cannot say when to retry, and admits up to twice its limit around the end of a window.`;

export function readmeTable(run: Run): string {
  const found = rows.flatMap((row) => {
    const cells = row(run);
    return cells ? [cells] : [];
  });
  const isNamed = (answer: Answer | undefined): boolean =>
    answer?.samples.some(({ series }: Sample) => series === "fast-ratelimit") ?? false;
  const notes = isNamed(answerTo(run, "hot")) ? [CLOCKLESS_NOTE] : [];
  return [conditions(run), markdownTable(["", "median (quartiles)"], found), ...notes].join("\n\n");
}
