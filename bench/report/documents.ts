// The figures in the documents: a short table in README.md, all tables in
// docs/figures.md. Both come from bench/figures.json, and stand between two
// comments.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { committedRun, projectFolder } from "../paths.js";
import { figuresPage } from "./figures-page.js";
import { readmeTable } from "./readme-table.js";
import { readRun } from "./run.js";

export const BEGIN = "<!-- figures: from bench/figures.json, by npm run bench -- --figures -->";
export const END = "<!-- /figures -->";

/** `text` with `tables` between the two comments. */
export function withFigures(path: string, text: string, tables: string): string {
  const from = text.indexOf(BEGIN);
  const to = text.indexOf(END);
  if (from < 0 || to < from) throw new Error(`${path} expected ${BEGIN} and then ${END}`);
  return `${text.slice(0, from)}${BEGIN}\n\n${tables}\n\n${text.slice(to)}`;
}

export interface Document {
  /** From the project's folder. */
  path: string;
  text: string;
  /** The text with the figures of the committed run. */
  expected: string;
}

export function documents(): Document[] {
  const run = readRun(committedRun);
  return [{ path: "README.md", make: readmeTable }, { path: "docs/figures.md", make: figuresPage }].map(
    ({ path, make }) => {
      const text = readFileSync(join(projectFolder, path), "utf8");
      return { path, text, expected: withFigures(path, text, make(run)) };
    },
  );
}

/** Writes the figures into the documents; returns their paths. */
export function writeDocuments(): string[] {
  return documents().map(({ path, expected }) => {
    writeFileSync(join(projectFolder, path), expected);
    return path;
  });
}
