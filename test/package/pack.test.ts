/** The package as it is published: packed, installed into an empty project, and used from there. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { exports, peerDependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
  exports: Record<string, unknown>;
  peerDependencies: Record<string, string>;
};
/** What can be imported: 'sluice', 'sluice/go', ... */
const doors = Object.keys(exports).filter((name) => !name.endsWith(".json")).map((name) => name.replace(".", "sluice"));

let project: string;

/** Runs a program in the project. What it prints, or, if it fails, what it printed. */
async function run(file: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(file, args, { cwd: project, timeout: 60_000 }).catch((error) => error);
}

async function link(...packages: string[]): Promise<void> {
  for (const name of packages) {
    const at = join(project, "node_modules", name);
    await mkdir(dirname(at), { recursive: true });
    await symlink(join(root, "node_modules", name), at);
  }
}

describe("the package, installed", { timeout: 60_000 }, () => {
  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-pack-"));
    project = join(folder, "project");
    await mkdir(project);
    await writeFile(join(project, "package.json"), "{ \"private\": true }");
    const { stdout } = await promisify(execFile)("npm", [
      "pack",
      "--ignore-scripts",
      "--json",
      "--pack-destination",
      folder,
    ], { cwd: root });
    const [{ filename }] = JSON.parse(stdout) as { filename: string }[];
    await promisify(execFile)("npm", [
      "install",
      "--offline",
      "--ignore-scripts",
      "--no-audit",
      "--no-fund",
      join(folder, filename),
    ], { cwd: project });
  });
  afterAll(() => rm(dirname(project), { recursive: true }));

  it("needs no other package, except a sub-path that names its peer", async () => {
    const code = `for (const door of ${JSON.stringify(doors)}) {
      try {
        await import(door);
        console.log(door, 'loads');
      } catch ({ message }) {
        console.log(door, 'lacks', /^Cannot find package '(.+?)'/.exec(message)?.[1] ?? message);
      }
    }`;
    const { stdout, stderr } = await run(process.execPath, "--input-type=module", "-e", code);
    expect(stderr).toBe("");
    const peers = Object.keys(peerDependencies).join("|");
    for (const line of stdout.trim().split("\n")) expect(line).toMatch(new RegExp(`^\\S+ (loads|lacks (${peers}))$`));
    expect(stdout).toContain("sluice loads\n");
    expect(stdout).toContain("sluice/pool lacks piscina\n");
  });

  describe("beside its peers", () => {
    beforeAll(() => link(...Object.keys(peerDependencies), "@types"));

    it("gives all its sub-paths to import and to require, which are the same", async () => {
      const code = `(async () => {
        const { Sluice } = require('sluice')
        console.log(Sluice.create({ capacity: 1 }).tokenBucket('user', { rate: 1, burst: 1 }).allow('alice'))
        for (const door of ${
        JSON.stringify(doors)
      }) console.log(door, Object.keys(require(door)).length > 0, (await import(door)) === require(door))
      })()`;
      const { stdout, stderr } = await run(process.execPath, "--input-type=commonjs", "-e", code);
      expect(stderr).toBe("");
      expect(stdout.trim().split("\n")).toEqual(["true", ...doors.map((door) => `${door} true true`)]);
    });

    it.each([
      { module: "node16", moduleResolution: "node16", file: "app.mts" },
      { module: "nodenext", moduleResolution: "nodenext", file: "app.cts" },
      { module: "esnext", moduleResolution: "bundler", file: "app.ts" },
    ])(
      "has types that hold without skipLibCheck under moduleResolution $moduleResolution, for $file",
      async ({ file, ...resolution }) => {
        await writeFile(
          join(project, file),
          [
            ...doors.map((door, i) => `import * as door${i} from '${door}'`),
            `console.log(${doors.map((_, i) => `door${i}`)})`,
            "import { Sluice, type Decision } from 'sluice'",
            "const decision: Decision = Sluice.create({ capacity: 1 }).tokenBucket('user', { rate: 1, burst: 1 }).consume('alice')",
            "// @ts-expect-error: a decision is no string.",
            "export const text: string = decision",
          ].join("\n"),
        );
        const options = {
          target: "es2022",
          lib: ["es2022"],
          types: ["node"],
          strict: true,
          noEmit: true,
          skipLibCheck: false,
          ...resolution,
        };
        await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: [file] }));
        const { stdout, stderr } = await run(
          process.execPath,
          join(root, "node_modules/typescript/bin/tsc"),
          "-p",
          ".",
        );
        // What a peer's own types say wrong has another path.
        expect(stdout.split("\n").filter((line) => /^(app\.|node_modules\/sluice\/|error)/.test(line))).toEqual([]);
        expect(stderr).toBe("");
      },
    );
  });
});
