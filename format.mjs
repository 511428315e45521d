// Formats the tree with dprint at its defaults, or with --check says what is not formatted.
//
// dprint drops decorators of functions, which AssemblyScript has and TypeScript has
// not: in assembly/ they pass through it as comments.

import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const isCheck = process.argv.includes("--check");
const rest = spawnSync("npx", ["dprint", isCheck ? "check" : "fmt"], { stdio: "inherit" });
let isClean = rest.status === 0;

for (
  const path of execFileSync("git", ["ls-files", "-co", "--exclude-standard", "assembly/*.ts"], { encoding: "utf8" })
    .split("\n")
) {
  if (path === "") continue;
  const text = readFileSync(path, "utf8");
  const input = text.replace(/^@(\w+)$/gm, "// @$1");
  const output = execFileSync("npx", ["dprint", "fmt", "--stdin", path], { input, encoding: "utf8" });
  const formatted = output.replace(/^\/\/ @(\w+)$/gm, "@$1");
  if (formatted === text) continue;
  if (isCheck) {
    console.error(`${path} is not formatted; run npm run format`);
    isClean = false;
  } else {
    writeFileSync(path, formatted);
  }
}
process.exitCode = isClean ? 0 : 1;
