// Every code block of the README and of the docs runs as it stands.

import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const readme = await readFile(join(root, "README.md"), "utf8");

/** The programs of a page. */
const programsOf = (page: string) => [...page.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code]) => code);

const programs = programsOf(readme);
const pages = (await readdir(join(root, "docs"))).filter((name) => name.endsWith(".md"));
const documented = await Promise.all(
  pages.map(async (name) =>
    programsOf(await readFile(join(root, "docs", name), "utf8")).map((code, i) => [`docs/${name}`, i, code] as const)
  ),
);

describe("the documentation", () => {
  // Inside the package, where its own name resolves.
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(root, "build", "readme-"));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it.each([...programs.map((code, i) => ["README.md", i, code] as const), ...documented.flat()])(
    "%s has a program %i that runs",
    async (page, i, code) => {
      const file = join(folder, `${page.replaceAll("/", "-")}-${i}.mjs`);
      await writeFile(join(folder, "task.js"), "export default (task) => task");
      await writeFile(file, code);
      const { stderr } = await promisify(execFile)(process.execPath, [file], { timeout: 60_000 });
      expect(stderr).toBe("");
    },
  );

  it("says true things in its comments", async () => {
    // Each `expression // value` of the first program, checked on a clock that stands still.
    const [first] = programs;
    const frozen = first
      .replace("import { Sluice,", "import { ManualClock, Sluice,")
      .replace("capacity: 1_000_000 }", "capacity: 1_000_000, clock: new ManualClock() }")
      .replace(/await .*\n/, "")
      .replace(
        /^(?:const answers = )?(perUser\..*?) \/\/ (.*)$/gm,
        (_, call, said) => `console.log(JSON.stringify([${JSON.stringify(said)}, ${call}]))`,
      );
    const file = join(folder, "said.mjs");
    await writeFile(file, frozen);
    const { stdout } = await promisify(execFile)(process.execPath, [file]);
    const pairs = stdout.trim().split("\n").map((line) => JSON.parse(line) as [string, unknown]);
    expect(pairs.map(([, got]) => got)).toEqual([
      true,
      true,
      { allowed: true, limit: 200, remaining: 193, retryAfterMs: 0, resetMs: 70 },
      { 0: 1, 1: 1, 2: 1 },
    ]);
    expect(pairs[2][0]).toBe("{ allowed: true, limit: 200, remaining: 193, retryAfterMs: 0, resetMs: 70 }");
  });

  it("names only commands that package.json has", async () => {
    const { scripts } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
      scripts: Record<string, string>;
    };
    const commands = [...readme.matchAll(/npm\s+(?:run\s+)?(start|test|bench)/g)].map(([, name]) => name);
    expect(new Set(commands)).toEqual(new Set(["start", "test", "bench"]));
    for (const command of commands) expect(scripts).toHaveProperty(command);
  });
});
