// Where and of what the figures are, and whether the machine was quiet
// meanwhile: a run on a busy machine says so, and is not called quiet.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { quartiles } from "./rounds.js";

/** Load a core at the start, above which somebody else is at work. */
const QUIET_LOAD = 0.25;
/** How far the quartiles of the same work may lie apart, as a share of its median. */
const QUIET_SPREAD = 0.15;
/** Share of the processors' time that the hypervisor may give to others. */
const QUIET_STEAL = 0.01;

const SPINS = 40;

function git(...words) {
  try {
    return execFileSync("git", words, {
      cwd: import.meta.dirname,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return undefined;
  }
}

/** About a millisecond of arithmetic that needs no memory. */
function spin() {
  let state = 20;
  for (let i = 0; i < 400_000; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
  }
  return state;
}

/** Ticks that all processors have counted, and those of them that others had; undefined where nothing counts them. */
function processorTicks() {
  let line;
  try {
    line = readFileSync("/proc/stat", "latin1").split("\n", 1)[0];
  } catch {
    return undefined;
  }
  // user nice system idle iowait irq softirq steal; what guests take is in user already.
  const ticks = line.split(/\s+/).slice(1, 9).map(Number);
  return { all: ticks.reduce((sum, each) => sum + each), stolen: ticks[7] };
}

/**
 * Watches the machine from now on. `spin()` times the same work some times:
 * call it while nothing else of ours runs. `report()` is the machine as of now.
 */
export function watchMachine() {
  const loadAtStart = loadavg().map((load) => Number(load.toFixed(2)));
  const cores = availableParallelism();
  const ticksAtStart = processorTicks();
  const spread = { worst: 0 };
  let before = [];

  const unquiet = () => {
    const reasons = [];
    if (loadAtStart[0] > QUIET_LOAD * cores) reasons.push(`load ${loadAtStart[0]} on ${cores} cores at the start`);
    if (spread.worst > QUIET_SPREAD) {
      reasons.push(`the same work took times whose quartiles lie ${percent(spread.worst)} apart`);
    }
    const ticks = processorTicks();
    const stolen = ticks ? (ticks.stolen - ticksAtStart.stolen) / Math.max(1, ticks.all - ticksAtStart.all) : 0;
    if (stolen > QUIET_STEAL) reasons.push(`${percent(stolen)} of the processors' time went to other machines`);
    return reasons.join("; ");
  };

  return {
    spin() {
      const times = [];
      for (let i = 0; i < SPINS; i++) {
        const startMs = performance.now();
        spin();
        times.push(performance.now() - startMs);
      }
      // Of this time and the last one together: a machine that has become slower meanwhile was not quiet either.
      const { lower, median, upper } = quartiles([...before, ...times]);
      if (before.length > 0) spread.worst = Math.max(spread.worst, (upper - lower) / median);
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

function percent(share) {
  return `${(100 * share).toFixed(0)} %`;
}
