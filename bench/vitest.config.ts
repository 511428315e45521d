import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // The small run uses all cores.
    fileParallelism: false,
    pool: "forks",
    testTimeout: 180_000,
    hookTimeout: 60_000,
  },
});
