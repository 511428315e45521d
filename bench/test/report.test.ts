// The page that is made of a run of the benchmarks.

import { describe, expect, it } from "vitest";
import { html } from "../report/html.js";
import { hasTarget, number } from "../report/numbers.js";
import type { Answer, Chart, Run, Sample } from "../report/run.js";
import { sampleRun } from "./sample-run.js";

const count = (text: string, part: string | RegExp): number => text.split(part).length - 1;
const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("'", "&#39;").replaceAll(
    "\"",
    "&quot;",
  );
const allCharts = (run: Run): Chart[] => run.questions.flatMap(({ charts }) => charts);

/** The page of a run with just this chart. */
function only(chart: Chart, samples: Sample[]): string {
  const run = sampleRun();
  const answer: Answer = { ...run.questions[0], charts: [chart], samples, figures: [] };
  return html({ ...run, questions: [answer] });
}
const bars: Chart = {
  id: "a",
  title: "A",
  kind: "bars",
  x: null,
  y: { label: "ns", scale: "linear" },
  better: "lower",
};
const sample = (series: string, median: number, x: Sample["x"] = null): Sample => ({
  chart: "a",
  series,
  x,
  unit: "ns",
  median,
  lower: median * 0.9,
  upper: median * 1.1,
  count: 3,
});
/** The widths of the bars of the first drawing. */
const barWidths = (page: string): number[] =>
  [...page.slice(page.indexOf("aria-label=\"bar\"")).split("</g>")[0].matchAll(/ width="([\d.]+)"/g)].map(([, width]) =>
    Number(width)
  );

describe("the page of a run", () => {
  const run = sampleRun();
  const page = html(run);

  it("is one file that loads nothing else and runs no script", () => {
    expect(page.startsWith("<!doctype html>")).toBe(true);
    expect(page).not.toMatch(/<(script|link|img|iframe|object|embed|base)\b|\bsrc=|@import|url\(|\son\w+=/i);
    expect(page.replaceAll("http://www.w3.org/", "")).not.toMatch(/https?:\/\//);
    expect(
      [...page.matchAll(/href="([^"]*)"/g)].map(([, target]) => target).filter((target) => !target.startsWith("#")),
    ).toEqual([]);
  });

  it("has a target for every link, and no id twice", () => {
    const ids = [...page.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const [, target] of page.matchAll(/href="#([^"]*)"/g)) expect(ids).toContain(target);
  });

  it("draws each chart for a page and for a phone, with a name for screen readers", () => {
    expect(count(page, /<svg[^>]* role="img"/)).toBe(2 * allCharts(run).length);
    expect(count(page, /<svg aria-label="[^"]+; the table below has the values" role="img"/)).toBe(
      2 * allCharts(run).length,
    );
  });

  it("has all values in tables", () => {
    for (const { samples } of run.questions) {
      for (const { series, unit, median, lower, upper } of samples) {
        expect(page).toContain(`<th scope="row">${escaped(series)}</th>`);
        expect(page).toContain(
          `<td class="value">${number(median, ` ${unit}`)}</td><td class="value">${
            number(lower)
          }</td><td class="value">${number(upper)}</td>`,
        );
      }
    }
    expect(count(page, "<details>")).toBe(allCharts(run).length);
  });

  it("contains no NaN, Infinity or undefined", () => {
    expect(page).not.toMatch(/NaN|Infinity|undefined|\[object/);
  });

  it("shows every target, and whether it is met", () => {
    const targets = run.questions.flatMap(({ figures }) => figures).filter(hasTarget);
    expect(page).toContain(`7 of ${targets.length} targets are met`);
    // Once in the summary, once with their question.
    expect(count(page, "NOT met")).toBe(2);
    expect(count(page, "met, within the spread")).toBe(4);
  });

  it("names the rivals with their versions, and why one is absent", () => {
    for (const { name, version, absent } of run.rivals) {
      expect(page).toContain(`<th scope="row">${escaped(name)}</th>`);
      expect(page).toContain(escaped(absent ?? version!));
    }
  });

  it("says what was not measured, and which case failed", () => {
    for (const { notMeasured, failed = [] } of run.questions) {
      for (const text of [...notMeasured, ...failed]) expect(page).toContain(escaped(text));
    }
  });

  it("warns of a machine that was not quiet and of a small run, and of nothing else", () => {
    const quiet = html({ ...run, questions: run.questions.slice(0, 1) });
    expect(quiet).not.toContain("class=\"warning\"");
    const noisy = html({ ...sampleRun({ quiet: false }), small: true });
    expect(noisy).toContain("The machine was not quiet:</strong> load 1.9 on 2 cores");
    expect(noisy).toContain("A small run.");
  });

  it("escapes names", () => {
    const hostile = "<script>alert(\"&\")</script>";
    const page = only({ ...bars, title: hostile, y: { label: hostile, scale: "linear" } }, [
      sample(hostile, 1),
      sample("sluice", 2),
    ]);
    // In quotes it opens nothing.
    expect(page.replace(/="[^"]*"/g, "").includes("<script")).toBe(false);
    expect(page).toContain("&lt;script&gt;");
  });
});

describe("a chart of bars", () => {
  it("has a bar for each series, the best first", () => {
    const page = only(bars, [sample("b", 30), sample("sluice", 10), sample("c", 20)]);
    const [first, second, third, ...others] = barWidths(page);
    expect(others).toEqual([]);
    expect(second / first).toBeCloseTo(2, 1);
    expect(third / first).toBeCloseTo(3, 1);
    const higher = barWidths(
      only({ ...bars, better: "higher" }, [sample("b", 30), sample("sluice", 10), sample("c", 20)]),
    );
    expect(higher[0]).toBeGreaterThan(higher[1]);
  });

  it("has a logarithmic axis if values span too much, and says so", () => {
    const page = only(bars, [sample("sluice", 10), sample("b", 100), sample("c", 1000)]);
    const [first, second, third] = barWidths(page);
    expect(third - second).toBeCloseTo(second - first, 0);
    expect(page).toContain("ns (logarithmic)");
    expect(only(bars, [sample("sluice", 10), sample("b", 100)])).not.toContain("logarithmic");
  });

  it("draws zeros, a single value and a name of 200 characters", () => {
    for (
      const samples of [[sample("sluice", 0)], [sample("sluice", 0), sample("b", 0)], [sample("sluice", 1)], [
        sample("n".repeat(200), 1),
      ]]
    ) {
      const page = only(bars, samples);
      expect(/NaN|Infinity|(?:height|width)="-/.exec(page)).toBeNull();
      expect(barWidths(page)).toHaveLength(samples.length);
    }
  });

  it("has bars that begin at zero, even if a value is below it", () => {
    const [below, above] = barWidths(only(bars, [sample("sluice", -10), sample("b", 20)]));
    expect(above / below).toBeCloseTo(2, 1);
  });

  it("takes all series for ours if none says so", () => {
    const page = only(bars, [sample("check", 10), sample("peek", 25)]);
    expect(count(page, "fill=\"var(--ours-1)\"")).toBe(4);
    expect(page).not.toContain("2.50 ×");
  });

  it("marks ours by colour and shows a rival as a multiple of ours", () => {
    const page = only(bars, [sample("sluice", 10), sample("b", 25)]);
    expect(page).toContain("fill=\"var(--ours-1)\"");
    expect(page).toContain("25.0 ns  (2.50 ×)".replace("25.0", number(25)));
  });
});

describe("a chart of lines", () => {
  const lines: Chart = { ...bars, kind: "lines", x: { label: "keys", scale: "log" } };

  it("gives each series its own colour, the same in every chart of the run", () => {
    const names = ["sluice", "a", "b", "c", "d", "e", "f"];
    const page = only(lines, names.flatMap((name, i) => [1000, 10_000].map((x) => sample(name, 10 + i, x))));
    const colours = new Set([...page.matchAll(/stroke="(var\(--(?:ours|rival)-\d\))"/g)].map(([, colour]) => colour));
    expect(colours.size).toBe(names.length);
  });

  it("keeps the names at the ends of lines from covering one another", () => {
    const page = only(
      lines,
      ["sluice", "a", "b", "c"].flatMap((name) => [1000, 10_000].map((x) => sample(name, 10, x))),
    );
    const wide = page.slice(page.indexOf("class=\"wide\""), page.indexOf("class=\"narrow\""));
    const texts = [
      ...wide.matchAll(/<text[^>]*transform="translate\(([\d.]+),([\d.]+)\)"[^>]*>(sluice|a|b|c)<\/text>/g),
    ].map(([, , y]) => Number(y)).sort((a, b) => a - b);
    expect(texts).toHaveLength(4);
    for (let i = 1; i < texts.length; i++) expect(texts[i] - texts[i - 1]).toBeGreaterThanOrEqual(12);
  });

  it("places percentiles by their rarity and the maximum after them", () => {
    const page = only(
      { ...lines, kind: "percentiles", x: { label: "percentile", scale: "log" } },
      [90, 99, 99.9, 100].map((x, i) => sample("sluice", 10 * (i + 1), x)),
    );
    const [, path] = / d="(M[^"]*)"/.exec(page.slice(page.indexOf("aria-label=\"line\"")))!;
    const places = [...path.matchAll(/[ML]([\d.]+),/g)].map(([, x]) => Number(x));
    expect(places).toHaveLength(4);
    for (let i = 2; i < 4; i++) expect(places[i] - places[i - 1]).toBeCloseTo(places[1] - places[0], 0);
    expect(page).toContain(">max</text>");
  });

  it("names every place that has a value on a logarithmic axis", () => {
    const places = [1, 4, 16, 64, 256, 1024, 4096];
    const page = only(lines, places.map((x) => sample("sluice", 10, x)));
    for (const name of ["1", "4", "16", "64", "256", "1,024", "4,096"]) {
      expect(page).toContain(`y="0.71em">${name}</text>`);
    }
  });

  it("draws places that are names", () => {
    const page = only({ ...lines, x: { label: "runtime", scale: "band" } }, [
      sample("sluice", 1, "Node 20"),
      sample("sluice", 2, "Node 22"),
    ]);
    expect(page).toContain(">Node 22</text>");
    expect(page).not.toContain("NaN");
  });
});
