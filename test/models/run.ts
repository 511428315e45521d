// Random operations against limiters that share one table, judged step by step
// by ModelBucket, which knows no rounding.
//
// The kernel rounds one thing: its reading of a policy's clock, to the unit of
// the policy's scale. The units alone say how far a word and a reading can be
// off. That is tracked here, in tokens, and nothing beyond it is tolerated.
// Where nothing was rounded (a full bucket) nothing is tolerated.

import {
  type Decision,
  type Key,
  type KeyedLimiter,
  type Limiter,
  ManualClock,
  type Reservation,
  Sluice,
} from "sluice";
import { expect } from "vitest";
import { kernelConstants } from "../../src/engine/table/kernel.js";
import { callsOf } from "../tables.js";
import { ModelBucket, type ModelTicket, quotient } from "./model.js";
import {
  type Cost,
  EXACT_NS,
  KEYS,
  LATEST_NS,
  MAX_AHEAD,
  MAX_COST,
  type On,
  READING,
  type Scenario,
  type Step,
  type Wait,
} from "./scenario.js";

const { at, setsOffset } = kernelConstants();

/** Scenarios that share a table before the next one begins. */
const RUNS_A_TABLE = 60;

/** A table for many scenarios, each with limiters of its own. */
export class Home {
  readonly clock = new ManualClock();
  readonly sluice = Sluice.create({ capacity: 4000, clock: this.clock, maxThreads: 1 });
  readonly bytes = Buffer.from(this.sluice.handle.memory.buffer);
  readonly words = new Int32Array(this.sluice.handle.memory.buffer);
  runs = 0;
  made = 0;

  get setsAt(): number {
    return setsOffset(1);
  }

  recordOf(number: number): number {
    return at.POLICIES + number * at.POLICY_BYTES;
  }

  /** Fails if a slot was lost, doubled or torn in all the runs. */
  close(): void {
    // An audit reports a word far ahead of its clock as torn: give it the latest time there was.
    this.clock.set(Number(LATEST_NS) / 1e6);
    const { evicted, fullDenied } = this.sluice.stats();
    expect({ ...this.sluice.audit(), evicted, fullDenied }).toMatchObject({
      clean: true,
      busy: 0,
      torn: 0,
      doubles: 0,
      strangers: 0,
      locksHeld: 0,
      evicted: 0,
      fullDenied: 0,
    });
    this.sluice.close();
  }
}

interface Bucket {
  readonly of: Limited;
  readonly key: Key | undefined;
  readonly handle: KeyedLimiter;
  readonly calls: ReturnType<typeof callsOf>;
  readonly model: ModelBucket;
  /** How far its word may be from the model's, tokens. */
  wordError: number;
}

interface Limited {
  readonly limiter: Limiter;
  readonly record: number;
  readonly buckets: Bucket[];
  /** How far its clock may be from the model's where its segment begins, tokens. */
  clockError: number;
  /** Units of the two scales before. */
  olderUnits: number[];
}

interface Claim {
  readonly bucket: Bucket;
  readonly reservation: Reservation;
  readonly ticket: ModelTicket;
  /** Last time at which it can be cancelled. */
  readonly untilNs: bigint;
  readonly isDelayed: boolean;
  /** How far its virtual time to act may be off, tokens, and ns. */
  actError: number;
  /** How often the scale changed since. */
  scales: number;
  readonly actErrorNs: number;
}

export type Wrap = (limiter: Limiter) => Limiter;

class Run {
  readonly #home: Home;
  readonly #limited: Limited[];
  readonly #claims: Claim[] = [];
  #now = 0n;

  constructor(home: Home, scenario: Scenario, wrap: Wrap) {
    this.#home = home;
    this.#moveTo(BigInt(scenario.startNs));
    this.#limited = scenario.limiters.map(({ rate, burst }) => {
      const limiter = wrap(home.sluice.tokenBucket(`limiter ${home.made++}`, { rate, burst }));
      const limited: Limited = {
        limiter,
        record: home.recordOf(home.made),
        buckets: [],
        clockError: 0,
        olderUnits: [],
      };
      for (const key of KEYS) {
        limited.buckets.push({
          of: limited,
          key,
          handle: key === undefined ? limiter.global : limiter.key(key),
          calls: callsOf(limiter, key),
          model: new ModelBucket({ rate, burst, nowNs: this.#now }),
          wordError: 0,
        });
      }
      return limited;
    });
  }

  step(step: Step): void {
    switch (step.do) {
      case "allow":
      case "consume":
      case "peek":
        return this.#decide(step.do, this.#bucket(step.on), step.cost, step.by === "handle");
      case "allowMany":
        return this.#allowMany(this.#bucket(step.on), step.keys, step.cost);
      case "charge":
        return this.#charge(this.#bucket(step.on), step.cost);
      case "refund":
        return this.#refund(this.#bucket(step.on), step.cost);
      case "reserve":
        return this.#reserve(this.#bucket(step.on), step.cost, step.maxWait);
      case "cancel":
        return this.#cancel(step.which);
      case "reset":
        return this.#reset(this.#bucket(step.on));
      case "setRate":
        return this.#set(this.#bucket(step.on).of, "rate", step.rate);
      case "setBurst":
        return this.#set(this.#bucket(step.on).of, "burst", step.burst);
      case "pass":
        return this.#moveTo(this.#now + BigInt(step.ns));
      case "passUntil": {
        const bucket = this.#bucket(step.on);
        const wait = bucket.model.waitNs(this.#now, this.#cost(bucket, step.cost));
        return this.#moveTo(this.#now + BigInt(wait < 2 ** 62 ? wait : 0) + BigInt(step.more));
      }
      case "goBack":
        return this.#moveTo(this.#now - BigInt(step.ns));
    }
  }

  // Time, as the kernel reads it: to the nearest nanosecond.

  #moveTo(ns: bigint): void {
    if (ns > LATEST_NS) return;
    this.#home.clock.set(Number(ns < 0n ? 0n : ns) / 1e6);
    this.#now = BigInt(Math.round(this.#home.clock.nowMs * 1e6));
  }

  // What holds exactly.

  #bucket(on: On): Bucket {
    const { buckets } = this.#limited[on % this.#limited.length];
    return buckets[Math.floor(on / this.#limited.length) % buckets.length];
  }

  #cost(bucket: Bucket, cost: Cost): number {
    const wanted = typeof cost === "number" ? cost : Math.floor(this.#tokens(bucket)) + cost[0];
    return Math.min(MAX_COST, Math.max(0, wanted));
  }

  /** Tokens in the bucket less `cost`, in units of the model; negative if tokens are missing. */
  #spare({ model }: Bucket, cost: number): bigint {
    const v = model["reading"](this.#now);
    return v - model["floor"](v) - BigInt(cost) * model["scale"];
  }

  #tokens(bucket: Bucket): number {
    return bucket.model.peekTokens(this.#now);
  }

  #isUnlimited({ model }: Bucket): boolean {
    return model.rate === Infinity;
  }

  /** Tokens by which its word is behind the oldest that counts, that of a full bucket. */
  #overflow({ model }: Bucket): number {
    const z = model["z"];
    if (z === undefined) return Infinity;
    return quotient(model["reading"](this.#now) - z, model["scale"]) - model.burst;
  }

  // What rounding can do, in tokens.

  #segmentAt({ record }: Limited): number {
    return record + at.POLICY_SEGMENT + (this.#home.words[record / 4] & 1) * at.SEGMENT_BYTES;
  }

  #unit(limited: Limited): number {
    return 2 ** -(this.#home.words[(this.#segmentAt(limited) + at.BUCKET_TOKEN_SHIFT) / 4] - 2);
  }

  #scale(limited: Limited): number {
    return this.#home.words[(this.#segmentAt(limited) + at.BUCKET_SCALE) / 4];
  }

  /** Until when the clock runs, ns. */
  #endOf(limited: Limited): bigint {
    const longAt = (offset: number): bigint => this.#home.bytes.readBigInt64LE(this.#segmentAt(limited) + offset);
    return longAt(at.SEGMENT_T0) + longAt(at.SEGMENT_LIFE);
  }

  #readingError(limited: Limited): number {
    return limited.clockError + READING * this.#unit(limited);
  }

  /** How far `spare` may be off: 0 where the bucket is full whatever was rounded. */
  #slack(bucket: Bucket): number {
    const reading = this.#readingError(bucket.of);
    const slack = Math.max(bucket.wordError, reading) + reading;
    return this.#overflow(bucket) > slack ? 0 : slack;
  }

  #nsOf(tokens: number, { model }: Bucket): number {
    return tokens === 0 ? 0 : (tokens * 1e9) / model.rate;
  }

  // What the table must never do.

  #snapshot(): Buffer[] {
    const { bytes, setsAt } = this.#home;
    return [
      bytes.subarray(this.#limited[0].record, this.#limited[this.#limited.length - 1].record + at.POLICY_BYTES),
      bytes.subarray(setsAt),
    ].map((part) => Buffer.from(part));
  }

  #mustNotHaveWritten(before: Buffer[], who: string): void {
    this.#snapshot().forEach((part, i) => {
      if (!part.equals(before[i])) throw new Error(`${who} wrote to the table`);
    });
  }

  // Decisions.

  /** Fails unless a decision is the model's, or differs by rounding; the model then follows it. */
  #judge(who: string, bucket: Bucket, cost: number, isGranted: boolean, isTaken: boolean): void {
    const { model } = bucket;
    if (this.#isUnlimited(bucket)) {
      if (!isGranted) throw new Error(`${who} was refused by an infinite rate`);
      return;
    }
    const spare = quotient(this.#spare(bucket, cost), model["scale"]);
    const slack = this.#slack(bucket);
    const mayBeGranted = cost <= model.burst && spare >= -slack;
    const mayBeRefused = cost > model.burst || spare < slack;
    if (isGranted ? !mayBeGranted : !mayBeRefused) {
      throw new Error(
        `${who} was ${
          isGranted ? "granted" : "refused"
        } with ${spare} tokens to spare, slack ${slack}, at ${this.#now} ns`,
      );
    }
    if (isGranted && isTaken) this.#take(bucket, cost);
  }

  #take(bucket: Bucket, cost: number): void {
    if (cost === 0) return;
    bucket.wordError = this.#overflow(bucket) > this.#slack(bucket)
      ? this.#readingError(bucket.of)
      : Math.max(bucket.wordError, this.#readingError(bucket.of));
    bucket.model.charge(this.#now, cost);
  }

  #decide(how: "allow" | "consume" | "peek", bucket: Bucket, wanted: Cost, byHandle: boolean): void {
    const cost = this.#cost(bucket, wanted);
    const who = `${how}(${String(bucket.key)}, ${cost})`;
    const before = this.#snapshot();
    const answer = byHandle ? bucket.handle[how](cost) : bucket.calls[how](cost);
    const isAllowed = typeof answer === "boolean" ? answer : answer.allowed;
    this.#judge(who, bucket, cost, isAllowed, how !== "peek");
    if (!isAllowed || how === "peek" || cost === 0) this.#mustNotHaveWritten(before, who);
    if (typeof answer !== "boolean") this.#judgeFields(who, bucket, cost, answer);
    if (typeof answer !== "boolean" && !isAllowed) this.#judgeRetry(who, bucket, cost, answer.retryAfterMs);
  }

  #judgeFields(
    who: string,
    bucket: Bucket,
    cost: number,
    { allowed, limit, remaining, retryAfterMs, resetMs }: Decision,
  ): void {
    const { model } = bucket;
    const fail = (what: string): never => {
      throw new Error(`${who} at ${this.#now} ns with ${this.#tokens(bucket)} tokens: ${what}`);
    };
    if (limit !== model.burst) fail(`limit ${limit} is not ${model.burst}`);
    if (!Number.isInteger(remaining) || remaining < 0 || remaining > limit) {
      fail(`remaining ${remaining} is not an integer from 0 to ${limit}`);
    }
    const tokens = this.#tokens(bucket);
    const slack = this.#slack(bucket) + Math.abs(tokens) * 2 ** -52;
    if (remaining > Math.max(0, tokens) + slack || remaining < Math.floor(tokens - slack)) {
      fail(`remaining ${remaining}`);
    }
    if (allowed && retryAfterMs !== 0) fail(`retryAfterMs ${retryAfterMs} though it was allowed`);
    if (!allowed && retryAfterMs === 0) fail("retryAfterMs 0 though it was refused");
    const missing = this.#isUnlimited(bucket) ? 0 : model.burst - tokens;
    this.#judgeNs(`${who}: resetMs`, bucket, missing, slack, resetMs);
    if (!allowed) {
      this.#judgeNs(`${who}: retryAfterMs`, bucket, cost > model.burst ? Infinity : cost - tokens, slack, retryAfterMs);
    }
  }

  /** Fails unless `ms` is how long `lacking` tokens take, in whole ns. */
  #judgeNs(what: string, bucket: Bucket, lacking: number, slack: number, ms: number): void {
    const ns = ms * 1e6;
    const fail = (): never => {
      throw new Error(
        `${what} is ${ns} ns, but ${lacking} tokens are missing at ${bucket.model.rate}/s, slack ${slack}, at ${this.#now} ns`,
      );
    };
    if (lacking === Infinity || (bucket.model.rate === 0 && lacking > slack)) {
      if (ms !== Infinity) fail();
      return;
    }
    if (ms === 0) {
      if (lacking > slack) fail();
      return;
    }
    if (slack === 0 ? lacking <= 0 : lacking < -slack) fail();
    if (bucket.model.rate === 0) return;
    const exact = this.#nsOf(Math.max(0, lacking), bucket);
    // A clock that has not begun yet begins first.
    const begins = Math.max(0, Number(bucket.model["t0"] - this.#now));
    const error = this.#nsOf(slack + this.#unit(bucket.of), bucket) + (exact + begins) * 2 ** -50;
    // Past the clock's end an answer is an estimate, or Infinity.
    if (exact + begins + error > Number(this.#endOf(bucket.of) - this.#now)) return;
    if (Math.abs(ns - begins - Math.ceil(exact)) > error + 1) fail();
  }

  /** Fails unless the refused call would be granted after `retryAfterMs` and not 1 ns before. */
  #judgeRetry(who: string, bucket: Bucket, cost: number, retryAfterMs: number): void {
    const { clock } = this.#home;
    const { nowMs } = clock;
    const waitNs = BigInt(Math.round(Math.min(retryAfterMs * 1e6, 2 ** 60)));
    if (this.#now + waitNs > EXACT_NS) return;
    clock.advance(retryAfterMs);
    if (!bucket.handle.peek(cost).allowed) {
      throw new Error(`${who} would still be refused after its retryAfterMs, ${waitNs} ns from ${this.#now}`);
    }
    const unitNs = this.#nsOf(this.#unit(bucket.of), bucket);
    const sooner = waitNs - 1n - (unitNs > 1 ? BigInt(Math.ceil(unitNs)) : 0n);
    if (sooner >= 0n) {
      clock.set(Number(this.#now + sooner) / 1e6);
      if (bucket.handle.peek(cost).allowed) {
        throw new Error(`${who} would be granted before its retryAfterMs, ${sooner} of ${waitNs} ns from ${this.#now}`);
      }
    }
    clock.set(nowMs);
  }

  #allowMany({ of }: Bucket, keys: number[], wanted: Cost): void {
    const buckets = keys.map((key) => of.buckets[key]);
    if (buckets.length === 0) return;
    const cost = this.#cost(buckets[0], wanted);
    const answers = of.limiter.allowMany(buckets.map(({ key }) => key!), cost);
    buckets.forEach((bucket, i) =>
      this.#judge(`allowMany, key ${i}, cost ${cost}`, bucket, cost, answers[i] === 1, true)
    );
  }

  // Reservations.

  /** True if a word would run farther ahead of its clock than some scale allows; such a step is left out. */
  #isTooFarAhead(bucket: Bucket, cost: number): boolean {
    return quotient(-this.#spare(bucket, cost), bucket.model["scale"]) > MAX_AHEAD;
  }

  #reserve(bucket: Bucket, wanted: Cost, maxWait: Wait): void {
    const { model, of } = bucket;
    const cost = this.#cost(bucket, wanted);
    if (this.#isTooFarAhead(bucket, cost)) return;
    const waits = model.waitNs(this.#now, cost);
    let maxWaitMs = Infinity;
    if (typeof maxWait === "number") maxWaitMs = maxWait / 1e6;
    if (Array.isArray(maxWait) && waits < 2 ** 52) maxWaitMs = Math.max(0, waits + maxWait[0]) / 1e6;
    const who = `reserve(${String(bucket.key)}, ${cost}, ${maxWaitMs})`;

    const lacking = -this.#spare(bucket, cost);
    const slack = this.#slack(bucket);
    const isPossible = this.#isUnlimited(bucket) || cost <= model.burst;
    // A wait beyond the end of the clock never ends.
    const begin = this.#now > model["t0"] ? this.#now : model["t0"];
    const until = this.#now + BigInt(Math.round(Math.min(maxWaitMs * 1e6, 2 ** 62)));
    const end = this.#endOf(of);
    const horizon = until < end ? until : end;
    const comes = horizon > begin ? (horizon - begin) * model["unitsANs"] : 0n;
    const late = quotient(lacking - comes, model["scale"]);
    const horizonSlack = lacking <= 0n && slack === 0 ? 0 : slack + this.#readingError(of);

    const before = this.#snapshot();
    const reservation = maxWait === "default"
      ? bucket.handle.reserve(cost)
      : bucket.calls.reserve(cost, { maxWaitMs });
    const { granted, delayMs } = reservation;
    if (!granted || cost === 0) this.#mustNotHaveWritten(before, who);
    if (this.#isUnlimited(bucket)) {
      if (!granted || delayMs !== 0) throw new Error(`${who} was delayed by an infinite rate`);
    } else {
      if (granted ? !isPossible || late > horizonSlack : isPossible && late <= -horizonSlack) {
        throw new Error(
          `${who} was ${
            granted ? "granted" : "refused"
          } though late by ${late} tokens, slack ${horizonSlack}, at ${this.#now} ns`,
        );
      }
      const lackingTokens = isPossible
        ? Math.max(lacking > 0n ? 0 : -Infinity, quotient(lacking, model["scale"]))
        : Infinity;
      this.#judgeNs(`${who}: delayMs`, bucket, lackingTokens, slack, delayMs);
    }
    if (granted) this.#claim(bucket, cost, reservation);
  }

  #claim(bucket: Bucket, cost: number, reservation: Reservation): void {
    const readingError = this.#readingError(bucket.of);
    if (cost > 0) bucket.wordError = Math.max(bucket.wordError, readingError);
    const { ticket } = bucket.model.reserve(this.#now, cost, Infinity, true);
    // Rounding may complete a token that the model, at rate 0, never completes.
    ticket.never = false;
    const isDelayed = reservation.delayMs > 0;
    if (cost === 0) ticket.spent = true;
    const actErrorNs = this.#isUnlimited(bucket) || bucket.model.rate === 0
      ? 0
      : this.#nsOf(bucket.wordError + readingError, bucket);
    this.#claims.push({
      bucket,
      reservation,
      ticket,
      untilNs: isDelayed ? ticket.untilNs ?? this.#now : this.#now,
      isDelayed,
      actError: bucket.wordError,
      scales: 0,
      actErrorNs,
    });
  }

  #cancel(which: number): void {
    const claim = this.#claims[which % Math.max(1, this.#claims.length)];
    if (!claim) return;
    const { bucket, reservation, ticket } = claim;
    const { model } = bucket;
    const who = `cancel of ${ticket.cost} tokens of ${String(bucket.key)} at ${this.#now} ns`;
    const before = this.#snapshot();
    const wentBack = reservation.cancel();
    if (!wentBack) this.#mustNotHaveWritten(before, who);
    if (ticket.spent || ticket.era !== model["era"] || this.#isUnlimited(bucket)) {
      if (wentBack) throw new Error(`${who} gave back what was never taken, or was given back before`);
      ticket.spent = true;
      return;
    }

    // Before a segment begins time stands still, so its beginning counts as now.
    const begun = this.#now > model["t0"] ? this.#now : model["t0"];
    const [lateNs, latestNs] = [this.#now - claim.untilNs, begun - claim.untilNs].map(Number);
    const lateError = claim.isDelayed ? claim.actErrorNs + 1 + Number(begun) * 2 ** -52 : 0;
    const behind = model["z"] === undefined
      ? 0
      : quotient(model["z"] - ticket.end * (model["scale"] / ticket.scale), model["scale"]);
    const back = Number(ticket.cost) - Math.max(0, behind);
    const error = bucket.wordError + claim.actError;
    const missing = model.burst - this.#tokens(bucket);
    const slack = this.#slack(bucket);
    const may = lateNs <= lateError && back > -error && missing > -slack && this.#overflow(bucket) <= slack;
    // A reservation of three scales ago may give nothing back, but never twice.
    const must = claim.scales < 3 && latestNs <= -lateError && back > error && missing > slack;
    if (wentBack ? !may : must) {
      throw new Error(
        `${who} gave ${
          wentBack ? "tokens" : "nothing"
        } back, ${lateNs} ns late, ${back} not reserved again (error ${error}), ${missing} missing`,
      );
    }
    if (!wentBack) {
      ticket.spent = true;
      return;
    }
    ticket.untilNs = undefined;
    if (behind > -error) bucket.wordError += error;
    bucket.wordError = Math.max(bucket.wordError, this.#readingError(bucket.of));
    model.cancel(this.#now, ticket);
    this.#capped(bucket);
  }

  // The rest.

  /** A refund fills the bucket as it is now; the model would remember the excess for a larger burst. */
  #capped({ model }: Bucket): void {
    model["z"] = model["floor"](model["reading"](this.#now));
  }

  #charge(bucket: Bucket, wanted: Cost): void {
    const cost = this.#cost(bucket, wanted);
    if (this.#isTooFarAhead(bucket, cost)) return;
    bucket.calls.charge(cost);
    this.#take(bucket, cost);
  }

  #refund(bucket: Bucket, wanted: Cost): void {
    const cost = this.#cost(bucket, wanted);
    bucket.calls.refund(cost);
    if (cost === 0 || this.#isUnlimited(bucket) || this.#overflow(bucket) > this.#slack(bucket)) return;
    bucket.wordError = Math.max(bucket.wordError, this.#readingError(bucket.of));
    bucket.model.refund(this.#now, cost);
    this.#capped(bucket);
  }

  #reset(bucket: Bucket): void {
    bucket.calls.reset();
    bucket.model.reset();
  }

  #set(limited: Limited, what: "rate" | "burst", to: number): void {
    if (limited.buckets.some((bucket) => this.#isTooFarAhead(bucket, 0))) return;
    const unit = this.#unit(limited);
    const scale = this.#scale(limited);
    limited.clockError = this.#readingError(limited);
    if (what === "rate") limited.limiter.setRate(to);
    else limited.limiter.setBurst(to);
    expect(limited.limiter[what]).toBe(to);
    // In another scale a word is rounded once more, in the coarser of the two units.
    const rounding = this.#scale(limited) === scale ? 0 : unit + this.#unit(limited);
    for (const bucket of limited.buckets) {
      bucket.wordError += rounding;
      const { model } = bucket;
      if (what === "rate") model.setRate(this.#now, to);
      else {
        // A new burst begins a new segment too, before which time stands still.
        model["v0"] = model["reading"](this.#now);
        model["t0"] = model["clamped"](this.#now);
        model.setBurst(this.#now, to);
      }
    }
    if (rounding === 0) return;
    limited.olderUnits = [unit, ...limited.olderUnits.slice(0, 1)];
    for (const bucket of limited.buckets) {
      // A word that is farther behind than its scale can express may forget by how much.
      const most = Math.min(this.#unit(limited), ...limited.olderUnits) * 2 ** 56;
      const overflow = this.#overflow(bucket);
      if (overflow !== Infinity && overflow + bucket.model.burst > most) this.#reset(bucket);
    }
    for (const claim of this.#claims) {
      if (claim.bucket.of !== limited) continue;
      claim.actError += rounding;
      claim.scales++;
    }
  }
}

/** The table of the present scenario. */
export let home = new Home();

/** The table of the next scenario: another one, once the last has served its runs. */
export function nextHome(): Home {
  if (home.runs++ === RUNS_A_TABLE) closeHome();
  return home;
}

/** Closes the present table, and fails if its runs left anything wrong there. */
export function closeHome(): void {
  const last = home;
  home = new Home();
  last.close();
}

export function play(scenario: Scenario, wrap: Wrap = (limiter) => limiter): void {
  const run = new Run(nextHome(), scenario, wrap);
  scenario.steps.forEach((step, i) => {
    try {
      run.step(step);
    } catch (error) {
      throw new Error(`step ${i}: ${(error as Error).message}`, { cause: error });
    }
  });
}
