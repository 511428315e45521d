// The house rules that a machine can check (see what each test says). Every
// rule is a function from files to complaints, and is seen to complain.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, posix, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { kinds } from "../../src/engine/policy/kinds.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Text by path from the root, with forward slashes. */
type Files = Record<string, string>;

function filesUnder(folder: string, pattern: RegExp): Files {
  const files: Files = {};
  for (
    const entry of readdirSync(new URL(`../../${folder}/`, import.meta.url), { recursive: true, withFileTypes: true })
  ) {
    const path = relative(root, `${entry.parentPath}/${entry.name}`).replaceAll("\\", "/");
    if (entry.isFile() && pattern.test(path)) files[path] = readFileSync(`${root}/${path}`, "utf8");
  }
  return files;
}

const src = filesUnder("src", /\.ts$/);
const assembly = filesUnder("assembly", /\.ts$/);
const tests = filesUnder("test", /\.(ts|js)$/);

interface Package {
  type?: string;
  engines?: Record<string, string>;
  dependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
  peerDependenciesMeta?: Record<string, { optional?: boolean }>;
  devDependencies?: Record<string, string>;
  exports?: Record<string, string | Record<string, string>>;
}

const own: Package = JSON.parse(readFileSync(`${root}/package.json`, "utf8"));

// --- storeys ------------------------------------------------------------------

/** The rooms of src/, from the ground up; one line is one storey. A file sees its own room and the storeys below. */
const storeys: readonly (readonly string[])[] = [
  ["engine"],
  ["engine/table"],
  ["engine/policy"],
  ["engine/bucket"],
  ["engine/waiting"],
  ["engine/limiter"],
  ["compat", "http", "redis", "stores", "fetch.ts", "pool.ts", "metrics.ts"],
  ["index.ts"],
];
const edge = storeys.length - 2;

/** The storey of a file in src/: that of the innermost folder which has one. -1 if it has none. */
function storeyOf(path: string): number {
  for (let place = posix.relative("src", path); place !== "."; place = posix.dirname(place)) {
    const storey = storeys.findIndex((rooms) => rooms.includes(place));
    if (storey >= 0) return storey;
  }
  return -1;
}

function importsOf(text: string): string[] {
  return [
    ...text.matchAll(
      /^\s*(?:import|export)\b[^'"`]*?\bfrom\s+['"]([^'"]+)['"]|^\s*import\s+['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)/gm,
    ),
  ].map((match) => match[1] ?? match[2] ?? match[3]);
}

function localImports(path: string, text: string): string[] {
  return importsOf(text).filter((name) => name.startsWith(".")).map((name) =>
    posix.join(posix.dirname(path), name).replace(/\.js$/, ".ts")
  );
}

function homeless(files: Files): string[] {
  return Object.keys(files).filter((path) => storeyOf(path) < 0).map((path) =>
    `${path} has no storey: name it in test/package/tidy.test.ts`
  );
}

function upwardImports(files: Files): string[] {
  return Object.entries(files).flatMap(([path, text]) =>
    localImports(path, text).filter((to) => storeyOf(to) > storeyOf(path)).map((to) =>
      `${path} imports ${to} from a storey above`
    )
  );
}

function missingImports(files: Files): string[] {
  return Object.entries(files).flatMap(([path, text]) =>
    localImports(path, text).filter((to) => !(to in files) && !(to.replace(/\.ts$/, "/index.ts") in files)).map((to) =>
      `${path} imports ${to}, which is not there`
    )
  );
}

function cycles(files: Files): string[] {
  const done = new Set<string>();
  const found: string[] = [];
  const visit = (path: string, way: string[]): void => {
    if (way.includes(path)) found.push([...way.slice(way.indexOf(path)), path].join(" > "));
    if (done.has(path) || way.includes(path)) return;
    for (const to of localImports(path, files[path] ?? "")) visit(to, [...way, path]);
    done.add(path);
  };
  for (const path of Object.keys(files)) visit(path, []);
  return found;
}

describe("src/", () => {
  it("has a storey for every file", () => {
    expect(homeless(src)).toEqual([]);
    expect(homeless({ "src/attic.ts": "" })).toEqual([
      "src/attic.ts has no storey: name it in test/package/tidy.test.ts",
    ]);
  });

  it("imports from its own storey or lower ones", () => {
    expect(Object.entries(src).flatMap(([path, text]) => localImports(path, text)).length).toBeGreaterThan(40);
    expect(upwardImports(src)).toEqual([]);
    for (
      const text of [
        "import { Table } from './table/table.js'",
        "import {\n  Table,\n} from './table/table.js'",
        "import './table/table.js'",
        "export * from './table/table.js'",
        "import type { Table } from './table/table.js'",
        "const { Table } = await import('./table/table.js')",
      ]
    ) {
      expect(upwardImports({ "src/engine/clock.ts": text })).toEqual([
        "src/engine/clock.ts imports src/engine/table/table.ts from a storey above",
      ]);
    }
    expect(upwardImports({ "src/http/express.ts": "import { a } from '../index.js'" })).toEqual([
      "src/http/express.ts imports src/index.ts from a storey above",
    ]);
    expect(upwardImports({ "src/engine/table/table.ts": "import { a } from '../clock.js'" })).toEqual([]);
  });

  it("imports what is there", () => {
    expect(missingImports(src)).toEqual([]);
    expect(missingImports({ "src/engine/table/table.ts": "import { a } from '../clock.js'" })).toEqual([
      "src/engine/table/table.ts imports src/engine/clock.ts, which is not there",
    ]);
  });

  it("has no cycles", () => {
    expect(cycles(src)).toEqual([]);
    const circle = {
      "src/a.ts": "import { b } from './b.js'",
      "src/b.ts": "import { c } from './c.js'",
      "src/c.ts": "import { a } from './a.js'",
    };
    expect(cycles(circle)).toEqual(["src/a.ts > src/b.ts > src/c.ts > src/a.ts"]);
  });

  it("imports nothing but itself and what Node brings, but at its edge what an optional peer brings", () => {
    const peers = Object.keys(own.peerDependencies ?? {});
    const foreign = (files: Files): string[] =>
      Object.entries(files).flatMap(([path, text]) =>
        importsOf(text).filter((name) => !name.startsWith(".") && !name.startsWith("node:")).filter((name) =>
          storeyOf(path) !== edge || !peers.includes(name)
        ).map((name) => `${path} imports ${name}`)
      );
    expect(foreign(src)).toEqual([]);
    expect(foreign({ "src/engine/clock.ts": "import ms from 'ms'", "src/pool.ts": "import ms from 'ms'" })).toEqual([
      "src/engine/clock.ts imports ms",
      "src/pool.ts imports ms",
    ]);
    for (const peer of peers) expect(own.peerDependenciesMeta?.[peer], peer).toEqual({ optional: true });
  });

  it("names Wasm exports and the inlined kernel in src/engine/table/kernel.ts only", () => {
    const others = (files: Files): string[] =>
      Object.entries(files).flatMap(([path, text]) =>
        path === "src/engine/table/kernel.ts" || path === "src/engine/table/kernel-binary.ts"
          ? []
          : localImports(path, text).filter((to) => to === "src/engine/table/kernel-binary.ts").map(() =>
            `${path} imports the kernel's bytes`
          )
            .concat(
              /\bnew WebAssembly\.(Module|Instance)\b|\bWebAssembly\.(compile|instantiate)\b/.test(text)
                ? [`${path} makes a kernel`]
                : [],
            )
      );
    expect(others(src)).toEqual([]);
    expect(
      others({
        "src/engine/table/table.ts": "import { kernelBase64 } from './kernel-binary.js'\nnew WebAssembly.Module(bytes)",
      }),
    ).toEqual(["src/engine/table/table.ts imports the kernel's bytes", "src/engine/table/table.ts makes a kernel"]);
  });

  it("reads a clock in src/engine/clock.ts only, and in the source of the ticker thread", () => {
    const withoutComments = (text: string): string =>
      text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
    const readers = (files: Files): string[] =>
      Object.entries(files).flatMap(([path, text]) => {
        if (path === "src/engine/clock.ts") return [];
        const own = path === "src/engine/table/ticker.ts" ? text.replace(/^const source = `[\s\S]*?^`;$/m, "") : text;
        const calls = withoutComments(own).match(/\bperformance\b|\bhrtime\b|\bDate\b(?=\s*[.(])|\buptime\(/g) ?? [];
        return calls.map((call) => `${path} reads ${call}`);
      });
    expect(src["src/engine/clock.ts"]).toMatch(/performance\.now\(\)/);
    expect(src["src/engine/table/ticker.ts"]).toMatch(/^const source = `[^`]*hrtime[^`]*^`;$/m);
    expect(readers(src)).toEqual([]);
    expect(readers({ "src/engine/limiter/limiter.ts": "const now = Date.now() // not performance.now()" })).toEqual([
      "src/engine/limiter/limiter.ts reads Date",
    ]);
    expect(
      readers({ "src/engine/table/ticker.ts": "const source = `\nprocess.hrtime.bigint()\n`;\nperformance.now()" }),
    )
      .toEqual([
        "src/engine/table/ticker.ts reads performance",
      ]);
  });

  it("reckons with the kernel's offsets in the files that own a record only", () => {
    const owners = [
      "table/header",
      "table/scratch",
      "table/thread-records",
      "table/counters",
      "policy/policy-record",
      "policy/segment",
    ].map((path) => `src/engine/${path}.ts`);
    const strangers = (files: Files): string[] =>
      Object.entries(files).filter(([path, text]) =>
        !owners.includes(path) && /\b[A-Z][A-Z_]+\b\)? \/ [48]\b/.test(text)
      )
        .map(([path]) => `${path} does offset arithmetic`);
    for (const path of owners) expect(strangers({ "src/a.ts": src[path] }), path).toHaveLength(1);
    expect(strangers(src)).toEqual([]);
  });

  it("asks what a kind can do, and not for its name, outside of src/engine/policy/kinds.ts", () => {
    const names = Object.keys(kinds).join("|");
    const askers = (files: Files): string[] =>
      Object.entries(files).filter(([path, text]) =>
        path !== "src/engine/policy/kinds.ts" && new RegExp(`[!=]== ["'](${names})["']`).test(text)
      ).map(([path]) => `${path} asks for a kind by its name`);
    expect(askers(src)).toEqual([]);
    expect(askers({ "src/a.ts": "if (policy.kind.name === \"warmUp\") return" })).toEqual([
      "src/a.ts asks for a kind by its name",
    ]);
  });
});

describe("the kernel", () => {
  it("imports only itself", () => {
    const ours = Object.fromEntries(
      Object.entries(assembly).map(([path, text]) => [path, text.replace(/from "(\.[^"]+)"/g, "from \"$1.js\"")]),
    );
    expect(Object.values(ours).flatMap(importsOf).filter((name) => !name.startsWith("."))).toEqual([]);
    expect(missingImports(ours)).toEqual([]);
  });
});

// --- files --------------------------------------------------------------------

describe("a file", () => {
  it("of src/ or assembly/ has at most 420 lines", () => {
    const long = (files: Files): string[] =>
      Object.entries(files).map(([path, text]) => [path, text.trimEnd().split("\n").length] as const).filter((
        [, lines],
      ) => lines > 420).map(([path, lines]) => `${path} has ${lines} lines: it holds two ideas`);
    expect(long({ ...src, ...assembly })).toEqual([]);
    expect(long({ "src/a.ts": "a\n".repeat(421), "src/b.ts": "b\n".repeat(420) })).toEqual([
      "src/a.ts has 421 lines: it holds two ideas",
    ]);
  });

  it("is named by what it is about", () => {
    const forbidden = (files: Files): string[] =>
      Object.keys(files).filter((path) =>
        path.split("/").slice(1).some((part) =>
          /^(utils?|helpers?|common|types|constants|core|internals?|misc|shared)(\.|$)/i.test(part)
        )
      );
    expect(forbidden({ ...src, ...assembly, ...tests })).toEqual([]);
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
    expect(promises({ ...src, ...assembly, ...tests })).toEqual([]);
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

// --- the package --------------------------------------------------------------

describe("the package", () => {
  it("depends on nothing", () => {
    const dependencies = ({ dependencies = {} }: Package): string[] => Object.keys(dependencies);
    expect(dependencies(own)).toEqual([]);
    expect(dependencies({ dependencies: { ms: "2.1.3" } })).toEqual(["ms"]);
  });

  it("is built by exact versions of its tools", () => {
    const loose = ({ devDependencies = {} }: Package): string[] =>
      Object.entries(devDependencies).filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)).map((
        [name],
      ) => name);
    expect(Object.keys(own.devDependencies!).length).toBeGreaterThan(3);
    expect(loose(own)).toEqual([]);
    expect(loose({ devDependencies: { a: "^1.0.0", b: "1.0.0", c: "~2.0.0", d: "latest", e: "1.x" } })).toEqual([
      "a",
      "c",
      "d",
      "e",
    ]);
  });

  it("exports files that are there once it is built, each with its types", () => {
    const missing = ({ exports = {} }: Package, isThere: (path: string) => boolean): string[] =>
      Object.entries(exports).flatMap(([name, target]) =>
        (typeof target === "string" ? [target] : Object.values(target)).filter((path) => !isThere(path)).map((path) =>
          `${name} is ${path}, which is not there`
        )
      );
    expect(missing(own, (path) => existsSync(`${root}/${path}`))).toEqual([]);
    expect(missing({ exports: { ".": { default: "./dist/no.js" } } }, () => false)).toEqual([
      ". is ./dist/no.js, which is not there",
    ]);
    for (const [name, target] of Object.entries(own.exports!)) {
      if (typeof target !== "string") expect(Object.keys(target), name).toEqual(["types", "default"]);
    }
  });

  it("has a source for every sub-path, and a sub-path for every source that is a door or an edge", () => {
    const doors = Object.values(own.exports!).flatMap((
      target,
    ) => (typeof target === "string" ? [] : [target.default!.replace(/^\.\/dist\//, "src/").replace(/\.js$/, ".ts")]));
    for (const door of doors) expect(src, door).toHaveProperty([door]);
    const ours = Object.keys(src).filter((path) => storeyOf(path) >= edge && dirname(path) === "src");
    expect(doors).toEqual(expect.arrayContaining(ours.filter((path) => path !== "src/cli.ts")));
  });

  it("is ESM for Node 20.19 and later", () => {
    expect(own.type).toBe("module");
    expect(own.engines).toEqual({ node: ">=20.19" });
  });
});
