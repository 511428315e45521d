// Answers a question. Each case runs in a fresh process: one table in a process,
// as in a real server, and nothing that one case leaves behind (compiled code,
// shapes, garbage) affects the next.

import { fork } from "node:child_process";
import { totalmem } from "node:os";
import { join } from "node:path";
import { benchFolder } from "./paths.js";
import type { Found, NamedQuestion } from "./question.js";
import type { Answer } from "./report/run.js";

const caseProgram = join(benchFolder, "dist", "case.js");
/** The engine's own limit is meant for one program; here one process may hold all the rivals. */
const HEAP_MIB = Math.floor(totalmem() / 2 ** 21);
/** Cases at a time. A small run's figures mean nothing, so its cases may disturb each other. */
const lanesOf = (small: boolean): number => (small ? 2 : 1);

/** What one case found, in a fresh process. */
function inFreshProcess(id: string, name: string, small: boolean): Promise<Found> {
  return new Promise((resolve, reject) => {
    const child = fork(caseProgram, [id, name, ...(small ? ["small"] : [])], {
      execArgv: ["--expose-gc", `--max-old-space-size=${HEAP_MIB}`],
      // The C library's own threshold, but fixed. If it may grow, freed buffers stay
      // resident and the next ones seem to weigh nothing.
      env: { ...process.env, MALLOC_MMAP_THRESHOLD_: "131072" },
    });
    let found: Found | undefined;
    child.on("message", (message) => (found = message as unknown as Found));
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code === 0 && found !== undefined) return resolve(found);
      const silent = found === undefined ? " and no answer" : "";
      reject(new Error(`${id}, ${name}: ended with ${signal ?? code}${silent}`));
    });
  });
}

export interface AskOptions {
  small: boolean;
  beforeCase(name: string): void;
  afterCase(): void;
}

/** Measures every case. A case that fails is named in `failed`; the others still run. */
export async function ask(question: NamedQuestion, { small, beforeCase, afterCase }: AskOptions): Promise<Answer> {
  const { id, charts, cases, notMeasured } = question;
  const startMs = performance.now();
  const found = new Map<string, Found>(Object.keys(cases).map((name) => [name, { samples: [] }]));
  const failed: string[] = [];
  const waiting = [...found.keys()];
  const lane = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      beforeCase(name);
      try {
        found.set(name, await inFreshProcess(id, name, small));
      } catch (error) {
        failed.push((error as Error).message);
      }
      afterCase();
    }
  };
  await Promise.all(Array.from({ length: lanesOf(small) }, lane));
  const samples = [...found.values()].flatMap((each) => each.samples);
  const figures = [...found.values()].flatMap((each) => each.figures ?? []);
  if (failed.length === 0) figures.push(...(question.figures?.(samples) ?? []));
  return {
    id,
    question: question.question,
    size: question.size(small),
    tookMs: Math.round(performance.now() - startMs),
    notMeasured,
    charts,
    samples,
    figures,
    ...(failed.length > 0 ? { failed } : {}),
  };
}
