// Files and functions: how long they are, what they are called, what they say. Every rule is a function
// from files to complaints, and is seen to complain.

import { describe, expect, it } from "vitest";
import { assembly, type Files, linesOf, programs, src, tests } from "./tree.js";

function longFiles(files: Files, most: number): string[] {
  return Object.entries(files).map(([path, text]) => [path, linesOf(text).length] as const)
    .filter(([, count]) => count > most)
    .map(([path, count]) => `${path} has ${count} lines: it holds two ideas`);
}

/** A text that stands alone on its line, which no formatter can break. */
const LITERAL = /^\s*(?:return )?(["'`\/]).*\1[,;]?$/;

function wideLines(files: Files): string[] {
  return Object.entries(files).flatMap(([path, text]) =>
    linesOf(text).flatMap((line, i) =>
      line.length > 120 && !LITERAL.test(line) ? [`${path}:${i + 1} has ${line.length} columns`] : []
    )
  );
}

describe("a file", () => {
  it("of src/, assembly/, bench/ or examples/ has at most 300 lines, and one of test/ at most 650", () => {
    expect(longFiles({ ...src, ...assembly, ...programs }, 300)).toEqual([]);
    expect(longFiles(tests, 650)).toEqual([]);
    expect(longFiles({ "src/a.ts": "a\n".repeat(301), "src/b.ts": "b\n".repeat(300) }, 300)).toEqual([
      "src/a.ts has 301 lines: it holds two ideas",
    ]);
  });

  it("has lines of at most 120 columns", () => {
    expect(wideLines({ ...src, ...assembly, ...programs, ...tests })).toEqual([]);
    expect(wideLines({ "src/a.ts": `${"a".repeat(120)}\n${"a".repeat(121)}\n` })).toEqual([
      "src/a.ts:2 has 121 columns",
    ]);
  });

  it("is named by what it is about", () => {
    const forbidden = (files: Files): string[] =>
      Object.keys(files).filter((path) =>
        path.split("/").slice(1).some((part) =>
          /^(utils?|helpers?|common|types|constants|core|internals?|misc|shared)(\.|$)/i.test(part)
        )
      );
    expect(forbidden({ ...src, ...assembly, ...programs, ...tests })).toEqual([]);
    for (
      const path of [
        "src/utils.ts",
        "src/core/table.ts",
        "src/types.d.ts",
        "assembly/constants.ts",
        "test/helpers.ts",
        "src/internal/a.ts",
      ]
    ) expect(forbidden({ [path]: "" })).toEqual([path]);
    expect(forbidden({ "src/corel.ts": "" })).toEqual([]);
  });

  it("promises nothing for later", () => {
    const words = new RegExp(
      `\\b(${["TO", "FIX", "XX", "HA"].map((half, i) => half + ["DO", "ME", "X", "CK"][i]).join("|")})\\b`,
    );
    const promises = (files: Files): string[] =>
      Object.entries(files).flatMap(([path, text]) =>
        text.split("\n").flatMap((line, i) => (words.test(line) ? [`${path}:${i + 1}`] : []))
      );
    expect(promises({ ...src, ...assembly, ...programs, ...tests })).toEqual([]);
    expect(promises({ "src/a.ts": `a\n// TO${"DO"}: more` })).toEqual(["src/a.ts:2"]);
  });

  it("of src/ or assembly/ says at its head what it is, if it is more than a list of exports", () => {
    const headless = (files: Files): string[] =>
      Object.entries(files).filter(([, text]) =>
        !text.startsWith("//") && !text.startsWith("/*")
        && text.replace(/^(export|import) [^=]*?from ["'][^"']+["'];?$/gm, "").trim() !== ""
      ).map(([path]) => path);
    expect(headless({ ...src, ...assembly })).toEqual([]);
    expect(headless({ "src/a.ts": "const a = 1\n", "src/index.ts": "export { b } from './b.js'\n" })).toEqual([
      "src/a.ts",
    ]);
  });
});
