// Inlines the release kernel into the JavaScript build, so that bundlers need
// no loader for it and no thread reads a file.
import { readFile, writeFile } from "node:fs/promises";

const wasm = await readFile("build/release.wasm");
await writeFile(
  "src/engine/table/kernel-binary.ts",
  `// Made by build.mjs from assembly/.\nexport const kernelBase64 =\n  '${wasm.toString("base64")}'\n`,
);
