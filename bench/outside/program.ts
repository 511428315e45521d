// Programs in other languages: built when their source is new, started with what
// to measure, and read line by line.

import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { benchFolder } from "../paths.js";
import type { OutsideRounds } from "../rivals/rival.js";

const outsideFolder = join(benchFolder, "outside");
const buildFolder = join(outsideFolder, "build");

/** The files of a program's source, by their paths in outside/. */
export const sourcesOf = (...paths: string[]): string[] => paths.map((path) => join(outsideFolder, path));

/** What a command prints; undefined if there is no such command. */
export function outputOf(command: string, args: string[]): string | undefined {
  try {
    return execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return undefined;
  }
}

/** The folder with what `build(folder)` makes of the sources. It is built once for each state of the sources. */
export function built(sources: string[], build: (folder: string) => void): string {
  const hash = createHash("sha256");
  for (const source of sources) hash.update(readFileSync(source));
  const folder = join(buildFolder, hash.digest("hex").slice(0, 16));
  if (existsSync(folder)) return folder;
  mkdirSync(buildFolder, { recursive: true });
  const unfinished = mkdtempSync(`${folder}-`);
  try {
    build(unfinished);
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    // Another case that ran at the same time was quicker.
    if (existsSync(folder)) return folder;
    throw new Error(`${sources[0]} cannot be built: ${(error as Error).message}`);
  }
  return folder;
}

/** One line of a program's output: one round. */
interface Line {
  case: string;
  threads?: number;
  ns?: number;
  perMs?: number;
}

/**
 * Starts a program with `args(drawsFile)`, where the file holds `order`, and
 * collects its rounds by case and threads.
 */
export async function roundsOf(
  command: string,
  args: (drawsFile: string) => string[],
  order: Uint32Array = new Uint32Array(),
): Promise<OutsideRounds[]> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    const drawsFile = join(folder, "draws");
    writeFileSync(drawsFile, order);
    const { stdout } = await promisify(execFile)(command, args(drawsFile), { maxBuffer: 2 ** 28 });
    const found = new Map<string, OutsideRounds>();
    for (const text of stdout.trim().split("\n")) {
      const line = JSON.parse(text) as Line;
      const id = `${line.case} ${line.threads}`;
      let rounds = found.get(id);
      if (rounds === undefined) {
        rounds = { case: line.case, threads: line.threads, unit: line.ns === undefined ? "/ms" : "ns", values: [] };
        found.set(id, rounds);
      }
      rounds.values.push((line.ns ?? line.perMs)!);
    }
    return [...found.values()];
  } finally {
    rmSync(folder, { recursive: true });
  }
}
