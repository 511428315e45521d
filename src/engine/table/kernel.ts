// The bridge to the Wasm kernel: the only file that names its exports.

import { kernelBase64 } from "./kernel-binary.js";

/** What assembly/index.ts exports. Policies are record addresses, times are ms since the table's epoch. */
export interface KernelExports {
  enter(thread: number): void;
  setsOffset(threadCount: number): number;
  lineSetsOffset(threadCount: number, setCount: number): number;
  recover(dead: number): number;
  keyOfBytes(policy: number, kind: number, length: number): void;
  keyOfNumber(policy: number, key: number): void;
  keyOfWords(low: number, high: number, setA: number): void;
  keyPart(policy: number, kind: number, isFirst: number): void;
  keyEnd(policy: number, length: number, total: number): void;
  allowText(policy: number, length: number, cost: number, ms: number): number;
  allowNumber(policy: number, key: number, cost: number, ms: number): number;
  allowWords(policy: number, low: number, high: number, setA: number, cost: number, ms: number): number;
  allowSlot(segment: number, slot: number, low: number, high: number, cost: number, ms: number): number;
  allowSlotByCell(stats: number, slot: number, low: number, high: number, cost: number): number;
  allowGlobalByCell(stats: number, cost: number): number;
  allowGlobal(segment: number, cost: number, ms: number): number;
  takeText(policy: number, length: number, cost: number, countsRefusal: number, ms: number): number;
  takeNumber(policy: number, key: number, cost: number, countsRefusal: number, ms: number): number;
  take(policy: number, mode: number, cost: number, countsRefusal: number, ms: number): number;
  deposit(policy: number, mode: number, tokens: number, endMs: number, as: number, ms: number): number;
  takeBack(policy: number, mode: number, ms: number): number;
  leased(policy: number, mode: number, ms: number): number;
  batchText(policy: number, i: number, offset: number, length: number): void;
  batchNumber(policy: number, i: number, key: number): void;
  batchKey(i: number): void;
  allowBatch(policy: number, entries: number, cost: number, ms: number): void;
  decide(policy: number, mode: number, cost: number, ms: number, maxWaitMs: number): number;
  decideText(policy: number, length: number, mode: number, cost: number, ms: number, maxWaitMs: number): number;
  decideNumber(policy: number, key: number, mode: number, cost: number, ms: number, maxWaitMs: number): number;
  decideWords(
    policy: number,
    low: number,
    high: number,
    setA: number,
    mode: number,
    cost: number,
    ms: number,
    maxWaitMs: number,
  ): number;
  giveBack(
    policy: number,
    low: number,
    high: number,
    setA: number,
    mode: number,
    cost: number,
    dueAtLow: number,
    dueAtHigh: number,
    ms: number,
  ): number;
  setTokens(policy: number, mode: number, tokens: number, ms: number): void;
  translateAct(policy: number, dueAtLow: number, dueAtHigh: number): void;
  untilAct(policy: number, dueAtLow: number, dueAtHigh: number, ms: number): number;
  append(
    expected: number,
    kind: number,
    nameBytes: number,
    rate: number,
    burst: number,
    extra: number,
    flags: number,
  ): number;
  publish(policy: number, version: number): number;
  readingOf(policy: number, ms: number): bigint;
  retag(policy: number, tag: bigint): void;
  audit(ms: number): void;
}

/** The kernel's 32-bit constants that TypeScript reads: sizes, offsets, flags. A name that is not here does not compile. */
const numbers = [
  "MAGIC",
  "LAYOUT_VERSION",
  "HEADER_MAGIC",
  "HEADER_VERSION",
  "HEADER_SET_COUNT",
  "HEADER_THREAD_COUNT",
  "HEADER_HASH_KEY",
  "HEADER_EPOCH",
  "HEADER_CLOCK_KIND",
  "HEADER_WHEN_FULL",
  "HEADER_TABLE_ID",
  "HEADER_CAPACITY",
  "HEADER_LINE_SET_COUNT",
  "HEADER_CLOCK",
  "HEADER_CLOCK_NS",
  "HEADER_POLICY_COUNT",
  "HEADER_POLICY_LOCK",
  "HEADER_TICKER",
  "POLICIES",
  "POLICY_COUNT",
  "POLICY_BYTES",
  "POLICY_VERSION",
  "POLICY_LOCK",
  "POLICY_KIND",
  "POLICY_NAME_BYTES",
  "POLICY_RATE",
  "POLICY_BURST",
  "POLICY_EXTRA",
  "POLICY_FLAGS",
  "POLICY_NAME",
  "POLICY_NAME_MAX",
  "POLICY_PIECE",
  "POLICY_PARTS",
  "POLICY_PART_COUNT",
  "PARTS_MAX",
  "POLICY_LOCKED",
  "PIECE_BYTES",
  "PIECE_V0",
  "PIECE_T0",
  "PIECE_MULTIPLIER",
  "PIECE_BURST",
  "PIECE_DT_LIMIT",
  "PIECE_NS_A_UNIT",
  "PIECE_PRE_SHIFT",
  "PIECE_WINDOW_SHIFT",
  "PIECE_TOKEN_SHIFT",
  "PIECE_BURST_TOKENS",
  "PIECE_FLAGS",
  "PIECE_GENERATION",
  "PIECE_OLDER",
  "PIECE_RATE",
  "PIECE_BURST_SAID",
  "PIECE_EXTRA",
  "OLDER_BYTES",
  "OLDER_FROM",
  "OLDER_SHIFT",
  "OLDER_FRESH",
  "FLAG_UNLIMITED",
  "FLAG_PAY_LATER",
  "FLAG_CUT_WAIT",
  "FLAG_QUEUE",
  "FLAG_STEP",
  "FLAG_SLIDING",
  "FLAG_SHADOW",
  "FLAG_LINE",
  "FLAG_RING",
  "FLAG_PARTS",
  "FLAG_WARM_UP",
  "FLAG_LEASE",
  "QUICK_FLAGS",
  "CONSUME",
  "DEBT",
  "EVEN_NEVER",
  "GLOBAL",
  "ANSWER",
  "AS_OF",
  "LOCKS",
  "LOCK_COUNT",
  "LOCK_BYTES",
  "LOCK_SLOT",
  "THREADS",
  "THREAD_BYTES",
  "LANE_OWNER",
  "LANE_PARENT",
  "LANE_KEY",
  "LANE_SET_A",
  "LANE_SET_B",
  "LANE_REMAINING",
  "LANE_RETRY_NS",
  "LANE_RESET_NS",
  "LANE_DELAY_NS",
  "LANE_TOKENS",
  "LANE_ACT",
  "LANE_PARTS",
  "LANE_REAL_MS",
  "LANE_PIECE",
  "LANE_NAME",
  "LANE_LIMIT",
  "LANE_SLOT",
  "LANE_HELD",
  "LANE_BATCH",
  "LANE_ANSWERS",
  "LANE_TAKEN",
  "LANE_BYTES",
  "LANE_BYTES_MAX",
  "LANE_PART",
  "LANE_STATS",
  "BATCH_MAX",
  "STATS_BYTES",
  "STATS_ALLOWED",
  "STATS_DENIED",
  "STATS_EVICTED",
  "STATS_CONTENDED",
  "STATS_FULL_DENIED",
  "STATS_FULL_ALLOWED",
  "STATS_CLAIMED",
  "STATS_SHADOWED",
  "STATS_LIVE",
  "AUDIT_USED",
  "AUDIT_FRESH",
  "AUDIT_BUSY",
  "AUDIT_TORN",
  "AUDIT_DOUBLES",
  "AUDIT_STRANGERS",
  "AUDIT_LOCKS",
  "SET_BYTES",
  "SLOT_COUNT",
  "SLOT_STEP",
  "SLOT_STATE",
  "SLOTS_END",
  "LINE_SLOT_COUNT",
  "LINE_BYTES",
  "LINE_SET_BYTES",
  "LINE_OWNER_BITS",
  "TEXT",
  "WIDE_TEXT",
  "NUMBER",
  "BIGINT",
  "WIDE_BIGINT",
  "BYTES",
  "LEASE_ASK",
  "LEASE_SHORT",
  "LEASE_PAUSE",
] as const;

/** Its 64-bit constants. */
const bigints = [
  "V_START",
  "BURST_LIMIT",
  "AHEAD_LIMIT",
  "QUICK_PRE_SHIFT",
  "PAGE_SETS",
  "LINE_GROUP_SETS",
  "LEASE_MOST",
] as const;

export interface KernelNumbers extends Readonly<Record<(typeof numbers)[number], number>> {}
export interface KernelBigints extends Readonly<Record<(typeof bigints)[number], bigint>> {}

/** A shared WebAssembly.Memory, by a name that users' type checkers know: TypeScript has WebAssembly for browsers only. */
export interface SharedMemory {
  readonly buffer: SharedArrayBuffer;
}

/** An instance of the kernel over a table's memory. */
export interface Kernel extends KernelExports {
  /** Too many to be quick: hot paths store the few that they need. */
  readonly at: KernelNumbers;
  readonly wide: KernelBigints;
}

let compiled: WebAssembly.Module | undefined;

function module(): WebAssembly.Module {
  return (compiled ??= new WebAssembly.Module(Buffer.from(kernelBase64, "base64")));
}

/** Instantiates the kernel. Each thread has its own instance; the memory is shared. */
export function instantiate(memory: SharedMemory): Kernel {
  const { exports } = new WebAssembly.Instance(module(), { env: { memory } });
  const valueOf = (name: string): unknown => {
    const value = exports[name];
    if (!(value instanceof WebAssembly.Global)) throw new Error(`the kernel has no constant ${name}`);
    return value.value;
  };
  const at = Object.fromEntries(numbers.map((name) => [name, valueOf(name) as number]));
  const wide = Object.fromEntries(bigints.map((name) => [name, BigInt.asUintN(64, valueOf(name) as bigint)]));
  const functions = Object.fromEntries(Object.entries(exports).filter(([, value]) => typeof value === "function"));
  return { ...functions, at, wide } as unknown as Kernel;
}

let constants: Kernel | undefined;

/** A kernel that has no table: its constants, and what can be worked out from sizes alone. */
export function kernelConstants(): Kernel {
  return (constants ??= instantiate(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })));
}
