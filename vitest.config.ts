import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Thread tests bring their own workers; test files beside them would only take their cores.
    fileParallelism: false,
    pool: "forks",
    testTimeout: 180_000,
    hookTimeout: 60_000,
  },
});
