// Guava's RateLimiter: tryAcquire on one limiter, on limiters in a
// ConcurrentHashMap, and from several threads.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import type { OutsideRival } from "../rivals/rival.js";
import { built, outputOf, roundsOf, sourcesOf } from "./program.js";

const sources = sourcesOf("java/Limits.java");
/** Where Debian keeps it. */
const GUAVA = "/usr/share/java/guava.jar";
const INSTALL = "apt-get install default-jdk-headless libguava-java";

function build(folder: string): void {
  execFileSync("javac", ["-cp", GUAVA, "-d", folder, ...sources]);
}

export const rival: OutsideRival = {
  name: "Guava RateLimiter",
  what: "tryAcquire; token bucket behind a monitor; limiters of many keys in a ConcurrentHashMap",

  absent() {
    if (outputOf("javac", ["-version"]) === undefined) return `no Java compiler: ${INSTALL}`;
    if (!existsSync(GUAVA)) return `no Guava: ${INSTALL}`;
    return undefined;
  },

  version() {
    const library = outputOf("dpkg-query", ["--show", "--showformat", "${Version}", "libguava-java"]);
    return `${library ?? "unknown"}, ${outputOf("java", ["--version"])?.split("\n", 1)[0]}`;
  },

  measure(
    question,
    { rounds, decisions = 20_000, keys = 10_000, order, threads = [1, 2, 4], ms = 100, warmUpMs = 1500 },
  ) {
    const classes = built(sources, build);
    const args = (drawsFile: string): string[] => [
      "-XX:+UseParallelGC",
      "-cp",
      `${GUAVA}:${classes}`,
      "Limits",
      question,
      `rounds=${rounds}`,
      `decisions=${decisions}`,
      `keys=${keys}`,
      `draws=${drawsFile}`,
      `threads=${threads}`,
      `ms=${ms}`,
      `warmUpMs=${warmUpMs}`,
    ];
    return roundsOf("java", args, order);
  },
};
