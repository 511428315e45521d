// Where the bench's own folder is, for a module run from its source (by
// vitest) and for the same module compiled into bench/dist.

import { basename, dirname, join } from "node:path";

const here = import.meta.dirname;

/** The folder bench/. */
export const benchFolder = basename(here) === "dist" ? dirname(here) : here;
/** The folder of the project. */
export const projectFolder = dirname(benchFolder);
/** The run whose figures the documents quote. */
export const committedRun = join(benchFolder, "figures.json");
/** Where a run goes unless the command says otherwise. */
export const latestRun = join(benchFolder, "results", "latest.json");
