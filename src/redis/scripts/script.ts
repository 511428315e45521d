// A script as Redis keeps it: by the SHA-1 of its source.

import { createHash } from "node:crypto";

export interface Script {
  readonly source: string;
  readonly sha: string;
}

export function script(source: string): Script {
  return { source, sha: createHash("sha1").update(source).digest("hex") };
}
