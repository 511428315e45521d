// Every code block of the README and of the docs runs as it stands.

import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const readme = await readFile(join(root, "README.md"), "utf8");

/** The programs of a page. */
const programsOf = (page: string) => [...page.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code]) => code);

/** The headings of a page, as links name them. */
const headingsOf = (page: string) =>
  [...page.matchAll(/^#+ (.*)$/gm)].map(([, text]) =>
    text.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-")
  );

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

  it("says true things in the comments of its first program", async () => {
    // Each `expression // value`, on a clock that stands still. What follows a colon explains the value.
    const [first] = programs;
    const frozen = first
      .replace("import { Sluice,", "import { ManualClock, Sluice,")
      .replace("capacity: 1_000_000 }", "capacity: 1_000_000, clock: new ManualClock() }")
      .replace(/await .*\n/, "")
      .replace(
        /^(?:const answers = )?(perUser\..*?) \/\/ (true|Uint8Array \[.*\]|\{.*\}).*$/gm,
        (_, call, value) =>
          `console.log(JSON.stringify([${call}, ${
            value.replace("Uint8Array ", "Uint8Array.of").replace(/\[(.*)\]/, "($1)")
          }]))`,
      );
    const file = join(folder, "first.mjs");
    await writeFile(file, frozen);
    const { stdout } = await promisify(execFile)(process.execPath, [file]);
    const pairs = stdout.trim().split("\n").map((line) => JSON.parse(line) as [unknown, unknown]);
    expect(pairs).toHaveLength(5);
    for (const [got, written] of pairs) expect(got).toEqual(written);
  });

  it.each(["README.md", "CHANGELOG.md", ...pages.map((name) => `docs/${name}`)])(
    "%s links only to pages and headings that exist",
    async (page) => {
      const text = (await readFile(join(root, page), "utf8")).replace(/```[\s\S]*?```/g, "");
      for (const [, path, heading] of text.matchAll(/\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)/g)) {
        const target = await readFile(path ? join(root, dirname(page), path) : join(root, page), "utf8");
        if (heading) expect(headingsOf(target)).toContain(heading);
      }
    },
  );

  it("names only commands that package.json has", async () => {
    const { scripts } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
      scripts: Record<string, string>;
    };
    const commands = [...readme.matchAll(/npm\s+(?:run\s+)?(start|test|bench)/g)].map(([, name]) => name);
    expect(new Set(commands)).toEqual(new Set(["start", "test", "bench"]));
    for (const command of commands) expect(scripts).toHaveProperty(command);
  });
});
