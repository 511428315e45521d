// The storeys of src/ and assembly/: a file sees its own room and the rooms below. Every rule is a
// function from files to complaints, and is seen to complain.

import { posix } from "node:path";
import { describe, expect, it } from "vitest";
import { kinds } from "../../../src/engine/policy/kinds.js";
import { own } from "./package.js";
import { assembly, type Files, importsOf, localImports, src } from "./tree.js";

/** Rooms from the ground up; one line is one storey. */
type Storeys = readonly (readonly string[])[];

const srcStoreys: Storeys = [
  ["engine"],
  ["engine/table"],
  ["engine/policy"],
  ["engine/bucket"],
  ["engine/waiting"],
  ["engine/limiter"],
  ["compat", "http", "redis", "stores", "fetch.ts", "pool.ts", "metrics.ts"],
  ["index.ts"],
];
const edge = srcStoreys.length - 2;

const assemblyStoreys: Storeys = [
  ["layout"],
  ["offsets.ts", "thread.ts"],
  ["question.ts"],
  ["words", "lines"],
  ["table"],
  ["decide", "policy.ts"],
  ["index.ts"],
];

/** The storey of a file in src/ or assembly/: that of the innermost folder which has one. -1 if it has none. */
function storeyOf(path: string): number {
  const [top] = path.split("/");
  const storeys = top === "assembly" ? assemblyStoreys : srcStoreys;
  for (let place = posix.relative(top, path); place !== "."; place = posix.dirname(place)) {
    const storey = storeys.findIndex((rooms) => rooms.includes(place));
    if (storey >= 0) return storey;
  }
  return -1;
}

function homeless(files: Files): string[] {
  return Object.keys(files).filter((path) => storeyOf(path) < 0).map((path) =>
    `${path} has no storey: name it in test/package/tidy/storeys.test.ts`
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
      "src/attic.ts has no storey: name it in test/package/tidy/storeys.test.ts",
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
        // A Date of a given time reads no clock, nor does the type.
        const calls = withoutComments(own).match(
          /\b(?:performance|hrtime|uptime|Date\.now)\b|\bDate\(\)|\bnew Date\b(?!\()|(?<![=!<>])= Date\b(?![.(])/g,
        ) ?? [];
        return calls.map((call) => `${path} reads ${call}`);
      });
    expect(src["src/engine/clock.ts"]).toMatch(/performance\.now\(\)/);
    expect(src["src/engine/table/ticker.ts"]).toMatch(/^const source = `[^`]*hrtime[^`]*^`;$/m);
    expect(readers(src)).toEqual([]);
    expect(readers({ "src/engine/limiter/limiter.ts": "const now = Date.now() // not performance.now()" })).toEqual([
      "src/engine/limiter/limiter.ts reads Date.now",
    ]);
    for (const read of ["Date.now()", "new Date()", "Date()", "new Date", "const { now } = Date", "process.uptime()"]) {
      expect(readers({ "src/fetch.ts": `const ms = ${read};` }), read).toHaveLength(1);
    }
    expect(readers({ "src/fetch.ts": "function f(at: Date): Date { return new Date(at.getTime() + Date.parse(s)); }" }))
      .toEqual([]);
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

describe("assembly/", () => {
  it("has a storey for every file, and imports from its own storey or lower ones", () => {
    expect(Object.entries(assembly).flatMap(([path, text]) => localImports(path, text)).length).toBeGreaterThan(40);
    expect(homeless(assembly)).toEqual([]);
    expect(upwardImports(assembly)).toEqual([]);
    const upward: [string, string, string][] = [
      ["layout/table", "../thread", "thread"],
      ["thread", "./question", "question"],
      ["question", "./words/bucket", "words/bucket"],
      ["words/bucket", "../table/claim", "table/claim"],
      ["lines/ring", "../table/lines", "table/lines"],
      ["table/claim", "../decide/hot", "decide/hot"],
      ["decide/hot", "../index", "index"],
    ];
    for (const [from, name, to] of upward) {
      expect(upwardImports({ [`assembly/${from}.ts`]: `import { a } from "${name}";` })).toEqual([
        `assembly/${from}.ts imports assembly/${to}.ts from a storey above`,
      ]);
    }
    expect(upwardImports({ "assembly/lines/ring.ts": "import { a } from \"../words/window\";" })).toEqual([]);
    expect(homeless({ "assembly/clock.ts": "" })).toHaveLength(1);
  });

  it("has no cycles", () => {
    expect(cycles(assembly)).toEqual([]);
    const circle = {
      "assembly/words/a.ts": "import { b } from \"../lines/b\";",
      "assembly/lines/b.ts": "export { a } from \"../words/a\";",
    };
    expect(cycles(circle)).toEqual(["assembly/words/a.ts > assembly/lines/b.ts > assembly/words/a.ts"]);
  });

  it("imports only itself", () => {
    expect(Object.values(assembly).flatMap(importsOf).filter((name) => !name.startsWith("."))).toEqual([]);
    expect(missingImports(assembly)).toEqual([]);
  });
});
