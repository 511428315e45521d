// Functions: how long they are. The rule reads formatted code, where a block ends at the indentation of its beginning.

import { describe, expect, it } from "vitest";
import { assembly, type Files, linesOf, src } from "./tree.js";

const MOST = 60;

/** A function that takes a lock may be longer: a call while it is held would not be safe. */
const HOLDS_LOCK = "// Held from here: straight line only.";

const indentOf = (line: string): number => line.length - line.trimStart().length;

/** Whether a block with this header, on one line, is the body of a function. */
function isFunction(header: string): boolean {
  if (/\bfunction\b|=> \{$/.test(header)) return true;
  return /^(?:[a-z]+ )*[\w#$]+(?:<[^(]*>)?\(.*\{$/.test(header)
    && !/^(?:if|for|while|switch|catch|do|try|return|await|throw|new|yield)\b/.test(header);
}

/** The body of every function, from its name to its last brace, as lines. */
function functionsOf(text: string): { at: number; lines: string[] }[] {
  const lines = linesOf(text);
  return lines.flatMap((line, i) => {
    if (!line.endsWith("{")) return [];
    const indent = indentOf(line);
    let first = i;
    // A parameter list over several lines.
    if (/^\s*\)/.test(line)) { do first--; while (first > 0 && indentOf(lines[first]) > indent); }
    const header = lines.slice(first, i + 1).map((each) => each.trim()).join(" ");
    const end = lines.findIndex((each, j) => j > i && each.trimStart().startsWith("}") && indentOf(each) === indent);
    return isFunction(header) ? [{ at: first + 1, lines: lines.slice(first, end + 1) }] : [];
  });
}

function longFunctions(files: Files): string[] {
  return Object.entries(files).flatMap(([path, text]) =>
    functionsOf(text)
      .filter(({ lines }) => lines.length > MOST && !lines.some((line) => line.trim() === HOLDS_LOCK))
      .map(({ at, lines }) => `${path}:${at} is a function of ${lines.length} lines`)
  );
}

describe("a function", () => {
  it(`of src/ or assembly/ has at most ${MOST} lines, unless it holds a lock`, () => {
    expect(longFunctions({ ...src, ...assembly })).toEqual([]);
    const body = (count: number): string => "  a();\n".repeat(count);
    expect(longFunctions({ "a.ts": `export function f(): void {\n${body(58)}}\n` })).toEqual([]);
    for (
      const header of [
        "export function f(): void {",
        "const f = (): void => {",
        "function f(\n  a: number,\n): void {",
        "it(\"a\", () => {",
        "async f(a: number): Promise<void> {",
        "#f<T>(a: T): void {",
        "static of(\n  a: number,\n): void {",
      ]
    ) {
      const lines = 60 + header.split("\n").length;
      const text = `class A {}\n${header}\n${body(59)}}\n`;
      expect(longFunctions({ "a.ts": text }), header).toEqual([`a.ts:2 is a function of ${lines} lines`]);
    }
    for (const header of ["class A {", "if (f(a)) {", "for (const a of b()) {", "const a = {"]) {
      expect(longFunctions({ "a.ts": `${header}\n${body(100)}}\n` }), header).toEqual([]);
    }
    expect(longFunctions({ "a.ts": `function f(): void {\n${body(30)}  ${HOLDS_LOCK}\n${body(30)}}\n` })).toEqual([]);
  });

  it("is found in every file that has one", () => {
    expect(functionsOf(assembly["assembly/table/claim.ts"]).length).toBeGreaterThan(3);
    expect(functionsOf(src["src/engine/limiter/limiter.ts"]).length).toBeGreaterThan(15);
  });
});
