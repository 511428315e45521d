// Policies: named, appended to the table once, seen by every thread. A record
// never moves, so a policy is the address of its record.

import { wholeNanoseconds } from "../clock.js";
import { MAX_COST, shown, SluiceError } from "../errors.js";
import type { Table } from "../table/table.js";
import {
  countBits,
  firstPiece,
  isRunDown,
  type Limits,
  mostAWindow,
  nextPiece,
  type Older,
  type Piece,
  type ScaleLimits,
} from "./scale.js";

export type PolicyKind =
  | "tokenBucket"
  | "goLimiter"
  | "guavaLimiter"
  | "leakyBucket"
  | "leakyQueue"
  | "fixedWindow"
  | "slidingWindow"
  | "slottedWindow"
  | "limits"
  | "limit"
  | "warmUp"
  | "lease";

interface Kind {
  readonly kind: PolicyKind;
  readonly flags?: readonly string[];
  /** It has its global bucket only, in a finer scale. */
  readonly isGlobalOnly?: boolean;
  readonly startsEmpty?: boolean;
}

interface Declared extends Limits {
  flags: number;
}

/** Kinds by the number in their record. */
const kinds: readonly Kind[] = [
  { kind: "tokenBucket" },
  { kind: "goLimiter", flags: ["FLAG_CUT_WAIT"], isGlobalOnly: true },
  { kind: "guavaLimiter", flags: ["FLAG_PAY_LATER"], isGlobalOnly: true, startsEmpty: true },
  { kind: "leakyBucket" },
  { kind: "leakyQueue", flags: ["FLAG_QUEUE"] },
  { kind: "fixedWindow", flags: ["FLAG_STEP"] },
  { kind: "slidingWindow", flags: ["FLAG_SLIDING"] },
  { kind: "slottedWindow", flags: ["FLAG_LINE", "FLAG_RING"] },
  { kind: "limits", flags: ["FLAG_LINE", "FLAG_PARTS"] },
  { kind: "limit" },
  { kind: "warmUp", flags: ["FLAG_LINE", "FLAG_WARM_UP"] },
  { kind: "lease", flags: ["FLAG_LEASE"] },
];

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Policy {
  readonly table: Table;
  /** Address of the record. */
  readonly record: number;
  readonly number: number;
  readonly name: string;
  readonly #kind: Kind;
  #piece: Piece;
  #parts: readonly Policy[] | undefined;
  #version: number;

  constructor(table: Table, number: number) {
    const { at } = table;
    this.table = table;
    this.number = number;
    this.record = at.POLICIES + number * at.POLICY_BYTES;
    const nameAt = this.record + at.POLICY_NAME;
    this.name = decoder.decode(
      table.bytes.slice(nameAt, nameAt + table.words[(this.record + at.POLICY_NAME_BYTES) / 4]),
    );
    this.#kind = kinds[table.words[(this.record + at.POLICY_KIND) / 4]];
    [this.#piece, this.#version] = this.#read();
  }

  get kind(): PolicyKind {
    return this.#kind.kind;
  }

  get isGlobalOnly(): boolean {
    return this.#kind.isGlobalOnly === true;
  }

  get declared(): Declared {
    const { at, doubles, words } = this.table;
    return {
      rate: doubles[(this.record + at.POLICY_RATE) / 8],
      burst: doubles[(this.record + at.POLICY_BURST) / 8],
      extra: doubles[(this.record + at.POLICY_EXTRA) / 8],
      flags: words[(this.record + at.POLICY_FLAGS) / 4],
    };
  }

  /** Its keys live in lines. */
  get isLine(): boolean {
    return this.kind === "slottedWindow" || this.kind === "limits" || this.kind === "warmUp";
  }

  /** Largest cost that can ever be had at once. */
  get mostAtOnce(): number {
    if (this.kind === "warmUp") return Infinity;
    return this.parts.length
      ? Math.min(...this.parts.map((part) => (part.rate === Infinity ? Infinity : part.burst)))
      : this.burst;
  }

  get isWindow(): boolean {
    return this.kind === "fixedWindow" || this.kind === "slidingWindow" || this.kind === "slottedWindow";
  }

  /** Changes with every new rate or burst, whoever sets it. */
  get version(): number {
    return Atomics.load(this.table.words, this.record / 4);
  }

  /** Changes with every change of scale: a virtual time means the same for two more of them. */
  get generation(): number {
    return this.#current().generation;
  }

  /** Address of the piece in force. */
  get pieceAt(): number {
    const { at } = this.table;
    return this.record + at.POLICY_PIECE + (this.version & 1) * at.PIECE_BYTES;
  }

  /** Address of what this thread counts and keeps of it. */
  get statsAt(): number {
    const { at, lane } = this.table;
    return lane + at.LANE_STATS + this.number * at.STATS_BYTES;
  }

  /** Its keys are decided by one word against a reading of its clock. */
  get isQuick(): boolean {
    return (this.declared.flags & ~this.table.at.QUICK_FLAGS) === 0;
  }

  /** The piece in force. */
  #current(): Piece {
    if (this.version !== this.#version) [this.#piece, this.#version] = this.#read();
    return this.#piece;
  }

  /** Tokens per second; of several limits, the first one's. */
  get rate(): number {
    return this.parts[0]?.rate ?? this.#current().limits.rate;
  }

  /** Tokens; of several limits, the first one's; of a warm-up, the most permits stored. */
  get burst(): number {
    if (this.kind === "warmUp") return this.#current().burstTokens;
    return this.parts[0]?.burst ?? this.#current().limits.burst;
  }

  /** The limits that this policy joins, in their order; none for most. */
  get parts(): readonly Policy[] {
    if (this.kind !== "limits") return [];
    const { at, words } = this.table;
    return (this.#parts ??= Array.from(
      { length: words[(this.record + at.POLICY_PART_COUNT) / 4] },
      (_, i) => new Policy(this.table, words[(this.record + at.POLICY_PARTS) / 4 + i]),
    ));
  }

  /** Changes rate or burst for all keys at once, from now on. What was earned until now stays earned. */
  set(wanted: Partial<Limits>, nowMs = this.table.clock.now()): void {
    const { table } = this;
    const { at, kernel } = table;
    let attempt = 0;
    for (;;) {
      const [piece, version] = this.#read();
      const v = BigInt.asUintN(64, kernel.readingOf(this.record, nowMs));
      const limits = { ...piece.limits, ...wanted };
      // A window's limit is its burst; its rate follows.
      if (this.isWindow) {
        const windowNs = this.kind === "slottedWindow" ? limits.extra * (piece.preShift - 1) : limits.extra;
        if (wanted.rate !== undefined) limits.burst = Math.round((wanted.rate * windowNs) / 1e9);
        limits.rate = (limits.burst / windowNs) * 1e9;
        checkWindow(table, this.kind, limits);
      }
      const next = nextPiece(piece, v, wholeNanoseconds(nowMs), limits, this.isGlobalOnly, scaleLimits(table));
      if (next.generation !== piece.generation) {
        // Its tag was last used three scales ago. Words are rewritten first; a claim
        // that is under way since then, in a thread that was stopped, gets time to end.
        if (next.generation > 2) Atomics.wait(pause, 0, 0, 5);
        kernel.retag(this.record, BigInt(next.generation % 3));
      }
      stage(table, next);
      const published = kernel.publish(this.record, version);
      if (published === 1) return;
      if (published === at.POLICY_LOCKED) waitForOwner(attempt++);
    }
  }

  /** Winds a global bucket's clock back if it has run high. Call before deciding on a policy of that kind. */
  keepWithinLife(nowMs: number): void {
    if (this.isGlobalOnly && isRunDown(this.#current(), wholeNanoseconds(nowMs))) this.set({}, nowMs);
  }

  #read(): [Piece, number] {
    for (;;) {
      const version = this.version;
      const piece = read(
        this.table,
        this.record + this.table.at.POLICY_PIECE + (version & 1) * this.table.at.PIECE_BYTES,
        this.declared.extra,
      );
      if (this.version === version) return [piece, version];
    }
  }
}

const pause = new Int32Array(new SharedArrayBuffer(4));

/** Waits for whoever changes policies just now; gives up after a second, as the owner may have died and be buried only when this returns. */
function waitForOwner(attempt: number): void {
  if (attempt >= 1000) {
    throw new SluiceError("ERR_SLUICE_LOCKED", "a thread that changes policies has been stopped in the act; try again");
  }
  if (attempt > 10) Atomics.wait(pause, 0, 0, 1);
}

function scaleLimits({ kernel, at }: Table): ScaleLimits {
  return {
    vStart: kernel.wide.V_START,
    burstLimit: kernel.wide.BURST_LIMIT,
    unlimitedFlag: at.FLAG_UNLIMITED,
    stepFlag: at.FLAG_STEP,
    slidingFlag: at.FLAG_SLIDING,
    lineFlag: at.FLAG_LINE,
    warmUpFlag: at.FLAG_WARM_UP,
  };
}

/** How many policies a table has; their numbers begin at 1. */
export function countPolicies(table: Table): number {
  return Atomics.load(table.words, table.at.HEADER_POLICY_COUNT / 4);
}

/** Appends a policy, unless one of that name is there with the same kind and limits: its number. */
export function definePolicy(
  table: Table,
  name: string,
  kind: PolicyKind,
  limits: Limits,
  { isShadow = false, alignMs = 0, ring = 0, parts = [] }: PolicyTraits,
  find: (name: string) => Policy | undefined,
): Policy {
  const { at, kernel } = table;
  const number = kinds.findIndex((each) => each.kind === kind);
  const { flags: own = [], isGlobalOnly = false, startsEmpty = false } = kinds[number];
  const flags = own.reduce((sum, flag) => sum | at[flag], isShadow ? at.FLAG_SHADOW : 0);
  checkWindow(table, kind, limits);
  let attempt = 0;
  for (;;) {
    const count = countPolicies(table);
    const existing = find(name);
    if (existing) {
      const declared = existing.declared;
      const isSame = declared.rate === limits.rate && declared.burst === limits.burst
        && declared.extra === limits.extra;
      if (existing.kind === kind && isSame && declared.flags === flags && existing.parts.length === parts.length) {
        return existing;
      }
      throw new SluiceError(
        "ERR_SLUICE_POLICY_EXISTS",
        `policy ${JSON.stringify(name)} exists as ${described(existing.kind, declared)}, got ${
          described(kind, { ...limits, flags })
        }; use another name, or setRate() and setBurst()`,
      );
    }
    if (count + 1 >= at.POLICY_COUNT) {
      throw new SluiceError(
        "ERR_SLUICE_TOO_MANY_POLICIES",
        `a table holds ${at.POLICY_COUNT - 1} policies and all are in use; one policy serves any number of keys`,
      );
    }
    const nameBytes = encoder.encode(name);
    table.bytes.fill(0, table.lane + at.LANE_NAME, table.lane + at.LANE_NAME + at.POLICY_NAME_MAX);
    table.bytes.set(nameBytes, table.lane + at.LANE_NAME);
    const piece = firstPiece(
      limits,
      wholeNanoseconds(table.clock.now()) - wholeNanoseconds(alignMs),
      flags,
      isGlobalOnly,
      ring,
      scaleLimits(table),
    );
    stage(table, piece);
    table.longs[(table.lane + at.LANE_ACT) / 8] = startsEmpty ? piece.v0 : 0n;
    for (let i = 0; i < at.PARTS_MAX; i++) table.words[(table.lane + at.LANE_PARTS) / 4 + i] = parts[i]?.number ?? 0;
    table.words[(table.lane + at.LANE_PARTS) / 4 + at.PARTS_MAX] = parts.length;
    const appended = kernel.append(count, number, nameBytes.length, limits.rate, limits.burst, limits.extra, flags);
    if (appended > 0) return new Policy(table, appended);
    if (appended === at.POLICY_LOCKED) waitForOwner(attempt++);
  }
}

/** What a policy may have beside its limits. */
export interface PolicyTraits {
  isShadow?: boolean;
  /** How long ago a fixed window began, ms. */
  alignMs?: number;
  /** Counters of a window with slots. */
  ring?: number;
  /** The limits of a policy that has several. */
  parts?: readonly Policy[];
}

function described(kind: PolicyKind, { rate, burst, extra, flags }: Declared): string {
  return `${kind} { rate: ${rate}, burst: ${burst}${extra ? `, window or queue: ${extra}` : ""}${
    flags ? `, flags: ${flags}` : ""
  } }`;
}

/** Throws RangeError if a window's limit has no room in its word or line for 30 years. */
function checkWindow(table: Table, kind: PolicyKind, { burst, extra }: Limits): void {
  const most = kind === "slidingWindow"
    ? 2 ** countBits(extra) - 1
    : kind === "fixedWindow"
    ? mostAWindow(extra, scaleLimits(table))
    : kind === "slottedWindow"
    ? MAX_COST
    : Infinity;
  if (burst > most) {
    throw new RangeError(`"limit" expected at most ${most} for a ${kind} of ${extra / 1e6} ms, got ${burst}`);
  }
}

/** Throws unless `name` is a string of 1 to 96 bytes in UTF-8 without lone surrogates. */
export function checkName(table: Table, name: unknown): asserts name is string {
  const most = table.at.POLICY_NAME_MAX;
  if (typeof name !== "string") throw new TypeError(`"name" expected a string, got ${shown(name)}`);
  const length = encoder.encode(name).length;
  if (length === 0 || length > most || /\p{Surrogate}/u.test(name)) {
    throw new RangeError(
      `"name" expected 1 to ${most} bytes of UTF-8, got ${length}${
        length && length <= most ? " with a lone surrogate" : ""
      }`,
    );
  }
}

// A piece to and from its bytes.

function stage(table: Table, piece: Piece): void {
  const { at, words, longs, doubles } = table;
  const to = table.lane + at.LANE_PIECE;
  longs[(to + at.PIECE_V0) / 8] = piece.v0;
  longs[(to + at.PIECE_T0) / 8] = BigInt.asUintN(64, piece.t0);
  longs[(to + at.PIECE_MULTIPLIER) / 8] = piece.multiplier;
  longs[(to + at.PIECE_BURST) / 8] = piece.burst;
  longs[(to + at.PIECE_DT_LIMIT) / 8] = piece.dtLimit;
  doubles[(to + at.PIECE_NS_A_UNIT) / 8] = piece.nsAUnit;
  words[(to + at.PIECE_PRE_SHIFT) / 4] = piece.preShift;
  words[(to + at.PIECE_WINDOW_SHIFT) / 4] = piece.windowShift;
  words[(to + at.PIECE_TOKEN_SHIFT) / 4] = piece.tokenShift;
  words[(to + at.PIECE_BURST_TOKENS) / 4] = piece.burstTokens;
  words[(to + at.PIECE_FLAGS) / 4] = piece.flags;
  words[(to + at.PIECE_GENERATION) / 4] = piece.generation;
  longs[(to + at.PIECE_EXTRA) / 8] = piece.extra;
  doubles[(to + at.PIECE_RATE) / 8] = piece.limits.rate;
  doubles[(to + at.PIECE_BURST_SAID) / 8] = piece.limits.burst;
  piece.older.forEach((older, i) => {
    const olderAt = to + at.PIECE_OLDER + i * at.OLDER_BYTES;
    longs[(olderAt + at.OLDER_FROM) / 8] = older.from;
    words[(olderAt + at.OLDER_SHIFT) / 4] = older.shift;
    words[(olderAt + at.OLDER_FRESH) / 4] = older.isFresh ? 1 : 0;
  });
}

function read(table: Table, from: number, extra: number): Piece {
  const { at, words, longs, doubles } = table;
  const olderAt = (i: number): Older => {
    const older = from + at.PIECE_OLDER + i * at.OLDER_BYTES;
    return {
      from: longs[(older + at.OLDER_FROM) / 8],
      shift: words[(older + at.OLDER_SHIFT) / 4],
      isFresh: words[(older + at.OLDER_FRESH) / 4] === 1,
    };
  };
  return {
    limits: { rate: doubles[(from + at.PIECE_RATE) / 8], burst: doubles[(from + at.PIECE_BURST_SAID) / 8], extra },
    extra: longs[(from + at.PIECE_EXTRA) / 8],
    v0: longs[(from + at.PIECE_V0) / 8],
    t0: BigInt.asIntN(64, longs[(from + at.PIECE_T0) / 8]),
    multiplier: longs[(from + at.PIECE_MULTIPLIER) / 8],
    burst: longs[(from + at.PIECE_BURST) / 8],
    dtLimit: longs[(from + at.PIECE_DT_LIMIT) / 8],
    nsAUnit: doubles[(from + at.PIECE_NS_A_UNIT) / 8],
    preShift: words[(from + at.PIECE_PRE_SHIFT) / 4],
    windowShift: words[(from + at.PIECE_WINDOW_SHIFT) / 4],
    tokenShift: words[(from + at.PIECE_TOKEN_SHIFT) / 4],
    burstTokens: words[(from + at.PIECE_BURST_TOKENS) / 4],
    flags: words[(from + at.PIECE_FLAGS) / 4],
    generation: words[(from + at.PIECE_GENERATION) / 4],
    older: [olderAt(0), olderAt(1)],
  };
}
