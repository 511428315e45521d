// Prometheus metrics of a table: the decisions of all threads of the process, read
// by the one thread that answers the scrape. Nothing is counted here: the table
// counts anyway, and a scrape sums its counts up. prom-client (peer dependency)
// has the registry and the format.

import { Counter, Gauge, type Registry } from "prom-client";
import { ownMs } from "./engine/clock.js";
import { checkDuration, SluiceError, unexpected } from "./engine/errors.js";
import type { SluiceStats } from "./engine/limiter/reports.js";
import { Sluice } from "./engine/limiter/sluice.js";
import { checkOptions } from "./engine/options.js";
import type { LimiterStats } from "./engine/table/counters.js";

export interface MetricsOptions {
  /** The registry of prom-client to add the metrics to. */
  registry: Registry;
  /**
   * The value of the label `table`, different for each table of a registry: 1 to 100
   * characters. Default: 'main'.
   */
  table?: string;
  /**
   * The beginning of every metric's name: letters, digits, underscores and colons, no
   * digit first. Default: 'sluice_'.
   */
  prefix?: string;
  /**
   * Also counts the keys in use, at most once in this time, ms >= 0. To count them,
   * the scraping thread walks the table, 10 to 20 ns a slot. Default: no walk, and no
   * such gauge.
   */
  liveEveryMs?: number;
}

const counts: Record<keyof LimiterStats, readonly [name: string, help: string]> = {
  allowed: ["allowed", "Calls admitted, including shadowed ones."],
  denied: ["denied", "Calls refused."],
  shadowed: ["shadowed", "Calls that a limiter in shadow mode admitted and would have refused."],
  evicted: ["evicted", "Keys that lost their slot while in use, because the table was full."],
  fullDenied: ["full_denied", "New keys refused because the table was full."],
  fullAllowed: ["full_allowed", "New keys admitted uncharged because the table was full."],
  contended: ["contended", "Decisions made again because another thread came first."],
  claimed: ["claimed", "Slots given to keys."],
};

interface Source {
  readonly sluice: Sluice;
  readonly liveEveryMs: number | undefined;
  /** The last value that each counter got for each limiter. */
  readonly exported: Map<Counter, Map<string, number>>;
  live: { readonly keys: Readonly<Record<string, number>>; readonly atMs: number } | undefined;
}

/** Tables by their label. */
type Sources = Map<string, Source>;

const registered = new WeakMap<Registry, Map<string, Sources>>();

/**
 * Adds a table to a registry's metrics, labelled by table and limiter. A scrape
 * reads the counts of all threads, also of ended ones, so one thread of the process
 * registers the table. Returns a function that removes the table again; closing the
 * table removes it too.
 * @throws {TypeError | RangeError} if an option is wrong or unknown, or if the
 * registry has a table with this label already
 */
export function registerMetrics(sluice: Sluice, options: MetricsOptions): () => void {
  if (!(sluice instanceof Sluice)) throw unexpected("sluice", "a Sluice", sluice, "object");
  checkOptions(options, ["registry", "table", "prefix", "liveEveryMs"]);
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
  const source: Source = { sluice, liveEveryMs, exported: new Map(), live: undefined };
  sources.set(table, source);
  return () => {
    if (sources.get(table) === source) drop(sources, table);
  };
}

/**
 * The tables that a registry has under a prefix. Makes their metrics if the registry
 * has none, or was cleared.
 */
function sourcesOf(registry: Registry, prefix: string): Sources {
  let byPrefix = registered.get(registry);
  if (!byPrefix) registered.set(registry, byPrefix = new Map());
  let sources = byPrefix.get(prefix);
  if (!sources || !registry.getSingleMetric(`${prefix}capacity`)) {
    byPrefix.set(prefix, sources = new Map());
    makeMetrics(registry, prefix, sources);
  }
  return sources;
}

function drop(sources: Sources, table: string): void {
  for (const [counter, limiters] of sources.get(table)!.exported) {
    for (const limiter of limiters.keys()) counter.remove({ table, limiter });
  }
  sources.delete(table);
}

/** Reads all counts once a scrape: a scrape collects all metrics in one go. */
function readOncePerScrape(sources: Sources): () => ReadonlyMap<string, SluiceStats> {
  let read: ReadonlyMap<string, SluiceStats> | undefined;
  return () => {
    if (!read) {
      read = readAll(sources);
      queueMicrotask(() => (read = undefined));
    }
    return read;
  };
}

function makeMetrics(registry: Registry, prefix: string, sources: Sources): void {
  const stats = readOncePerScrape(sources);
  for (const [count, [name, help]] of Object.entries(counts) as [keyof LimiterStats, readonly [string, string]][]) {
    new Counter({
      name: `${prefix}${name}_total`,
      help,
      labelNames: ["table", "limiter"],
      registers: [registry],
      collect() {
        for (const [table, { limiters }] of stats()) {
          const { exported } = sources.get(table)!;
          const last = exported.get(this) ?? new Map<string, number>();
          exported.set(this, last);
          for (const limiter in limiters) {
            const now = limiters[limiter][count];
            this.inc({ table, limiter }, now - (last.get(limiter) ?? 0));
            last.set(limiter, now);
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

/** Keys in use by limiter; none without `liveEveryMs`. */
function liveKeys(source: Source): Readonly<Record<string, number>> {
  const { sluice, liveEveryMs, live } = source;
  if (liveEveryMs === undefined) return {};
  const nowMs = ownMs();
  if (live && nowMs - live.atMs < liveEveryMs) return live.keys;
  const { live: keys } = sluice.audit();
  source.live = { keys, atMs: nowMs };
  return keys;
}
