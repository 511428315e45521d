// Tables and numbers in the documents.

import { between, number, withTimesSign } from "./numbers.js";
import type { Figure, Run, Sample } from "./run.js";

export function markdownTable(head: string[], rows: string[][]): string {
  const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
  const line = (cells: string[]): string => `| ${cells.map(cell).join(" | ")} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? "---" : "---:"))), ...rows.map(line)].join("\n");
}

/** A figure: what was measured, with its quartiles in brackets. */
export function figureText({ measured, spread, unit = "" }: Figure): string {
  return withTimesSign(number(measured, unit)) + (spread ? ` (${between(spread)})` : "");
}

/** A sample: its median, with its quartiles in brackets if there are several measurements. */
export function sampleText({ median, lower, upper, count }: Sample, unit = ""): string {
  return number(median, unit) + (count > 1 ? ` (${between({ lower, upper })})` : "");
}

/** Where and when the run was measured. */
export function conditions({ small, machine, startedAt }: Run): string {
  const { cpu, cores, platform, node, commit, dirty, quiet, unquietBecause } = machine;
  const where = `${cpu}, ${cores} cores, ${platform}, Node ${node.slice(1)}`;
  return [
    `${where}, commit ${commit}${dirty ? " with changes" : ""}, ${startedAt.slice(0, 10)}.`,
    ...(small ? ["A small run: it shows that everything works, and its figures mean nothing."] : []),
    ...(quiet
      ? []
      : [`The machine was not quiet (${unquietBecause}): ratios hold, absolute times may be too long.`]),
  ].join(" ");
}
