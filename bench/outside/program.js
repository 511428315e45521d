// Programs in other languages: built when their source is new, told what to
// measure, and read line by line.

import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const BUILD = join(import.meta.dirname, "build");

/** The output of a command, or undefined where there is none such. */
export function outputOf(command, args) {
  try {
    return execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return undefined;
  }
}

/** The folder of what `build(folder)` makes of `source`: made once for each state of it. */
export function built(source, build) {
  const folder = join(BUILD, createHash("sha256").update(readFileSync(source)).digest("hex").slice(0, 16));
  if (existsSync(folder)) return folder;
  mkdirSync(BUILD, { recursive: true });
  const unfinished = mkdtempSync(`${folder}-`);
  try {
    build(unfinished);
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    // Another case, under way at the same time, was quicker.
    if (existsSync(folder)) return folder;
    throw new Error(`${source} cannot be built: ${error.message}`);
  }
  return folder;
}

/**
 * What each round of a program found, by case and threads: `[{ case, threads?,
 * unit, values }]`. The program is given `args(drawsFile)`; the file holds
 * `order`, numbers of keys.
 */
export async function roundsOf(command, args, order) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    const draws = join(folder, "draws");
    writeFileSync(draws, order ?? new Uint32Array());
    const { stdout } = await promisify(execFile)(command, args(draws), { maxBuffer: 2 ** 28 });
    const found = new Map();
    for (const line of stdout.trim().split("\n")) {
      const { case: name, threads, ns, perMs } = JSON.parse(line);
      const id = `${name} ${threads}`;
      if (!found.has(id)) found.set(id, { case: name, threads, unit: ns === undefined ? "/ms" : "ns", values: [] });
      found.get(id).values.push(ns ?? perMs);
    }
    return [...found.values()];
  } finally {
    rmSync(folder, { recursive: true });
  }
}
