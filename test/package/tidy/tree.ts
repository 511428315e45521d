// The tree as the house rules see it: text by path, and what imports what.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../..", import.meta.url));

/** Text by path from the root, with forward slashes. */
export type Files = Record<string, string>;

/** The files that git knows or would take, whose path matches. */
export function filesOf(pattern: RegExp): Files {
  const list = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { cwd: root, encoding: "utf8" });
  const paths = list.split("\n").filter((path) => pattern.test(path) && existsSync(`${root}/${path}`));
  return Object.fromEntries(paths.map((path) => [path, readFileSync(`${root}/${path}`, "utf8")]));
}

/** The one source that the build writes, which git does not know. */
const GENERATED = "src/engine/table/kernel-binary.ts";

export const src: Files = { ...filesOf(/^src\/.*\.ts$/), [GENERATED]: "// Generated." };
export const assembly = filesOf(/^assembly\/.*\.ts$/);
export const tests = filesOf(/^test\/.*\.m?[jt]s$/);
export const programs = filesOf(/^(bench|examples)\/.*\.m?[jt]s$/);

/** The lines of a file, a newline at its end not counted. */
export const linesOf = (text: string): string[] => text.trimEnd().split("\n");

/** What a file imports, by the names that it gives. */
export function importsOf(text: string): string[] {
  const statements = text.matchAll(
    /^\s*(?:import|export)\b[^'"`]*?\bfrom\s+['"]([^'"]+)['"]|^\s*import\s+['"]([^'"]+)['"]/gm,
  );
  const calls = text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)/g);
  return [...statements, ...calls].map((match) => match[1] ?? match[2]);
}

/** The paths of what a file imports by a relative name; one without an ending is AssemblyScript's. */
export function localImports(path: string, text: string): string[] {
  return importsOf(text).filter((name) => name.startsWith(".")).map((name) =>
    posix.join(posix.dirname(path), name).replace(/\.js$|(?<!\.ts)$/, ".ts")
  );
}
