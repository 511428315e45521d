import { defineConfig } from "vitest/config";

/** Files that start no thread, no process and no server: quick, and free to run in parallel. */
const unit = [
  "test/{conformance,engine,compat,models}/**/*.test.ts",
  "test/http/{client,guard}/**/*.test.ts",
  "test/package/tidy/*.test.ts",
];

const test = { pool: "forks", testTimeout: 180_000, hookTimeout: 60_000 } as const;

export default defineConfig({
  test: {
    projects: [
      // They share modules, whose loading would take as long as the tests.
      { test: { ...test, name: "unit", include: unit, isolate: false } },
      // These bring their own threads and servers; test files in parallel would only take their cores.
      {
        test: {
          ...test,
          name: "system",
          include: ["test/**/*.test.ts"],
          exclude: unit,
          fileParallelism: false,
          globalSetup: "test/compile.ts",
        },
      },
    ],
  },
});
