// The tables that the documents get from a run of the benchmarks.

import { describe, expect, it } from "vitest";
import { BEGIN, END, withFigures } from "../report/documents.js";
import { figuresPage } from "../report/figures-page.js";
import { hasTarget, number } from "../report/numbers.js";
import { readmeTable } from "../report/readme-table.js";
import type { Run, Sample } from "../report/run.js";
import { sampleRun } from "./sample-run.js";

/** The run with these questions only. */
function only(run: Run, ...ids: string[]): Run {
  return { ...run, questions: run.questions.filter(({ id }) => ids.includes(id)) };
}

function sampleOf(run: Run, chart: string, series: string): Sample {
  const samples = run.questions.flatMap(({ samples }) => samples);
  return samples.find((each) => each.chart === chart && each.series === series)!;
}

describe("the table of README.md", () => {
  const run = sampleRun();
  const table = readmeTable(run);
  const value = (chart: string, series: string): string => {
    const { median, lower, upper } = sampleOf(run, chart, series);
    return `${number(median, " ns")} (${number(lower)} to ${number(upper)})`;
  };

  it("shows a hot key by its handle and by its string, with the default clock and with the coarse one", () => {
    for (const [call, series] of [["key('alice').allow()", "sluice key()"], ["allow('alice')", "sluice allow(key)"]]) {
      expect(table).toContain(`| a hot key, \`${call}\` | ${value("admitted-precise", series)} |`);
      expect(table).toContain(`| a hot key, \`${call}\`, coarse clock | ${value("admitted-coarse", series)} |`);
    }
    expect(table).toContain("The clock is precise, the default, unless a row says coarse.");
  });

  it("names the quickest rival that reads a clock and the one that reads none, and says why it is quicker", () => {
    expect(table).toContain(`that reads a clock: Map | ${value("admitted-precise", "Map")} |`);
    expect(table).toContain(`that reads none: fast-ratelimit | ${value("admitted-precise", "fast-ratelimit")} |`);
    expect(table).toContain("fast-ratelimit is quicker on a hot key because it reads no clock");
  });

  it("names the rival that a ratio is to: the one against which ours does worst, with and without a clock", () => {
    expect(table).toContain("| 1,000,000 string keys, coarse clock: decisions/s, times those of Map | 3.40 × (");
    expect(table).toContain("| the same, times those of fast-ratelimit | 2.10 × (");
    expect(table).toContain("| the same in batches of 256, times those of fast-ratelimit | 4.90 × (");
    expect(table).not.toContain("times those of Go");
  });

  it("leaves out a question that is not in the run, and refuses one that lacks what it names", () => {
    expect(table).not.toContain("waiter");
    expect(readmeTable(only(run, "memory"))).not.toContain("hot key");
    const hot = only(run, "hot");
    hot.questions[0].samples = hot.questions[0].samples.filter(({ chart }) => chart !== "admitted-precise");
    expect(() => readmeTable(hot)).toThrow(
      "the question \"hot\" has no sluice key() in admitted-precise: README.md expects one",
    );
    const keys = only(sampleRun(), "keys");
    keys.questions[0].figures = [];
    expect(() => readmeTable(keys)).toThrow(/the question "keys" has no figure .*10,000 keys/);
  });
});

describe("docs/figures.md", () => {
  it("has each series of each chart, each figure and its spread, and no target", () => {
    const run = sampleRun();
    const page = figuresPage(run);
    for (const { question, samples, figures } of run.questions) {
      expect(page).toContain(`## ${question}`);
      for (const { series } of samples) expect(page).toContain(`| ${series} |`);
      for (const { name } of figures) expect(page).toContain(`| ${name} |`);
    }
    const withSpread = run.questions.flatMap(({ figures }) => figures).filter(({ spread }) => spread);
    for (const { measured, spread } of withSpread) {
      expect(page).toContain(`${number(measured)} × (${number(spread!.lower)} to ${number(spread!.upper)})`);
    }
    expect(run.questions.flatMap(({ figures }) => figures).some(hasTarget)).toBe(true);
    expect(page).not.toMatch(/at least|at most|\bmet\b|asked|target/);
  });

  it("has quartiles in the tables of lines too", () => {
    const run = sampleRun();
    const { samples } = run.questions.find(({ id }) => id === "threads")!;
    for (const { median, lower, upper } of samples) {
      expect(figuresPage(run)).toContain(`${number(median)} (${number(lower)} to ${number(upper)})`);
    }
  });

  it("says what was not measured, which case failed, and which rival is absent", () => {
    const run = sampleRun();
    const page = figuresPage(run);
    for (const { notMeasured, failed = [] } of run.questions) {
      for (const text of [...notMeasured, ...failed]) expect(page).toContain(text);
    }
    expect(page).toMatch(/\| sharedmap \| absent \| .*does not run/);
  });

  it("has the same number of cells in every line of a table", () => {
    const run = sampleRun();
    run.rivals[0].what = "a | b";
    for (const block of figuresPage(run).split("\n\n").filter((text) => text.startsWith("|"))) {
      const cells = block.split("\n").map((line) => line.replaceAll("\\|", "").split("|").length);
      expect(new Set(cells).size, block).toBe(1);
    }
  });
});

describe("the tables of both", () => {
  it("say where the run was measured, and when the machine was not quiet or the run was small", () => {
    for (const make of [readmeTable, figuresPage]) {
      const text = make(sampleRun());
      expect(text).toMatch(/^AMD EPYC 9R14, 2 cores, linux x64, Node 20\.20\.2, commit abc1234, 2026-11-30\.\n/);
      expect(text).not.toContain("not quiet");
      expect(make({ ...sampleRun({ quiet: false }), small: true })).toMatch(
        /A small run.*The machine was not quiet \(load 1\.9 on 2 cores/,
      );
    }
  });

  it("stand between two comments, and nowhere else", () => {
    expect(withFigures("a.md", `x\n${BEGIN}\nold\n${END}\ny`, "new")).toBe(`x\n${BEGIN}\n\nnew\n\n${END}\ny`);
    for (const text of ["", BEGIN, END, `${END}${BEGIN}`]) {
      expect(() => withFigures("a.md", text, "new")).toThrow("a.md expected <!-- figures");
    }
  });
});
