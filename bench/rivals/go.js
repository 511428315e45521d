// golang.org/x/time/rate: Allow on one limiter, on limiters in a sync.Map and
// in a map behind a lock, and from several threads.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { built, outputOf, roundsOf } from "../outside/program.js";

const SOURCE = fileURLToPath(new URL("../outside/go/limits.go", import.meta.url));
/** Where Debian keeps the sources of Go's libraries. */
const GOPATH = "/usr/share/gocode";
const INSTALL = "apt-get install golang-go golang-golang-x-time-dev";

function build(folder) {
  execFileSync("go", ["build", "-o", join(folder, "limits"), SOURCE], {
    env: { ...process.env, GO111MODULE: "off", GOPATH },
  });
}

export const rival = {
  name: "Go x/time/rate",
  what: "rate.Limiter; token bucket behind a mutex; limiters of many keys in a sync.Map, or a map and an RWMutex",

  /** Why it cannot be measured here; undefined if it can. */
  absent() {
    if (outputOf("go", ["version"]) === undefined) return `no Go: ${INSTALL}`;
    if (!existsSync(join(GOPATH, "src/golang.org/x/time/rate"))) return `no golang.org/x/time: ${INSTALL}`;
  },

  version() {
    const library = outputOf("dpkg-query", ["--show", "--showformat", "${Version}", "golang-golang-x-time-dev"]);
    return `${library ?? "unknown"}, ${outputOf("go", ["env", "GOVERSION"])}`;
  },

  /**
   * All rounds of a question. 'hot' takes { rounds, decisions }; 'keys'
   * { keys, order, rounds, decisions }, where `order` (a Uint32Array)
   * draws numbers of addresses; 'threads' { threads, order, rounds, ms }.
   */
  measure(question, { rounds, decisions = 20_000, keys = 10_000, order, threads = [1, 2, 4], ms = 100 }) {
    const program = join(built(SOURCE, build), "limits");
    const args = (draws) => [
      question,
      `-rounds=${rounds}`,
      `-decisions=${decisions}`,
      `-keys=${keys}`,
      `-draws=${draws}`,
      `-threads=${threads}`,
      `-ms=${ms}`,
    ];
    return roundsOf(program, args, order);
  },
};
