// Before the first test that starts threads or programs: compiles the workers
// (`*.worker.ts`) and the examples, since Node runs no TypeScript by itself.

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

export default function compile(): void {
  const root = fileURLToPath(new URL("..", import.meta.url));
  for (const project of ["test/tsconfig.workers.json", "examples/tsconfig.json"]) {
    execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", project], { cwd: root, stdio: "inherit" });
  }
}
