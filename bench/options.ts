// The command line of the benchmarks.

import { parseArgs } from "node:util";
import { latestRun } from "./paths.js";
import { order } from "./question.js";
import { RunError } from "./report/run.js";

const usage = `npm run bench -- [options]

  --only <question>[,...]  these questions only: ${order.join(", ")}
  --small                  a run that shows that everything works; its figures mean nothing
  --json <file>            where the run is stored; bench/results/latest.json
  --html <file>            the same as a page; next to the JSON
  --compare <old.json>     ratios to an older run; exits 1 if a sample is worse by more than the tolerance.
                           Followed by another run's file, compares the two and measures nothing.
  --tolerance <share>      0.2
  --figures                puts the run into bench/figures.json and its tables into README.md and docs/figures.md.
                           Followed by a run's file, uses that one and measures nothing.
  --list                   the questions
  --help                   this`;

export interface Options {
  /** Questions. */
  ids: readonly string[];
  small: boolean;
  json: string;
  html: string;
  /** The older run of a comparison. */
  compare?: string;
  tolerance: number;
  figures: boolean;
  list: boolean;
  help: boolean;
  /** A run that was measured before: it is compared or quoted instead of a new one. */
  measured?: string;
}

/** Ends the process with exit code 2. */
export function refuse(message: string): never {
  console.error(`${message}\n\n${usage}`);
  process.exit(2);
}

/** A file without a run, or with one that cannot be compared, is a wrong option too. */
export function orRefuse<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RunError)) throw error;
    refuse(error.message);
  }
}

function parse() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        only: { type: "string" },
        small: { type: "boolean", default: false },
        json: { type: "string" },
        html: { type: "string" },
        compare: { type: "string" },
        tolerance: { type: "string", default: "0.2" },
        figures: { type: "boolean", default: false },
        list: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    refuse((error as Error).message);
  }
}

function toleranceOf(text: string): number {
  const tolerance = Number(text);
  if (text.trim() === "" || !(tolerance >= 0)) refuse(`"--tolerance" expected a number >= 0, got ${text}`);
  return tolerance;
}

export function printUsage(): void {
  console.log(usage);
}

/** Refuses what it does not understand. */
export function readOptions(): Options {
  const { values, positionals } = parse();
  const { only, compare, figures, small } = values;
  const ids = only?.split(",") ?? order;
  for (const id of ids) {
    if (!order.includes(id)) refuse(`"--only" expected questions out of ${order.join(", ")}, got ${id}`);
  }
  if (positionals.length > (compare !== undefined || figures ? 1 : 0)) {
    refuse(`expected options only, got ${positionals.at(-1)}`);
  }
  if (figures && (small || only !== undefined || compare !== undefined)) {
    refuse("\"--figures\" expected a whole run, without --only, --small and --compare");
  }
  const json = values.json ?? latestRun;
  return {
    ...values,
    ids,
    tolerance: toleranceOf(values.tolerance),
    json,
    html: values.html ?? json.replace(/(\.json)?$/, ".html"),
    measured: positionals[0],
  };
}
