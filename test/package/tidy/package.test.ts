// What package.json promises. Every rule is seen to complain.

import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import { own, type Package } from "./package.js";
import { root, src } from "./tree.js";

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
    const ours = Object.keys(src).filter((path) => dirname(path) === "src");
    expect(doors).toEqual(expect.arrayContaining(ours.filter((path) => path !== "src/cli.ts")));
  });

  it("is ESM for Node 20.19 and later", () => {
    expect(own.type).toBe("module");
    expect(own.engines).toEqual({ node: ">=20.19" });
  });
});
