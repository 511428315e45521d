// Prometheus metrics of a table: what all threads of the process decided, read
// by whichever thread answers the scrape. Nothing is counted here: the table
// counts anyway, and a scrape sums. prom-client (peer dependency) has the
// registry and the format.

import { Counter, Gauge, type Registry } from "prom-client";
import { ownMs } from "./engine/clock.js";
import { checkDuration, checkOptions, SluiceError, unexpected } from "./engine/errors.js";
import type { LimiterStats } from "./engine/limiter/limiter.js";
import { Sluice, type SluiceStats } from "./engine/limiter/sluice.js";

export interface MetricsOptions {
  registry: Registry;
  /** The `table` label, which tells the tables of one registry apart: 1 to 100 characters, 'main' by default. */
  table?: string;
  /** Begins every name: 'sluice_' by default. Letters, digits, underscores and colons. */
  prefix?: string;
  /**
   * Also walks the table to count the keys in use, at most this often, ms. A walk
   * blocks the thread for some 10 ns a slot. Left out: no walk, and no such gauge.
   */
  liveEveryMs?: number;
}

const counts: Record<keyof LimiterStats, readonly [name: string, help: string]> = {
  allowed: ["allowed", "Calls admitted, shadowed ones among them."],
  denied: ["denied", "Calls refused."],
  shadowed: ["shadowed", "Calls that a limiter in shadow mode admitted and would have refused."],
  evicted: ["evicted", "Keys that lost their slot while in use, because the table was full."],
  fullDenied: ["full_denied", "Newcomers refused because the table was full."],
  fullAllowed: ["full_allowed", "Newcomers admitted uncounted because the table was full."],
  contended: ["contended", "Decisions made again because another thread came first."],
  claimed: ["claimed", "Slots given to keys."],
};

interface Source {
  readonly sluice: Sluice;
  readonly liveEveryMs: number | undefined;
  /** What each counter was told of each limiter. */
  readonly told: Map<Counter, Map<string, number>>;
  live: { readonly keys: Readonly<Record<string, number>>; readonly atMs: number } | undefined;
}

/** Tables by their label. */
type Sources = Map<string, Source>;

const shown = new WeakMap<Registry, Map<string, Sources>>();

/**
 * Adds a table to a registry's metrics, labelled by table and limiter. A scrape
 * reads the counts of all threads, living and ended, so one thread of the process
 * registers it. Returns what takes the table out again, as closing it does too.
 * Throws RangeError or TypeError for options that are wrong, and for a `table`
 * that the registry has already.
 */
export function registerMetrics(sluice: Sluice, options: MetricsOptions): () => void {
  if (!(sluice instanceof Sluice)) throw unexpected("sluice", "a Sluice", sluice, "object");
  checkOptions(options);
  const { registry, table = "main", prefix = "sluice_", liveEveryMs } = options;
  if (typeof registry?.registerMetric !== "function") {
    throw unexpected("registry", "a Registry of prom-client", registry, "object");
  }
  if (typeof table !== "string" || table === "" || table.length > 100) {
    throw unexpected("table", "a label of 1 to 100 characters", table, "string");
  }
  if (typeof prefix !== "string" || !/^[a-zA-Z_:][\w:]*$/.test(prefix)) {
    throw unexpected("prefix", "letters, digits, underscores and colons, no digit first", prefix, "string");
  }
  if (liveEveryMs !== undefined) checkDuration("liveEveryMs", liveEveryMs);

  const sources = sourcesOf(registry, prefix);
  if (sources.has(table)) {
    throw new RangeError(
      `"table" expected a label that no other table of this registry has, got ${JSON.stringify(table)}`,
    );
  }
  const source: Source = { sluice, liveEveryMs, told: new Map(), live: undefined };
  sources.set(table, source);
  return () => {
    if (sources.get(table) === source) drop(sources, table);
  };
}

/** The tables that a registry shows under a prefix; makes their metrics if they are not there, or no longer. */
function sourcesOf(registry: Registry, prefix: string): Sources {
  let byPrefix = shown.get(registry);
  if (!byPrefix) shown.set(registry, byPrefix = new Map());
  let sources = byPrefix.get(prefix);
  if (!sources || !registry.getSingleMetric(`${prefix}capacity`)) {
    byPrefix.set(prefix, sources = new Map());
    makeMetrics(registry, prefix, sources);
  }
  return sources;
}

function drop(sources: Sources, table: string): void {
  for (const [counter, limiters] of sources.get(table)!.told) {
    for (const limiter of limiters.keys()) counter.remove({ table, limiter });
  }
  sources.delete(table);
}

function makeMetrics(registry: Registry, prefix: string, sources: Sources): void {
  let read: ReadonlyMap<string, SluiceStats> | undefined;
  /** One reading a scrape, which asks all metrics in one go. */
  const stats = (): ReadonlyMap<string, SluiceStats> => {
    if (!read) {
      read = readAll(sources);
      queueMicrotask(() => (read = undefined));
    }
    return read;
  };

  for (const [count, [name, help]] of Object.entries(counts) as [keyof LimiterStats, readonly [string, string]][]) {
    new Counter({
      name: `${prefix}${name}_total`,
      help,
      labelNames: ["table", "limiter"],
      registers: [registry],
      collect() {
        for (const [table, { limiters }] of stats()) {
          const { told } = sources.get(table)!;
          const mine = told.get(this) ?? new Map<string, number>();
          told.set(this, mine);
          for (const limiter in limiters) {
            const now = limiters[limiter][count];
            this.inc({ table, limiter }, now - (mine.get(limiter) ?? 0));
            mine.set(limiter, now);
          }
        }
      },
    });
  }

  const gauge = (name: string, help: string, valueOf: (stats: SluiceStats) => number): void => {
    new Gauge({
      name: `${prefix}${name}`,
      help,
      labelNames: ["table"],
      registers: [registry],
      collect() {
        this.reset();
        for (const [table, each] of stats()) this.set({ table }, valueOf(each));
      },
    });
  };
  gauge("capacity", "Keys that the table was made for.", ({ capacity }) => capacity);
  gauge("threads", "Threads that are attached to the table.", ({ threads }) => threads);
  new Gauge({
    name: `${prefix}live_keys`,
    help: "Keys in use, as of the last walk of the table.",
    labelNames: ["table", "limiter"],
    registers: [registry],
    collect() {
      this.reset();
      for (const table of stats().keys()) {
        for (const [limiter, keys] of Object.entries(liveKeys(sources.get(table)!))) {
          this.set({ table, limiter }, keys);
        }
      }
    },
  });
}

/** The counts of every table that is still open. */
function readAll(sources: Sources): ReadonlyMap<string, SluiceStats> {
  const all = new Map<string, SluiceStats>();
  for (const [table, { sluice }] of sources) {
    try {
      all.set(table, sluice.stats());
    } catch (error) {
      if (!(error instanceof SluiceError && error.code === "ERR_SLUICE_CLOSED")) throw error;
      drop(sources, table);
    }
  }
  return all;
}

/** Keys in use by limiter; none if they are not to be counted. */
function liveKeys(source: Source): Readonly<Record<string, number>> {
  const { sluice, liveEveryMs, live } = source;
  if (liveEveryMs === undefined) return {};
  const nowMs = ownMs();
  if (live && nowMs - live.atMs < liveEveryMs) return live.keys;
  const { live: keys } = sluice.audit();
  source.live = { keys, atMs: nowMs };
  return keys;
}
