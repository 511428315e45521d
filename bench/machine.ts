// Where the figures were measured, and whether the machine was quiet meanwhile. A
// run on a busy machine says so.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { quartiles } from "./measure/statistics.js";
import { benchFolder } from "./paths.js";
import type { Machine } from "./report/run.js";

/** Load a core at the start. Above it, something else is at work. */
const QUIET_LOAD = 0.25;
/** How far apart the quartiles of the same work may be, as a share of its median. */
const QUIET_SPREAD = 0.15;
/** Share of the processors' time that the hypervisor may give to other machines. */
const QUIET_STEAL = 0.01;

const SPINS = 40;

function git(...words: string[]): string | undefined {
  try {
    return execFileSync("git", words, {
      cwd: benchFolder,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return undefined;
  }
}

/** About a millisecond of arithmetic that needs no memory. */
function spin(): number {
  let state = 20;
  for (let i = 0; i < 400_000; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
  }
  return state;
}

interface Ticks {
  all: number;
  /** Ticks that the hypervisor gave to others. */
  stolen: number;
}

/** Ticks that all processors have counted; undefined where nothing counts them. */
function processorTicks(): Ticks | undefined {
  let line;
  try {
    line = readFileSync("/proc/stat", "latin1").split("\n", 1)[0];
  } catch {
    return undefined;
  }
  // user nice system idle iowait irq softirq steal; the time of guests is in user already.
  const ticks = line.split(/\s+/).slice(1, 9).map(Number);
  return { all: ticks.reduce((sum, each) => sum + each), stolen: ticks[7] };
}

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

export interface MachineWatch {
  /** Times the same work some times. Call it while nothing else of ours runs. */
  spin(): void;
  /** The machine as of now. */
  report(): Machine;
}

/** Watches the machine from now on. */
export function watchMachine(): MachineWatch {
  const loadAtStart = loadavg().map((load) => Number(load.toFixed(2)));
  const cores = availableParallelism();
  const ticksAtStart = processorTicks();
  let worstSpread = 0;
  let before: number[] = [];

  const unquiet = (): string => {
    const reasons: string[] = [];
    if (loadAtStart[0] > QUIET_LOAD * cores) reasons.push(`load ${loadAtStart[0]} on ${cores} cores at the start`);
    if (worstSpread > QUIET_SPREAD) {
      reasons.push(`the same work took times whose quartiles lie ${percent(worstSpread)} apart`);
    }
    const ticks = processorTicks();
    if (ticks && ticksAtStart) {
      const stolen = (ticks.stolen - ticksAtStart.stolen) / Math.max(1, ticks.all - ticksAtStart.all);
      if (stolen > QUIET_STEAL) reasons.push(`${percent(stolen)} of the processors' time went to other machines`);
    }
    return reasons.join("; ");
  };

  return {
    spin() {
      const times: number[] = [];
      for (let i = 0; i < SPINS; i++) {
        const startMs = performance.now();
        spin();
        times.push(performance.now() - startMs);
      }
      // Together with the previous times: a machine that has become slower meanwhile was not quiet either.
      const { lower, median, upper } = quartiles([...before, ...times]);
      if (before.length > 0) worstSpread = Math.max(worstSpread, (upper - lower) / median);
      before = times;
    },
    report() {
      const reasons = unquiet();
      const commit = git("rev-parse", "--short", "HEAD");
      return {
        cpu: [...new Set(cpus().map(({ model }) => model.trim()))].join(", "),
        cores,
        memoryGiB: Math.round(totalmem() / 2 ** 30),
        platform: `${process.platform} ${process.arch}`,
        node: process.version,
        v8: process.versions.v8,
        commit: commit ?? "unknown",
        dirty: commit === undefined || git("status", "--porcelain") !== "",
        loadAtStart,
        quiet: reasons === "",
        ...(reasons === "" ? {} : { unquietBecause: reasons }),
      };
    },
  };
}
