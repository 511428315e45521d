// The declarations that users see: no internal type, and a program that uses them.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

interface Package {
  exports: Record<string, string | { types: string }>;
}

/** The declarations that `entry` refers to, itself included, by path from the root; the first that refers to each. */
function closure(entry: string, seen = new Map<string, string>(), from = "package.json"): Map<string, string> {
  if (seen.has(entry)) return seen;
  seen.set(entry, from);
  for (const [, path] of readFileSync(root + entry, "utf8").matchAll(/(?:\bfrom\s+|\bimport\()["'](\.[^"']+)["']/g)) {
    closure(posix.join(posix.dirname(entry), path.replace(/\.js$/, ".d.ts")), seen, entry);
  }
  return seen;
}

/** The internal types that a declaration names, comments aside. */
function internalsIn(text: string): string[] {
  const names = /\b(Policy|Table|Kernel\w*|Bucket|Scratch|Waiters|Segment|RedisPolicy|RedisKind|Buckets)\b/g;
  return [...new Set(text.replace(/\/\*[\s\S]*?\*\//g, "").match(names))];
}

describe("the declarations", () => {
  const { exports }: Package = JSON.parse(readFileSync(`${root}package.json`, "utf8"));
  const entries = Object.values(exports).flatMap((target) => typeof target === "string" ? [] : [target.types]);

  it.each(entries)("of %s name no internal type", (entry) => {
    const found = [...closure(posix.normalize(entry))].flatMap(([path, from]) =>
      internalsIn(readFileSync(root + path, "utf8")).map((name) => `${path} names ${name} (seen from ${from})`)
    );
    expect(found).toEqual([]);
  });

  it("are seen to name one", () => {
    expect(internalsIn("import type { Policy } from './policy.js'; /** A Table. */ export type A = Policy")).toEqual([
      "Policy",
    ]);
    expect([...closure("dist/index.d.ts").keys()]).toContain("dist/engine/limiter/limiter.d.ts");
  });

  it("hold for a user's program, without skipLibCheck", async () => {
    const run = promisify(execFile)(process.execPath, [
      `${root}node_modules/typescript/bin/tsc`,
      ...["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--skipLibCheck", "false", "--ignoreConfig"],
      ...["--target", "es2022", "--lib", "es2022,esnext.disposable", "--module", "nodenext", "--types", "node"],
      "test/package/consumer.ts",
    ], { cwd: root });
    const { stdout } = await run.catch((error: { stdout: string }) => error);
    expect(stdout.split("\n").filter((line) => /^(dist|test)\//.test(line))).toEqual([]);
  }, 60_000);
});
