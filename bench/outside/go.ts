// golang.org/x/time/rate: Allow on one limiter, on limiters in a sync.Map and in
// a map behind a lock, and from several threads.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { OutsideRival } from "../rivals/rival.js";
import { built, outputOf, roundsOf, sourcesOf } from "./program.js";

const sources = sourcesOf("go/limits.go", "go/threads.go");
/** Where Debian keeps the sources of Go's libraries. */
const GOPATH = "/usr/share/gocode";
const INSTALL = "apt-get install golang-go golang-golang-x-time-dev";

function build(folder: string): void {
  execFileSync("go", ["build", "-o", join(folder, "limits"), ...sources], {
    env: { ...process.env, GO111MODULE: "off", GOPATH },
  });
}

export const rival: OutsideRival = {
  name: "Go x/time/rate",
  what: "rate.Limiter; token bucket behind a mutex; limiters of many keys in a sync.Map, or a map and an RWMutex",

  absent() {
    if (outputOf("go", ["version"]) === undefined) return `no Go: ${INSTALL}`;
    if (!existsSync(join(GOPATH, "src/golang.org/x/time/rate"))) return `no golang.org/x/time: ${INSTALL}`;
    return undefined;
  },

  version() {
    const library = outputOf("dpkg-query", ["--show", "--showformat", "${Version}", "golang-golang-x-time-dev"]);
    return `${library ?? "unknown"}, ${outputOf("go", ["env", "GOVERSION"])}`;
  },

  measure(question, { rounds, decisions = 20_000, keys = 10_000, order, threads = [1, 2, 4], ms = 100 }) {
    const program = join(built(sources, build), "limits");
    const args = (drawsFile: string): string[] => [
      question,
      `-rounds=${rounds}`,
      `-decisions=${decisions}`,
      `-keys=${keys}`,
      `-draws=${drawsFile}`,
      `-threads=${threads}`,
      `-ms=${ms}`,
    ];
    return roundsOf(program, args, order);
  },
};
