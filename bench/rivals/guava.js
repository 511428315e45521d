// Guava's RateLimiter: tryAcquire on one limiter, on limiters in a
// ConcurrentHashMap, and from several threads.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { built, outputOf, roundsOf } from "../outside/program.js";

const SOURCE = fileURLToPath(new URL("../outside/java/Limits.java", import.meta.url));
/** Where Debian keeps it. */
const GUAVA = "/usr/share/java/guava.jar";
const INSTALL = "apt-get install default-jdk-headless libguava-java";

const build = (folder) => execFileSync("javac", ["-cp", GUAVA, "-d", folder, SOURCE]);

export const rival = {
  name: "Guava RateLimiter",
  what: "tryAcquire; token bucket behind a monitor; limiters of many keys in a ConcurrentHashMap",

  /** Why it cannot be measured here; undefined if it can. */
  absent() {
    if (outputOf("javac", ["-version"]) === undefined) return `no Java compiler: ${INSTALL}`;
    if (!existsSync(GUAVA)) return `no Guava: ${INSTALL}`;
  },

  version() {
    const library = outputOf("dpkg-query", ["--show", "--showformat", "${Version}", "libguava-java"]);
    return `${library ?? "unknown"}, ${outputOf("java", ["--version"]).split("\n", 1)[0]}`;
  },

  /** As Go's, and `warmUpMs`: how long to let the compiler work before the first round. */
  measure(
    question,
    { rounds, decisions = 20_000, keys = 10_000, order, threads = [1, 2, 4], ms = 100, warmUpMs = 1500 },
  ) {
    const classes = built(SOURCE, build);
    const args = (draws) => [
      "-XX:+UseParallelGC",
      "-cp",
      `${GUAVA}:${classes}`,
      "Limits",
      question,
      `rounds=${rounds}`,
      `decisions=${decisions}`,
      `keys=${keys}`,
      `draws=${draws}`,
      `threads=${threads}`,
      `ms=${ms}`,
      `warmUpMs=${warmUpMs}`,
    ];
    return roundsOf("java", args, order);
  },
};
