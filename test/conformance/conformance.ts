// Replays the recorded behaviour of golang.org/x/time/rate and of Guava's
// RateLimiter (test/conformance/*.jsonl, described in its README) against any
// limiter behind a small adapter, and returns the differences. The tolerances
// are those of the README; do not widen them.

import { readFileSync } from "node:fs";

// --- what was recorded --------------------------------------------------------

export type GoRate = number | "inf";

export type GoOperation =
  | { op: "allow"; t: number; n: number; ok: boolean; edge?: boolean; tokens?: number }
  | {
    op: "reserve";
    t: number;
    n: number;
    id: string;
    ok: boolean;
    delay: number | "inf";
    edge?: boolean;
    tokens?: number;
  }
  | { op: "cancel"; t: number; id: string; tokens?: number }
  | { op: "tokens"; t: number; tokens?: number }
  | { op: "setLimit"; t: number; rate: GoRate; tokens?: number }
  | { op: "setBurst"; t: number; burst: number; tokens?: number };

export interface GoScenario {
  id: string;
  rate: GoRate;
  burst: number;
  ops: GoOperation[];
}

export type GuavaOperation =
  | { op: "acquire"; t: number; n: number; waitUs: number }
  | { op: "tryAcquire"; t: number; n: number; timeoutUs: number; ok: boolean; waitUs?: number }
  | { op: "setRate"; t: number; rate: number };

export interface GuavaScenario {
  id: string;
  kind: "bursty" | "warmingUp";
  permitsPerSecond: number;
  warmupUs?: number;
  coldFactor?: number;
  ops: GuavaOperation[];
}

function rowsOf<Row>(name: string): Row[] {
  const text = readFileSync(new URL(`./${name}.jsonl`, import.meta.url), "utf8");
  return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as Row);
}

export function goScenarios(): GoScenario[] {
  return rowsOf("go");
}

export function goQuirkScenarios(): GoScenario[] {
  return rowsOf("go-quirks");
}

export function guavaScenarios(kind?: GuavaScenario["kind"]): GuavaScenario[] {
  return rowsOf<GuavaScenario>("guava").filter((row) => kind === undefined || row.kind === kind);
}

export function guavaQuirkScenarios(): GuavaScenario[] {
  return rowsOf("guava-quirks");
}

export function rateOf(rate: GoRate): number {
  return rate === "inf" ? Infinity : rate;
}

// --- what is asked of an implementation ---------------------------------------

export interface GoReservation {
  granted: boolean;
  /** 0 now, Infinity never. */
  delayNs: number;
}

/** Made full at time 0. Every time is in whole nanoseconds, safe integers. */
export interface GoLimiter<Reservation extends GoReservation = GoReservation> {
  allow(atNs: number, cost: number): boolean;
  /** Waits for any time, even at a rate of 0; refuses only a cost above the burst. */
  reserve(atNs: number, cost: number): Reservation;
  /** Also called for reservations that were refused or cancelled. */
  cancel(atNs: number, reservation: Reservation): void;
  /** Fractions included; negative in debt. */
  tokens(atNs: number): number;
  setLimit(atNs: number, rate: number): void;
  setBurst(atNs: number, burst: number): void;
}

/** Made at time 0. Times are in whole microseconds, waits may have fractions. */
export interface GuavaLimiter {
  /** The wait in microseconds. */
  acquire(atUs: number, permits: number): number;
  /** The wait in microseconds, or undefined if refused. */
  tryAcquire(atUs: number, permits: number, timeoutUs: number): number | undefined;
  setRate(atUs: number, rate: number): void;
}

// --- Go -----------------------------------------------------------------------

const NS_A_SECOND = 1e9;

function delayToleranceNs(delayNs: number, rate: number): number {
  const refillNs = rate > 0 && rate < Infinity ? (2e-9 / rate) * NS_A_SECOND : 0;
  return Math.max(1e3, 1e-9 * delayNs, refillNs);
}

function tokensTolerance(tokens: number): number {
  return Math.max(1e-6, 1e-9 * Math.abs(tokens));
}

function isNear(got: number, expected: number, tolerance: number): boolean {
  return got === expected || Math.abs(got - expected) <= tolerance;
}

function disagreement(id: string, index: number, what: string, expected: unknown, got: unknown): string {
  return `${id} op ${index} ${what}: expected ${expected}, got ${got}`;
}

/**
 * Replays one row of go.jsonl. After an allowed difference at an edge the states
 * differ, so the rest of the row is skipped.
 */
export function runGo<Reservation extends GoReservation>(
  scenario: GoScenario,
  makeLimiter: (scenario: GoScenario) => GoLimiter<Reservation>,
): string[] {
  const limiter = makeLimiter(scenario);
  const found: string[] = [];
  const reservations = new Map<string, Reservation>();
  let rate = rateOf(scenario.rate);
  for (const [index, op] of scenario.ops.entries()) {
    const report = (what: string, expected: unknown, got: unknown) => {
      found.push(disagreement(scenario.id, index, `${op.op} ${what}`, expected, got));
    };
    switch (op.op) {
      case "allow": {
        const got = limiter.allow(op.t, op.n);
        if (got !== op.ok) {
          if (op.edge) return found;
          report("ok", op.ok, got);
        }
        break;
      }
      case "reserve": {
        const got = limiter.reserve(op.t, op.n);
        reservations.set(op.id, got);
        if (got.granted !== op.ok) {
          if (op.edge) return found;
          report("ok", op.ok, got.granted);
        } else if (op.ok) {
          const delay = op.delay === "inf" ? Infinity : op.delay;
          if (!isNear(got.delayNs, delay, delayToleranceNs(delay, rate))) report("delay ns", delay, got.delayNs);
        }
        break;
      }
      case "cancel":
        limiter.cancel(op.t, reserved(scenario, reservations, op.id));
        break;
      case "setLimit":
        rate = rateOf(op.rate);
        limiter.setLimit(op.t, rate);
        break;
      case "setBurst":
        limiter.setBurst(op.t, op.burst);
        break;
    }
    if (op.tokens !== undefined) {
      const got = limiter.tokens(op.t);
      if (!isNear(got, op.tokens, tokensTolerance(op.tokens))) report("tokens", op.tokens, got);
    }
  }
  return found;
}

function reserved<Reservation>(scenario: GoScenario, reservations: Map<string, Reservation>, id: string): Reservation {
  const reservation = reservations.get(id);
  if (reservation === undefined) throw new Error(`${scenario.id} cancels ${id}, which it never reserved`);
  return reservation;
}

/**
 * Replays one row of go-quirks.jsonl, where time goes backwards and
 * reservations are cancelled twice. Go's answers are not compared. What acts
 * until any time T must be at most burst + rate x (T - start), and a second
 * cancel must change nothing. Time is the latest seen; the start is the first
 * grant, until which the bucket was full.
 */
export function runGoQuirks<Reservation extends GoReservation>(
  scenario: GoScenario,
  makeLimiter: (scenario: GoScenario) => GoLimiter<Reservation>,
): string[] {
  const limiter = makeLimiter(scenario);
  const found: string[] = [];
  const reservations = new Map<string, Reservation>();
  const cancelled = new Set<string>();
  const rate = rateOf(scenario.rate);
  const acts: { index: number; id: string; cost: number; atNs: number; slackNs: number }[] = [];
  let latest = 0;
  let start: number | undefined;
  for (const [index, op] of scenario.ops.entries()) {
    latest = Math.max(latest, op.t);
    switch (op.op) {
      case "allow":
        if (limiter.allow(op.t, op.n)) {
          start ??= op.t;
          acts.push({ index, id: "", cost: op.n, atNs: latest, slackNs: 0 });
        }
        break;
      case "reserve": {
        const got = limiter.reserve(op.t, op.n);
        reservations.set(op.id, got);
        if (got.granted && got.delayNs < Infinity) {
          start ??= op.t;
          // Without a wait there is nothing to round.
          const slackNs = got.delayNs === 0 ? 0 : delayToleranceNs(got.delayNs, rate);
          acts.push({ index, id: op.id, cost: op.n, atNs: latest + got.delayNs, slackNs });
        }
        break;
      }
      case "cancel": {
        const before = limiter.tokens(op.t);
        limiter.cancel(op.t, reserved(scenario, reservations, op.id));
        const after = limiter.tokens(op.t);
        if (cancelled.has(op.id) && after !== before) {
          found.push(disagreement(scenario.id, index, "second cancel, tokens", before, after));
        }
        // One that gave nothing back may have acted already, so it counts.
        const act = acts.find(({ id }) => id === op.id);
        if (act !== undefined && after > before) acts.splice(acts.indexOf(act), 1);
        cancelled.add(op.id);
        break;
      }
      case "tokens":
        limiter.tokens(op.t);
        break;
      case "setLimit":
      case "setBurst":
        throw new Error(`${scenario.id} reconfigures, which has no one bound`);
    }
  }
  acts.sort((a, b) => a.atNs - b.atNs);
  let total = 0;
  for (const [position, act] of acts.entries()) {
    total += act.cost;
    if (acts[position + 1]?.atNs === act.atNs) continue;
    const bound = scenario.burst + (rate * (act.atNs + act.slackNs - (start ?? 0))) / NS_A_SECOND;
    if (total > bound + tokensTolerance(bound)) {
      found.push(disagreement(scenario.id, act.index, `admitted by ${act.atNs} ns`, `at most ${bound}`, total));
    }
  }
  return found;
}

// --- Guava --------------------------------------------------------------------

/**
 * Replays one row of guava.jsonl. Guava cuts every charge to whole
 * microseconds, so waits may differ by 1 us for each charge and 1 us more. An
 * answer may differ where the recorded boundary is nearer than that; the rest
 * of the row is then skipped.
 */
export function runGuava(scenario: GuavaScenario, makeLimiter: (scenario: GuavaScenario) => GuavaLimiter): string[] {
  const limiter = makeLimiter(scenario);
  const found: string[] = [];
  let charges = 0;
  for (const [index, op] of scenario.ops.entries()) {
    const report = (what: string, expected: unknown, got: unknown) => {
      found.push(disagreement(scenario.id, index, `${op.op} ${what}`, expected, got));
    };
    const toleranceUs = charges + 1;
    if (op.op === "setRate") {
      limiter.setRate(op.t, op.rate);
    } else if (op.op === "acquire") {
      const got = limiter.acquire(op.t, op.n);
      charges++;
      if (!isNear(got, op.waitUs, toleranceUs)) report("wait us", op.waitUs, got);
    } else {
      let got = limiter.tryAcquire(op.t, op.n, op.timeoutUs);
      // Refused where Guava grants: asked again with the tolerance, so that both have granted.
      if (op.ok && got === undefined) got = limiter.tryAcquire(op.t, op.n, op.timeoutUs + toleranceUs);
      if ((got !== undefined) !== op.ok) {
        if (marginUs(scenario, index) < toleranceUs) return found;
        report("ok", op.ok, got !== undefined);
      }
      if (op.ok) charges++;
      if (got !== undefined && op.waitUs !== undefined && !isNear(got, op.waitUs, toleranceUs)) {
        report("wait us", op.waitUs, got);
      }
    }
  }
  return found;
}

/**
 * How far a recorded tryAcquire was from its boundary, if the record shows it.
 * A wait > 0 shows when the limiter is next free, and so does a later one: a
 * refusal charges nothing, and a change of rate does not move it.
 */
function marginUs(scenario: GuavaScenario, index: number): number {
  const asked = scenario.ops[index];
  if (asked.op !== "tryAcquire") throw new Error(`${scenario.id} op ${index} is not a tryAcquire`);
  for (const op of scenario.ops.slice(index)) {
    if (op.op === "setRate" || (op.op === "tryAcquire" && !op.ok)) continue;
    if (op.waitUs === undefined || op.waitUs === 0) return Infinity;
    return Math.abs(asked.t + asked.timeoutUs - (op.t + op.waitUs));
  }
  return Infinity;
}
