// What is made of a run of the benchmarks: the page, and the tables of the
// documents.

import { describe, expect, it } from "vitest";
import { type Answer, type Chart, type Run, type Sample, sampleRun } from "./sample-run.js";

const report = (file: string): string => new URL(`../report/${file}`, import.meta.url).href;
const { html }: { html(run: Run): string } = await import(report("html.js"));
const { figuresPage, readmeTable, withFigures, BEGIN, END }: {
  figuresPage(run: Run): string;
  readmeTable(run: Run): string;
  withFigures(path: string, text: string, made: string): string;
  BEGIN: string;
  END: string;
} = await import(report("readme.js"));
const { number }: { number(value: number, unit?: string): string } = await import(report("tables.js"));

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

  it("is one file that asks for nothing else and runs nothing", () => {
    expect(page.startsWith("<!doctype html>")).toBe(true);
    expect(page).not.toMatch(/<(script|link|img|iframe|object|embed|base)\b|\bsrc=|@import|url\(|\son\w+=/i);
    expect(page.replaceAll("http://www.w3.org/", "")).not.toMatch(/https?:\/\//);
    expect(
      [...page.matchAll(/href="([^"]*)"/g)].map(([, target]) => target).filter((target) => !target.startsWith("#")),
    ).toEqual([]);
  });

  it("has every link lead somewhere, and no name twice", () => {
    const ids = [...page.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const [, target] of page.matchAll(/href="#([^"]*)"/g)) expect(ids).toContain(target);
  });

  it("draws each chart for a page and for a phone, with a name for who cannot see it", () => {
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

  it("draws no number that is none", () => {
    expect(page).not.toMatch(/NaN|Infinity|undefined|\[object/);
  });

  it("says of every figure what is asked and whether it is met", () => {
    const asked = run.questions.flatMap(({ figures }) => figures).filter(({ most, least }) =>
      (most ?? least) !== undefined
    );
    expect(page).toContain(`7 of ${asked.length} figures that are asked of it are met`);
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

  it("takes names as text, whatever is in them", () => {
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

  it("has a logarithmic axis where values span too much, and says so", () => {
    const page = only(bars, [sample("sluice", 10), sample("b", 100), sample("c", 1000)]);
    const [first, second, third] = barWidths(page);
    expect(third - second).toBeCloseTo(second - first, 0);
    expect(page).toContain("ns (logarithmic)");
    expect(only(bars, [sample("sluice", 10), sample("b", 100)])).not.toContain("logarithmic");
  });

  it("bears zeros, a single value and a name of 200 characters", () => {
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

  it("begins at zero, also where a value is below it", () => {
    const [below, above] = barWidths(only(bars, [sample("sluice", -10), sample("b", 20)]));
    expect(above / below).toBeCloseTo(2, 1);
  });

  it("takes all for ours where none says so: then they are compared with one another", () => {
    const page = only(bars, [sample("check", 10), sample("peek", 25)]);
    expect(count(page, "fill=\"var(--ours-1)\"")).toBe(4);
    expect(page).not.toContain("2.50 ×");
  });

  it("marks ours by colour and says how many times ours a rival is", () => {
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

  it("places percentiles by their rarity and the most of all after them", () => {
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

  it("bears places that are names", () => {
    const page = only({ ...lines, x: { label: "runtime", scale: "band" } }, [
      sample("sluice", 1, "Node 20"),
      sample("sluice", 2, "Node 22"),
    ]);
    expect(page).toContain(">Node 22</text>");
    expect(page).not.toContain("NaN");
  });
});

describe("the tables of the documents", () => {
  it("leave out a question that is not in the run, and refuse one that lacks what they name", () => {
    const { questions, ...run } = sampleRun();
    const hot = questions.find(({ id }) => id === "hot")!;
    expect(() => readmeTable({ ...run, questions: [hot] })).toThrow(
      "the question \"hot\" has no sluice key() in admitted-precise: README.md expects one",
    );
    const samples = hot.samples.map((sample) => ({ ...sample, chart: sample.chart.replace("refused", "admitted") }));
    const table = readmeTable({ ...run, questions: [{ ...hot, samples }] });
    const own = samples.filter(({ series }) => series === "sluice key()").map(({ median }) => number(median, " ns"));
    expect(table).toContain(`| a hot key, coarse / precise clock | ${own.join(" / ")} |`);
    expect(table).not.toContain("waiter");
  });

  it("have each series of each chart, the figures and what is asked", () => {
    const run = sampleRun();
    const page = figuresPage(run);
    for (const { question, samples, figures } of run.questions) {
      expect(page).toContain(`## ${question}`);
      for (const { series } of samples) expect(page).toContain(`| ${series} |`);
      for (const { name } of figures) expect(page).toContain(`| ${name} |`);
    }
    expect(page).toContain("| at least 8 × | NOT met |");
  });

  it("have as many cells in every line", () => {
    const run = sampleRun();
    run.rivals[0].what = "a | b";
    for (const block of figuresPage(run).split("\n\n").filter((text) => text.startsWith("|"))) {
      const cells = block.split("\n").map((line) => line.replaceAll("\\|", "").split("|").length);
      expect(new Set(cells).size, block).toBe(1);
    }
  });

  it("say when the machine was not quiet or the run was small", () => {
    expect(figuresPage(sampleRun())).not.toContain("not quiet");
    expect(figuresPage({ ...sampleRun({ quiet: false }), small: true })).toMatch(
      /A small run.*The machine was not quiet \(load 1\.9 on 2 cores/,
    );
  });

  it("stand between two comments, and nowhere else", () => {
    expect(withFigures("a.md", `x\n${BEGIN}\nold\n${END}\ny`, "new")).toBe(`x\n${BEGIN}\n\nnew\n\n${END}\ny`);
    for (const text of ["", BEGIN, END, `${END}${BEGIN}`]) {
      expect(() => withFigures("a.md", text, "new")).toThrow("a.md expected <!-- figures");
    }
  });
});
