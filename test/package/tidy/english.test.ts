// Words of an older manner of English, which a reader has to read twice. A name of a thing may have one.

import { describe, expect, it } from "vitest";
import { type Files, filesOf, linesOf } from "./tree.js";

const OLD = ["whoever", "whomever", "nobody", "those who", "but for", "manieth", "no matter", "hitherto", "thereof"];

/** This list, and what a recorded run of the bench says. */
const exempt = ["test/package/tidy/english.test.ts", "docs/figures.md"];

/** What may have one of them: a key that is called so. */
const allowed = [/"nobody"/];

const prose = filesOf(/^(?:src|assembly|test|bench|examples|docs)\/.*\.(?:ts|md)$|^[A-Z]+\.md$/);

function oldWords(files: Files): string[] {
  const pattern = new RegExp(`\\b(?:${OLD.join("|")})\\b`, "i");
  return Object.entries(files).flatMap(([path, text]) =>
    exempt.includes(path) ? [] : linesOf(text).flatMap((line, i) => {
      const found = pattern.exec(line)?.[0];
      return found && !allowed.some((name) => name.test(line)) ? [`${path}:${i + 1} says "${found}"`] : [];
    })
  );
}

describe("comments, messages and documents", () => {
  it("say things in words of today", () => {
    expect(Object.keys(prose).length).toBeGreaterThan(150);
    expect(oldWords(prose)).toEqual([]);
    expect(oldWords({ "src/a.ts": "a\n// Whoever asks first, but for the last.", "b.md": "Nobody waits." })).toEqual([
      "src/a.ts:2 says \"Whoever\"",
      "b.md:1 says \"Nobody\"",
    ]);
    expect(oldWords({ "src/a.ts": "limiter.allow(\"nobody\");" })).toEqual([]);
  });
});
