// The limiters, slow and obvious: one key, exact arithmetic, no table and no
// rounding. The kernel's answers are judged against these.
//
// ModelBucket counts in units so small that tokens and what flows in a whole
// nanosecond are whole numbers of them; a new rate may need smaller ones.
// ModelGuava needs 1 / rate and counts time in fractions instead.
//
// Nothing here remembers a reading of the clock: a time before the present
// segment began counts as its beginning, and adds nothing.

const NS_A_SECOND = 1_000_000_000n;

/** over / under, under > 0. */
export interface Fraction {
  over: bigint;
  under: bigint;
}

/** The value of a finite double >= 0, exactly. */
export function fractionOf(value: number): Fraction {
  const { mantissa, power } = parts(value);
  return scaled(mantissa, power);
}

/**
 * The simplest fraction that rounds to a double. It is what 1 / 86400 means,
 * which no double equals: a day should bring one whole token.
 */
export function meantBy(value: number): Fraction {
  const { mantissa, power } = parts(value);
  if (mantissa === 0n) return { over: 0n, under: 1n };
  const below = mantissa === 1n << 52n ? 1n : 2n;
  return simplestBetween(scaled(4n * mantissa - below, power - 2n), scaled(4n * mantissa + 2n, power - 2n));
}

function parts(value: number): { mantissa: bigint; power: bigint } {
  if (!(value >= 0) || value === Infinity) throw new RangeError(`"value" expected a finite number >= 0, got ${value}`);
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const bits = view.getBigUint64(0);
  const exponent = bits >> 52n;
  const mantissa = (bits & ((1n << 52n) - 1n)) | (exponent === 0n ? 0n : 1n << 52n);
  return { mantissa, power: (exponent === 0n ? 1n : exponent) - 1075n };
}

function scaled(mantissa: bigint, power: bigint): Fraction {
  return power >= 0n ? { over: mantissa << power, under: 1n } : reduced({ over: mantissa, under: 1n << -power });
}

function simplestBetween(low: Fraction, high: Fraction): Fraction {
  const whole = low.over / low.under;
  if (whole * low.under === low.over) return { over: whole, under: 1n };
  if ((whole + 1n) * high.under <= high.over) return { over: whole + 1n, under: 1n };
  const rest = simplestBetween(
    { over: high.under, under: high.over - whole * high.under },
    { over: low.under, under: low.over - whole * low.under },
  );
  return { over: whole * rest.over + rest.under, under: rest.over };
}

function divisor(a: bigint, b: bigint): bigint {
  let [x, y] = [a < 0n ? -a : a, b];
  while (y !== 0n) [x, y] = [y, x % y];
  return x;
}

function reduced({ over, under }: Fraction): Fraction {
  const common = divisor(over, under);
  return { over: over / common, under: under / common };
}

/** over / under as the nearest double, or next to it. */
export function quotient(over: bigint, under: bigint): number {
  const negative = over < 0n;
  const magnitude = negative ? -over : over;
  const bitsMissing = 80 - (magnitude.toString(16).length - under.toString(16).length) * 4;
  const shift = bitsMissing > 0 ? bitsMissing : 0;
  const value = Number((magnitude << BigInt(shift)) / under) * 2 ** -shift;
  return negative ? -value : value;
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

export interface ModelReservation {
  granted: boolean;
  /** 0 now, Infinity never (or refused because it would never fit). */
  delayNs: number;
  ticket: ModelTicket;
}

/** What `cancel` needs; opaque to a caller. */
export interface ModelTicket {
  cost: bigint;
  /** Units a token in which `end` counts. */
  scale: bigint;
  /** max(z, v) as they were when it was reserved. */
  end: bigint;
  /** The last whole nanosecond at which it can be cancelled; undefined: at any time. */
  untilNs: bigint | undefined;
  never: boolean;
  era: number;
  spent: boolean;
}

export interface ModelBucketOptions {
  /** Tokens per second: 0, finite, or Infinity. A double is taken at its exact value. */
  rate: number | Fraction;
  burst: number;
  nowNs: bigint;
  /**
   * Whether `setBurst` first caps the bucket at the old burst, as Go does: a
   * full bucket then gains nothing at once from a larger burst. Without it only
   * tokens(now) = min(burst, v - z) counts, and a full bucket stays full.
   */
  settles?: boolean;
  /**
   * Whether a wait is cut to whole nanoseconds before it is judged, as Go does:
   * a call that is less than 1 ns early is then granted at once, above the bound.
   * It matters only at rates near 1e9 and more.
   */
  cutsWaits?: boolean;
}

/** A token bucket for one key. */
export class ModelBucket {
  private readonly settles: boolean;
  private readonly cutsWaits: boolean;
  private rateNow: number | Fraction;
  private burstTokens: bigint;
  /** Units a token. */
  private scale = NS_A_SECOND;
  private unitsANs = 0n;
  private t0: bigint;
  private v0 = 0n;
  /** Undefined for a key never seen: the bucket is full under any burst. */
  private z: bigint | undefined;
  /** Goes up whenever the rate was infinite: what was reserved before is forgotten. */
  private era = 0;

  constructor({ rate, burst, nowNs, settles = false, cutsWaits = false }: ModelBucketOptions) {
    this.settles = settles;
    this.cutsWaits = cutsWaits;
    this.rateNow = rate;
    this.burstTokens = BigInt(burst);
    this.t0 = nowNs;
    this.flowAt(rate);
  }

  get rate(): number {
    return typeof this.rateNow === "number" ? this.rateNow : quotient(this.rateNow.over, this.rateNow.under);
  }

  get burst(): number {
    return Number(this.burstTokens);
  }

  /** True if the tokens were taken. A cost of 0 asks and takes nothing. */
  allow(nowNs: bigint, cost: number): boolean {
    return this.take(nowNs, cost, 0n) !== undefined;
  }

  /** Tokens in the bucket, fractions included; negative in debt; the burst while the rate is infinite. */
  peekTokens(nowNs: bigint): number {
    if (this.rateNow === Infinity) return this.burst;
    const v = this.reading(nowNs);
    return quotient(v - this.floor(v), this.scale);
  }

  /** Nanoseconds until `cost` tokens are there, rounded up: 0 now, Infinity never. */
  waitNs(nowNs: bigint, cost: number): number {
    if (this.rateNow === Infinity) return 0;
    const v = this.reading(nowNs);
    if (BigInt(cost) > this.burstTokens) return Infinity;
    const lacking = this.floor(v) + BigInt(cost) * this.scale - v;
    if (lacking <= 0n) return 0;
    if (this.unitsANs === 0n) return Infinity;
    return Number((lacking + this.unitsANs - 1n) / this.unitsANs);
  }

  /**
   * Claims `cost` tokens if they are there within `maxWaitNs` (a whole number or
   * Infinity). `evenNever` also grants tokens that a rate of 0 never brings.
   */
  reserve(nowNs: bigint, cost: number, maxWaitNs: number | bigint, evenNever = false): ModelReservation {
    const now = this.clamped(nowNs);
    const maxWait = maxWaitNs === Infinity ? undefined : BigInt(maxWaitNs);
    const before = this.floor(this.reading(now));
    const lacking = this.take(now, cost, maxWait, evenNever);
    const ticket: ModelTicket = {
      cost: BigInt(cost),
      scale: this.scale,
      end: 0n,
      untilNs: now,
      never: false,
      era: this.era,
      spent: false,
    };
    if (lacking === undefined) {
      ticket.spent = true;
      return { granted: false, delayNs: this.refusedDelayNs(now, cost, before), ticket };
    }
    if (this.rateNow === Infinity) {
      ticket.spent = true;
      return { granted: true, delayNs: 0, ticket };
    }
    const v = this.reading(now);
    ticket.end = v + lacking;
    if (lacking === 0n) return { granted: true, delayNs: 0, ticket };
    if (this.unitsANs === 0n) {
      ticket.never = true;
      ticket.untilNs = undefined;
      return { granted: true, delayNs: Infinity, ticket };
    }
    ticket.untilNs = now + lacking / this.unitsANs;
    return { granted: true, delayNs: quotient(lacking, this.unitsANs), ticket };
  }

  /** Gives back what no later reservation relies on. True if that was more than 0. */
  cancel(nowNs: bigint, ticket: ModelTicket): boolean {
    const now = this.clamped(nowNs);
    if (ticket.spent) return false;
    // Too late stays too late, even if time then goes backwards.
    ticket.spent = true;
    if (ticket.era !== this.era || this.rateNow === Infinity) return false;
    if (ticket.untilNs !== undefined && now > ticket.untilNs) return false;
    // A word that was reset, or a bucket that is long full again, is behind the end anyway.
    const end = ticket.end * (this.scale / ticket.scale);
    const reservedSince = ticket.never || this.z === undefined ? 0n : larger(0n, this.z - end);
    const restore = ticket.cost * this.scale - reservedSince;
    if (restore <= 0n) return false;
    this.z = this.floor(this.reading(now)) - restore;
    return true;
  }

  /** Puts tokens back, up to the burst. */
  refund(nowNs: bigint, cost: number): void {
    if (this.rateNow === Infinity || cost === 0) return;
    this.z = this.floor(this.reading(nowNs)) - BigInt(cost) * this.scale;
  }

  /** Takes tokens whether or not they are there, above the burst too. */
  charge(nowNs: bigint, cost: number): void {
    if (this.rateNow === Infinity || cost === 0) return;
    this.z = this.floor(this.reading(nowNs)) + BigInt(cost) * this.scale;
  }

  /** As if never seen. */
  reset(): void {
    this.z = undefined;
  }

  /** Whether the bucket is full. */
  isFresh(nowNs: bigint): boolean {
    if (this.rateNow === Infinity || this.z === undefined) return true;
    return this.reading(nowNs) - this.z >= this.burstTokens * this.scale;
  }

  setRate(nowNs: bigint, rate: number | Fraction): void {
    this.v0 = this.reading(nowNs);
    this.t0 = this.clamped(nowNs);
    if (this.rateNow === Infinity || rate === Infinity) {
      this.z = undefined;
      this.era++;
    }
    this.rateNow = rate;
    this.flowAt(rate);
  }

  setBurst(nowNs: bigint, burst: number): void {
    if (this.settles && this.rateNow !== Infinity) this.z = this.floor(this.reading(nowNs));
    this.burstTokens = BigInt(burst);
  }

  /** Sets `unitsANs`, with smaller units where the rate needs them. */
  private flowAt(rate: number | Fraction): void {
    const { over, under } = typeof rate !== "number" ? rate : fractionOf(rate === Infinity ? 0 : rate);
    const parts = under * NS_A_SECOND;
    const factor = parts / divisor(over * this.scale, parts);
    this.scale *= factor;
    this.v0 *= factor;
    if (this.z !== undefined) this.z *= factor;
    this.unitsANs = (over * this.scale) / parts;
  }

  private clamped(nowNs: bigint): bigint {
    return larger(nowNs, this.t0);
  }

  private reading(nowNs: bigint): bigint {
    return this.v0 + (this.clamped(nowNs) - this.t0) * this.unitsANs;
  }

  private floor(v: bigint): bigint {
    const full = v - this.burstTokens * this.scale;
    return this.z === undefined ? full : larger(this.z, full);
  }

  /** Units that are missing once taken, at least 0; undefined if refused. A `maxWait` of undefined is unlimited. */
  private take(nowNs: bigint, cost: number, maxWait: bigint | undefined, evenNever = false): bigint | undefined {
    if (this.rateNow === Infinity) return 0n;
    if (BigInt(cost) > this.burstTokens) return undefined;
    const v = this.reading(nowNs);
    const end = this.floor(v) + BigInt(cost) * this.scale;
    const lacking = larger(0n, end - v);
    if (lacking > 0n && !this.isPermitted(lacking, maxWait, evenNever)) return undefined;
    if (cost > 0) this.z = end;
    return lacking;
  }

  private isPermitted(lacking: bigint, maxWait: bigint | undefined, evenNever: boolean): boolean {
    if (this.unitsANs === 0n) return maxWait === undefined && evenNever;
    if (maxWait === undefined) return true;
    return this.cutsWaits ? lacking / this.unitsANs <= maxWait : lacking <= maxWait * this.unitsANs;
  }

  private refusedDelayNs(now: bigint, cost: number, floor: bigint): number {
    if (BigInt(cost) > this.burstTokens || this.unitsANs === 0n) return Infinity;
    return quotient(floor + BigInt(cost) * this.scale - this.reading(now), this.unitsANs);
  }
}

/**
 * Guava's bursty RateLimiter (SmoothRateLimiter.SmoothBursty): the next caller
 * pays, one second of permits can be stored, none are at first.
 *
 * It is the same word, counted in time instead of tokens: `paidUntil` is when
 * everything taken so far is paid for, at most one second ago. Counted in time,
 * neither stored permits nor debt change with the rate: Guava scales them to
 * the same effect.
 */
export class ModelGuava {
  private readonly startNs: bigint;
  private rateFraction: Fraction;
  private paidUntil: Fraction;

  constructor({ rate, nowNs }: { rate: number | Fraction; nowNs: bigint }) {
    this.startNs = nowNs;
    this.rateFraction = positive(rate);
    this.paidUntil = { over: nowNs, under: 1n };
  }

  get rate(): number {
    return quotient(this.rateFraction.over, this.rateFraction.under);
  }

  /** Nanoseconds this caller has to wait; the cost is charged to the next one. */
  acquire(nowNs: bigint, cost: number): number {
    const now = larger(nowNs, this.startNs);
    const wait = this.waitNs(now);
    const oldest = { over: now - NS_A_SECOND, under: 1n };
    const from = isBefore(this.paidUntil, oldest) ? oldest : this.paidUntil;
    this.paidUntil = sum(from, {
      over: BigInt(cost) * NS_A_SECOND * this.rateFraction.under,
      under: this.rateFraction.over,
    });
    return wait;
  }

  /** Takes only if the wait is within `timeoutNs`; `delayNs` is the wait, granted or not. */
  tryAcquire(nowNs: bigint, cost: number, timeoutNs: number | bigint): { granted: boolean; delayNs: number } {
    const now = larger(nowNs, this.startNs);
    const patient = timeoutNs === Infinity;
    const limit = { over: patient ? 0n : now + BigInt(timeoutNs), under: 1n };
    if (!patient && isBefore(limit, this.paidUntil)) return { granted: false, delayNs: this.waitNs(now) };
    return { granted: true, delayNs: this.acquire(now, cost) };
  }

  setRate(_nowNs: bigint, rate: number | Fraction): void {
    this.rateFraction = positive(rate);
  }

  /** Stored permits, fractions included; negative while permits are owed. */
  peekTokens(nowNs: bigint): number {
    const now = larger(nowNs, this.startNs);
    const { over, under } = this.paidUntil;
    const ahead = now * under - over;
    const most = NS_A_SECOND * under;
    const held = ahead > most ? most : ahead;
    return quotient(held * this.rateFraction.over, under * NS_A_SECOND * this.rateFraction.under);
  }

  private waitNs(now: bigint): number {
    const { over, under } = this.paidUntil;
    return quotient(larger(0n, over - now * under), under);
  }
}

function positive(rate: number | Fraction): Fraction {
  if (typeof rate !== "number") return rate;
  if (!(rate > 0)) throw new RangeError(`"rate" expected a finite number > 0, got ${rate}`);
  return fractionOf(rate);
}

function isBefore(a: Fraction, b: Fraction): boolean {
  return a.over * b.under < b.over * a.under;
}

function sum(a: Fraction, b: Fraction): Fraction {
  return reduced({ over: a.over * b.under + b.over * a.under, under: a.under * b.under });
}
