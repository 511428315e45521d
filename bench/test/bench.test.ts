// The benchmarks as a program: a small run of all of them, what it writes, and what
// the command says to good and bad runs, options and machines. The figures
// themselves are not tested.

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasTarget } from "../report/numbers.js";
import type { Chart, Run, Sample } from "../report/run.js";

const program = fileURLToPath(new URL("../dist/index.js", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "sluice-bench-test-"));
const small = join(folder, "small.json");

/** Runs the command, after `source` if there is one. */
function bench(args: string[], source?: string): Promise<{ code: number; stdout: string; stderr: string }> {
  const before = source === undefined ? [] : ["--import", `data:text/javascript,${encodeURIComponent(source)}`];
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [...before, program, ...args],
      { maxBuffer: 2 ** 26 },
      (error, stdout, stderr) => resolve({ code: error ? Number(error.code) : 0, stdout, stderr }),
    );
  });
}

const read = (path: string): Run => JSON.parse(readFileSync(path, "utf8"));

/** A file with the small run and other samples. */
function doctored(name: string, change: (sample: Sample, chart: Chart) => Sample): string {
  const run = read(small);
  for (const question of run.questions) {
    question.samples = question.samples.map((sample) =>
      change(sample, question.charts.find(({ id }) => id === sample.chart)!)
    );
  }
  const path = join(folder, `${name}.json`);
  writeFileSync(path, JSON.stringify(run));
  return path;
}

let whole: Awaited<ReturnType<typeof bench>>;
let run: Run;

beforeAll(async () => {
  whole = await bench(["--small", "--json", small, "--html", join(folder, "small.html")]);
  run = read(small);
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true }));

describe("a small run", () => {
  it("answers every question without a failed case", async () => {
    expect(run.questions.flatMap(({ failed = [] }) => failed)).toEqual([]);
    expect(whole.code, whole.stderr).toBe(0);
    const { stdout } = await bench(["--list"]);
    const listed = stdout.trim().split("\n").map((line) => line.split(" ")[0]);
    expect(listed.length).toBeGreaterThan(8);
    expect(run.questions.map(({ id }) => id)).toEqual(listed);
  });

  it("says when, where and of what it is, and that it is small", () => {
    expect(run).toMatchObject({ schema: 1, small: true, machine: { node: process.version } });
    expect(Date.now() - Date.parse(run.startedAt)).toBeGreaterThanOrEqual(run.tookMs);
    expect(run.tookMs).toBeGreaterThan(0);
    expect(run.machine.commit).not.toBe("");
    expect(run.machine.loadAtStart).toHaveLength(3);
    expect(whole.stdout).toMatch(/a small run: it shows that everything works/);
  });

  it("has samples for every chart, with quartiles in order", () => {
    for (const { id, charts, samples, size, notMeasured } of run.questions) {
      expect(size, id).not.toBe("");
      expect(notMeasured.length, id).toBeGreaterThan(0);
      for (const chart of charts) {
        const own = samples.filter((sample) => sample.chart === chart.id);
        expect(own.length, `${id}, ${chart.id}`).toBeGreaterThan(0);
        expect(new Set(own.map(({ unit }) => unit)).size, `${id}, ${chart.id}: units`).toBe(1);
        for (const { series, x } of own) {
          expect(x === null, `${id}, ${chart.id}, ${series}: x`).toBe(chart.kind === "bars");
        }
        expect(
          new Set(own.map(({ series, x }) => `${series} ${x}`)).size,
          `${id}, ${chart.id}: each series once at an x`,
        ).toBe(own.length);
      }
      for (const { chart, series, lower, median, upper, count } of samples) {
        const name = `${id}, ${chart}, ${series}`;
        expect(charts.map((each) => each.id), name).toContain(chart);
        for (const value of [lower, median, upper]) expect(Number.isFinite(value), `${name}: ${value}`).toBe(true);
        expect(lower, name).toBeLessThanOrEqual(median);
        expect(median, name).toBeLessThanOrEqual(upper);
        expect(count, name).toBeGreaterThan(0);
      }
    }
  });

  it("has a measured value for every figure, and a verdict for each target", () => {
    const figures = run.questions.flatMap(({ figures }) => figures);
    const targets = figures.filter(hasTarget);
    expect(targets.length).toBeGreaterThan(10);
    for (const { name, measured } of figures) expect(Number.isFinite(measured), name).toBe(true);
    const [, all] = whole.stdout.split("# All figures");
    expect(all.match(/ (met|NOT met)(, within the spread)?$/gm)).toHaveLength(targets.length);
  });

  it("measures every rival, or says why it is absent", () => {
    expect(run.rivals.length).toBeGreaterThan(8);
    const series = run.questions.flatMap(({ samples }) => samples.map((sample) => sample.series));
    for (const { name, version, absent } of run.rivals) {
      const isMeasured = series.some((each) => each === name || each.startsWith(`${name},`));
      if (absent === undefined) {
        expect(isMeasured, `${name} is measured`).toBe(true);
        expect(version, `${name}: version`).toMatch(/^own$|\d/);
      } else {
        expect(isMeasured, `${name} is absent`).toBe(false);
        expect(absent).toMatch(/\S/);
      }
    }
  });

  it("is written as a page too", () => {
    const page = readFileSync(join(folder, "small.html"), "utf8");
    expect(page).toMatch(/<html|<!doctype html>/i);
    for (const { question } of run.questions) expect(page).toContain(question);
  });
});

describe("a comparison", () => {
  const ratios = (stdout: string): number[] =>
    [...stdout.matchAll(/ (\d+\.\d{3}) +(?:yes|no)\b/g)].map((match) => Number(match[1]));
  const count = (): number => run.questions.reduce((sum, { samples }) => sum + samples.length, 0);

  it("of a run with itself is 1 everywhere", async () => {
    const { code, stdout } = await bench(["--compare", small, small]);
    expect(ratios(stdout)).toEqual(Array(count()).fill(1));
    expect(code).toBe(0);
  });

  it("fails on one sample that is worse by more than the tolerance, in the direction of its chart", async () => {
    for (const [better, factor] of [["lower", 1.3], ["higher", 1 / 1.3]] as const) {
      let changed = 0;
      const worse = doctored(
        `worse-${better}`,
        (sample, chart) => (chart.better === better && sample.median > 0 && changed++ === 0
          ? { ...sample, median: sample.median * factor }
          : sample),
      );
      expect(changed, better).toBeGreaterThan(0);
      const past = await bench(["--compare", small, worse]);
      expect(past.code, better).toBe(1);
      expect(past.stdout.match(/ WORSE$/gm), better).toHaveLength(1);
      expect(past.stdout).toContain(`1 of ${count()} samples are worse by more than 20 %`);
      expect((await bench(["--compare", small, worse, "--tolerance", "0.4"])).code, better).toBe(0);
    }
  });

  it("does not fail on a better run", async () => {
    const better = doctored(
      "better",
      (sample, chart) => ({ ...sample, median: sample.median * (chart.better === "lower" ? 0.5 : 2) }),
    );
    const { code, stdout } = await bench(["--compare", small, better]);
    expect(stdout).toMatch(/ better$/m);
    expect(code).toBe(0);
  });

  it("refuses a file that holds no run, another schema, and a small run against a full one", async () => {
    const write = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    for (
      const [path, message] of [
        [join(folder, "none.json"), /none\.json" expected a run of these benchmarks: ENOENT/],
        [write("text.json", "no JSON"), /text\.json" expected a run of these benchmarks/],
        [write("other.json", "{\"schema\":2}"), /other\.json" expected a run of schema 1, got 2/],
        [
          write("full.json", JSON.stringify({ ...run, small: false })),
          /a small run and a full one have nothing to compare/,
        ],
      ] as const
    ) {
      const { code, stderr } = await bench(["--compare", path, small]);
      expect(stderr, path).toMatch(message);
      expect(stderr, path).not.toMatch(/^ +at /m);
      expect(code, path).toBe(2);
    }
  });
});

describe("the command", () => {
  it("refuses an unknown option, question or tolerance and lists the valid ones", async () => {
    for (
      const [args, message] of [
        [["--fast"], /--fast/],
        [["--only", "hot,cold"], /"--only" expected questions out of hot, .*, got cold/],
        [["--tolerance", "much"], /"--tolerance" expected a number >= 0, got much/],
        [["hot"], /expected options only, got hot/],
        [["--figures", "--small"], /"--figures" expected a whole run/],
        [["--figures", "--only", "hot"], /"--figures" expected a whole run/],
        [["--figures", join(folder, "none.json")], /none\.json" expected a run of these benchmarks: ENOENT/],
        [["--figures", small], /small\.json" expected a whole run, got a small one/],
      ] as const
    ) {
      const { code, stdout, stderr } = await bench([...args]);
      expect(stderr, args.join(" ")).toMatch(message);
      for (
        const word of [
          "--only",
          "--small",
          "--json",
          "--html",
          "--compare",
          "--tolerance",
          "--figures",
          "--list",
          "--help",
          "hot, keys",
        ]
      ) expect(stderr).toContain(word);
      expect(stdout).toBe("");
      expect(code, args.join(" ")).toBe(2);
    }
  });

  it("does not call a run quiet if the machine was not", async () => {
    const idle = `
      import os from 'node:os'; import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module';
      os.loadavg = () => [0, 0, 0];`;
    const busy = "os.loadavg = () => [99, 99, 99]; syncBuiltinESMExports();";
    const uneven = `syncBuiltinESMExports();
      const now = performance.now.bind(performance); let late = 0, calls = 0;
      performance.now = () => now() + (late += calls++ % 4 === 0 ? 20 : 0);`;
    const shared = `const read = fs.readFileSync; let ticks = 0;
      const stat = () => 'cpu 0 0 0 ' + ++ticks * 100 + ' 0 0 0 ' + ticks * 10 + ' 0 0';
      fs.readFileSync = (path, ...rest) => path === '/proc/stat' ? stat() : read(path, ...rest);
      syncBuiltinESMExports();`;
    const causes: [source: string, reason: RegExp][] = [
      [idle + busy, /load 99 on \d+ cores at the start/],
      [idle + uneven, /quartiles lie \d+ % apart/],
      [idle + shared, /\d+ % of the processors' time went to other machines/],
    ];
    for (const [source, reason] of causes) {
      const json = join(folder, "unquiet.json");
      const { code, stdout } = await bench(["--small", "--only", "calls", "--json", json], source);
      expect(code).toBe(0);
      const { quiet, unquietBecause } = read(json).machine;
      expect(quiet).toBe(false);
      expect(unquietBecause).toMatch(reason);
      expect(stdout).toMatch(/^quiet +no: /m);
    }
    const { cores, loadAtStart, quiet, unquietBecause } = run.machine;
    if (loadAtStart[0] > 0.25 * cores) expect(quiet).toBe(false);
    expect(quiet).toBe(unquietBecause === undefined);
  });
});
