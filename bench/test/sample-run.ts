// A run of the benchmarks that was never measured: with the shape and about the
// size of a true one, for tests of what is made from runs.

import type { Answer, Chart, Figure, Run, Sample } from "../report/run.js";
import { ours, rivals } from "./sample-costs.js";

interface SampleOptions {
  /** Names the run; the same seed gives the same run. */
  seed?: number;
  quiet?: boolean;
}

/** Numbers from 0 up to 1, the same for a seed on every machine. */
function randomFrom(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A run of six questions. */
export function sampleRun({ seed = 1, quiet = true }: SampleOptions = {}): Run {
  const random = randomFrom(seed);
  const present = rivals.filter(({ absent }) => absent === undefined);
  const all = [...ours, ...present];

  const sample = (chart: string, series: string, x: number | null, unit: string, about: number): Sample => {
    const median = about * (0.95 + 0.1 * random());
    return {
      chart,
      series,
      x,
      unit,
      median,
      lower: median * (0.9 + 0.08 * random()),
      upper: median * (1.03 + 0.12 * random()),
      count: 300,
    };
  };
  const bars = (id: string, title: string, label: string): Chart => ({
    id,
    title,
    kind: "bars",
    x: null,
    y: { label, scale: "linear" },
    better: "lower",
  });
  const answer = (
    id: string,
    question: string,
    rest: Pick<Answer, "charts" | "samples" | "figures" | "notMeasured">,
  ): Answer => ({
    id,
    question,
    size: "300 rounds of 5,000 decisions each",
    tookMs: Math.round(20_000 + 40_000 * random()),
    ...rest,
  });

  const hotCharts = [
    bars("admitted-coarse", "A hot key, admitted; our coarse clock", "ns a decision"),
    bars("admitted-precise", "A hot key, admitted; our precise clock", "ns a decision"),
  ];
  const hot = answer("hot", "What does one decision on a hot key cost?", {
    charts: hotCharts,
    samples: hotCharts.flatMap(({ id }, i) => [
      sample(id, "one performance.now()", null, "ns", 44),
      sample(id, "sluice key()", null, "ns", i === 0 ? 14 : 53),
      ...all.map(({ name, ns }) => sample(id, name, null, "ns", ns)),
    ]),
    figures: [
      {
        name: "sluice key(), precise clock: cost of one performance.now()",
        measured: 1.17,
        spread: { lower: 1.12, upper: 1.26 },
        unit: " x",
        most: 1.25,
      },
      {
        name: "sluice key(), coarse clock: speed of Guava tryAcquire",
        measured: 3.21,
        spread: { lower: 3.05, upper: 3.4 },
        unit: " x",
        least: 3,
      },
      {
        name: "sluice key(), coarse clock: speed of Go Allow",
        measured: 7.6,
        spread: { lower: 7.1, upper: 7.9 },
        unit: " x",
        least: 8,
      },
    ],
    notMeasured: ["other threads on the same key (threads)", "costs above 1", "a process with several tables"],
  });

  const keysFigure = (ours: string, keys: string, rival: string, measured: number): Figure => ({
    name: `sluice ${ours}, ${keys} keys, coarse clock: decisions/s of ${rival}`,
    measured,
    spread: { lower: 0.82 * measured, upper: 1.15 * measured },
    unit: " x",
  });
  const counts = [1e3, 1e4, 1e5, 1e6, 1e7];
  const keyCharts: Chart[] = ["random", "zipf"].map((id) => ({
    id,
    title: id === "random" ? "Fresh string keys in random order" : "Fresh string keys, Zipf s = 0.99",
    kind: "lines",
    x: { label: "keys", scale: "log" },
    y: { label: "ns a decision", scale: "log" },
    better: "lower",
  }));
  const keys = answer("keys", "What does a decision cost among many keys?", {
    charts: keyCharts,
    samples: keyCharts.flatMap(({ id }) =>
      all.flatMap(({ name, ns, growth }) =>
        counts.filter((keys) => ns < 5000 || keys < 1e7).map((keys) =>
          sample(id, name, keys, "ns", (ns + 15) * (keys / 1e3) ** (id === "zipf" ? growth / 1.6 : growth))
        )
      )
    ),
    figures: [
      keysFigure("allow", "10,000", "Map", 3.1),
      { ...keysFigure("allow", "1,000,000", "Map", 3.4), least: 3 },
      keysFigure("allow", "1,000,000", "limiter", 5.4),
      keysFigure("allow", "1,000,000", "fast-ratelimit, which reads no clock", 2.1),
      keysFigure("allowMany, 256", "1,000,000", "Map", 7.9),
      keysFigure("allowMany, 256", "1,000,000", "fast-ratelimit, which reads no clock", 4.9),
    ],
    notMeasured: ["keys longer than 40 characters", "more than 10 million keys"],
  });

  const memoryCharts = [bars("bytes", "Memory at 1,000,000 keys", "bytes a key")];
  const memory = answer("memory", "How much memory does a key take?", {
    charts: memoryCharts,
    samples: [
      sample("bytes", "sluice", null, "bytes", 23),
      ...present.map(({ name, bytes }) => sample("bytes", name, null, "bytes", bytes)),
    ],
    figures: [
      {
        name: "bytes a key, beside the leanest rival, Map",
        measured: 0.176,
        spread: { lower: 0.17, upper: 0.18 },
        unit: " x",
        most: 0.25,
      },
      { name: "bytes a key", measured: 23, unit: " B" },
    ],
    notMeasured: ["tables that are not full", "fragmentation after days"],
  });

  const threadCharts: Chart[] = [{
    id: "own-keys",
    title: "Decisions of all threads together, each on keys of its own",
    kind: "lines",
    x: { label: "threads", scale: "linear" },
    y: { label: "million decisions a second", scale: "log" },
    better: "higher",
  }];
  const threads = answer("threads", "What do more threads bring?", {
    charts: threadCharts,
    samples: [
      ["sluice allow(key)", 9],
      ["MessagePort owner thread, serial", 0.019],
      ["MessagePort owner thread, pipelined", 0.62],
      ["rate-limiter-flexible cluster", 0.011],
      ["Go x/time/rate", 3.9],
      ["Guava RateLimiter", 7.1],
    ].flatMap(([name, each]) =>
      [1, 2, 4].map((threads) =>
        sample(
          "own-keys",
          String(name),
          threads,
          "M/s",
          Number(each) * (String(name).startsWith("Message") ? 1 : threads ** 0.8),
        )
      )
    ),
    figures: [
      {
        name: "two threads: rate of the MessagePort owner thread, serial",
        measured: 801,
        spread: { lower: 720, upper: 860 },
        unit: " x",
        least: 300,
      },
      { name: "own keys, strings, precise clock: two workers x one", measured: 1.74, unit: " x" },
    ],
    notMeasured: ["machines with more than 4 cores"],
  });

  const percentiles = [50, 90, 99, 99.9, 99.99, 100];
  const latencyCharts: Chart[] = [{
    id: "alone",
    title: "A decision among 1,000,000 keys, one thread alone",
    kind: "percentiles",
    x: { label: "percentile", scale: "log" },
    y: { label: "ns", scale: "log" },
    better: "lower",
  }];
  const latency = answer("latency", "How late can one decision be?", {
    charts: latencyCharts,
    samples: [["sluice, coarse clock", 120], ["sluice, precise clock", 170], ["Map", 290], [
      "rate-limiter-flexible",
      1900,
    ], ["limiter", 700]].flatMap(([name, ns]) =>
      percentiles.map((p, i) => sample("alone", String(name), p, "ns", Number(ns) * [1, 1.5, 3.1, 11, 80, 20_000][i]))
    ),
    figures: [],
    notMeasured: ["the time an event loop takes to get to the decision"],
  });

  const floodCharts: Chart[] = [{
    id: "rss",
    title: "Resident memory under a flood of new keys",
    kind: "time",
    x: { label: "million new keys", scale: "linear" },
    y: { label: "MiB", scale: "linear" },
    better: "lower",
  }];
  const flood = answer("flood", "What does a flood of 50 million new keys do?", {
    charts: floodCharts,
    samples: [["sluice", 84, 0.01], ["Map", 48, 128], ["rate-limiter-flexible", 60, 390]].flatMap((
      [name, from, each],
    ) =>
      Array.from({ length: 51 }, (_, million) => million).filter((million) =>
        name !== "rate-limiter-flexible" || million <= 9
      ).map((million) => sample("rss", String(name), million, "MiB", Number(from) + Number(each) * million))
    ),
    figures: [{ name: "keys over their limit that are un-blocked, of 1,000", measured: 0, most: 0 }, {
      name: "growth of resident memory",
      measured: 1.007,
      unit: " x",
      most: 1.02,
    }],
    notMeasured: ["a flood from several processes"],
  });
  threads.failed = ["threads, sharedmap: ended with 1"];

  return {
    schema: 1,
    startedAt: "2026-11-30T09:14:00.000Z",
    tookMs: 1_260_000,
    small: false,
    machine: {
      cpu: "AMD EPYC 9R14",
      cores: 2,
      memoryGiB: 24,
      platform: "linux x64",
      node: "v20.20.2",
      v8: "11.3.244.8-node.33",
      commit: "abc1234",
      dirty: false,
      loadAtStart: quiet ? [0.12, 0.3, 0.41] : [1.9, 2.02, 2.12],
      quiet,
      ...(quiet
        ? {}
        : {
          unquietBecause: "load 1.9 on 2 cores at the start; the same work took times whose quartiles lie 31 % apart",
        }),
    },
    rivals: rivals.map(({ ns, growth, bytes, ...entry }) => entry),
    questions: [hot, keys, memory, threads, latency, flood],
  };
}
