/**
 * An app with worker threads, bundled, away from the package and its files: each
 * worker has its own copy of the library in its bundle, and they share one table.
 */
import { build, type BuildOptions } from "esbuild";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import webpack, { type Configuration } from "webpack";

const root = fileURLToPath(new URL("../..", import.meta.url));
const source = (file: string): string => join(root, "build/test-workers/test/package/bundle", file);

/** What the pool starts finds its worker file by its own path, which no bundler follows. */
const EXTERNAL = "piscina";

async function bundleWithEsbuild(outdir: string, options: BuildOptions): Promise<void> {
  const entryPoints = ["app.js", "worker.js", "task.mjs"].map(source);
  const { warnings } = await build({
    entryPoints,
    outdir,
    bundle: true,
    platform: "node",
    target: "node20",
    minify: true,
    external: [EXTERNAL],
    loader: { ".mjs": "copy" },
    logLevel: "silent",
    ...options,
  });
  expect(warnings).toEqual([]);
}

async function bundleWithWebpack(path: string, { output, ...options }: Configuration): Promise<void> {
  const stats = await promisify(
    webpack as (configuration: Configuration, done: (error: unknown, stats: webpack.Stats) => void) => void,
  )({
    target: "node20",
    entry: source("app.js"),
    externals: EXTERNAL,
    // Without this setting, webpack takes `Worker` for the browser's.
    module: { parser: { javascript: { worker: ["Worker from node:worker_threads"] } } },
    output: { path, filename: "app.js", ...output },
    ...options,
  });
  expect(stats.toJson({ all: false, errors: true, warnings: true })).toMatchObject({ errors: [], warnings: [] });
}

interface Bundle {
  name: string;
  type: "module" | "commonjs";
  make: (outdir: string) => Promise<void>;
}

const bundles: Bundle[] = [
  { name: "esbuild, ESM", type: "module", make: (outdir) => bundleWithEsbuild(outdir, { format: "esm" }) },
  {
    name: "esbuild, CommonJS",
    type: "commonjs",
    // CommonJS has no import.meta, by which the app finds its worker.
    make: (outdir) =>
      bundleWithEsbuild(outdir, {
        format: "cjs",
        define: { "import.meta.url": "ownUrl" },
        banner: { js: "const ownUrl = require('node:url').pathToFileURL(__filename).href" },
      }),
  },
  {
    name: "webpack, ESM, minified",
    type: "module",
    make: (path) =>
      bundleWithWebpack(path, {
        mode: "production",
        externalsType: "module",
        output: { module: true, chunkFormat: "module" },
        experiments: { outputModule: true },
      }),
  },
  {
    name: "webpack, CommonJS, each module evaluated from a string",
    type: "commonjs",
    make: (path) => bundleWithWebpack(path, { mode: "development", externalsType: "commonjs" }),
  },
];

describe("an app bundled with", { timeout: 60_000 }, () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-bundle-"));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it.each(bundles)(
    "$name shares exact limits among its threads, and has all that it needs",
    async ({ name, type, make }) => {
      const outdir = join(folder, name.replace(/\W+/g, "-"));
      await mkdir(join(outdir, "node_modules"), { recursive: true });
      await writeFile(join(outdir, "package.json"), JSON.stringify({ type }));
      await symlink(join(root, "node_modules", EXTERNAL), join(outdir, "node_modules", EXTERNAL));
      await make(outdir);
      expect((await readdir(outdir)).filter((file) => file.endsWith(".wasm"))).toEqual([]);

      const { stdout, stderr } = await promisify(execFile)(process.execPath, ["app.js"], {
        cwd: outdir,
        timeout: 30_000,
      });
      expect(stderr).toBe("");
      const { admitted, answered, ...report } = JSON.parse(stdout) as { admitted: number[]; answered: number[] };
      expect(admitted).toHaveLength(3);
      expect(Math.min(...admitted)).toBeGreaterThan(0);
      expect(admitted[0] + admitted[1] + admitted[2]).toBe(1_000_000);
      // Of 50 requests to each.
      expect(answered[0] + answered[1] + answered[2]).toBe(100);
      expect(report).toEqual({
        left: 0,
        attached: 4,
        attachedAfterDeaths: 1,
        isClean: true,
        doubled: 42,
        go: true,
        guava: 0,
      });
    },
  );
});
