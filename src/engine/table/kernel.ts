// The bridge to the Wasm kernel: the only file that names its exports.

import { kernelBase64 } from "./kernel-binary.js";

/** @internal  What assembly/index.ts exports. Policies are record addresses, times are ms since the table's epoch. */
export interface KernelExports {
  enter(thread: number): void;
  setsOffset(threadCount: number): number;
  lineSetsOffset(threadCount: number, setCount: number): number;
  recover(dead: number): number;
  keyOfBytes(policy: number, kind: number, length: number): void;
  keyOfNumber(policy: number, key: number): void;
  keyOfWords(low: number, high: number, setA: number): void;
  keyChunk(policy: number, kind: number, isFirst: number): void;
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
  rescaleDueAt(policy: number, dueAtLow: number, dueAtHigh: number): void;
  untilDueAt(policy: number, dueAtLow: number, dueAtHigh: number, ms: number): number;
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
  walk(policy: number, hasKeys: number): number;
  audit(ms: number): void;
}

/**
 * The kernel's 32-bit constants that TypeScript reads: sizes, offsets, flags. A name that is not here
 * does not compile.
 */
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
  "POLICY_WALKED",
  "POLICY_NAME_BYTES",
  "POLICY_RATE",
  "POLICY_BURST",
  "POLICY_EXTRA",
  "POLICY_FLAGS",
  "POLICY_NAME",
  "POLICY_NAME_MAX",
  "POLICY_SEGMENT",
  "POLICY_GLOBAL",
  "POLICY_LIMITS",
  "POLICY_LIMIT_COUNT",
  "MAX_LIMITS",
  "POLICY_LOCKED",
  "SEGMENT_BYTES",
  "SEGMENT_T0",
  "SEGMENT_LIFE",
  "SEGMENT_RATE",
  "SEGMENT_BURST",
  "SEGMENT_LIMIT_TOKENS",
  "SEGMENT_FLAGS",
  "BUCKET_V0",
  "BUCKET_MULTIPLIER",
  "BUCKET_BURST_UNITS",
  "BUCKET_NS_PER_UNIT",
  "BUCKET_QUEUE_UNITS",
  "BUCKET_BEFORE_MULTIPLIER",
  "BUCKET_LAST_START",
  "BUCKET_SECOND_LAST_START",
  "BUCKET_PRE_SHIFT",
  "BUCKET_TOKEN_SHIFT",
  "BUCKET_SCALE",
  "BUCKET_BEFORE_PRE_SHIFT",
  "BUCKET_LAST_SHIFT",
  "BUCKET_SECOND_LAST_SHIFT",
  "WINDOW_NS",
  "WINDOW_INVERSE",
  "WINDOW_INVERSE_SHIFT",
  "WINDOW_COUNT_BITS",
  "RING_SLOT_NS",
  "RING_INVERSE",
  "RING_INVERSE_SHIFT",
  "RING_LENGTH",
  "WARM_UP_NS",
  "WARM_UP_THRESHOLD",
  "WARM_UP_MAX_PERMITS",
  "WARM_UP_SLOPE",
  "WARM_UP_STABLE_NS",
  "FORGETS",
  "FLAG_UNLIMITED",
  "FLAG_PAY_LATER",
  "FLAG_CUT_WAIT",
  "FLAG_QUEUE",
  "FLAG_SHADOW",
  "ALGORITHM_SHIFT",
  "BUCKET",
  "FIXED_WINDOW",
  "SLIDING_COUNTER",
  "LEASE",
  "RING",
  "LIMITS",
  "WARM_UP",
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
  "SCRATCH_OWNER",
  "SCRATCH_PARENT",
  "SCRATCH_KEY",
  "SCRATCH_SET_A",
  "SCRATCH_SET_B",
  "SCRATCH_REMAINING",
  "SCRATCH_RETRY_NS",
  "SCRATCH_RESET_NS",
  "SCRATCH_DELAY_NS",
  "SCRATCH_TOKENS",
  "SCRATCH_DUE_AT",
  "SCRATCH_LIMITS",
  "SCRATCH_PRESENT_MS",
  "SCRATCH_SEGMENT",
  "SCRATCH_NAME",
  "SCRATCH_LIMIT_INDEX",
  "SCRATCH_SLOT",
  "SCRATCH_LINE_LOCKED",
  "SCRATCH_BATCH",
  "SCRATCH_ANSWERS",
  "SCRATCH_TAKEN",
  "SCRATCH_BYTES",
  "MAX_SCRATCH_BYTES",
  "KEY_CHUNK_BYTES",
  "SCRATCH_COUNTERS",
  "MAX_BATCH",
  "COUNTERS_BYTES",
  "COUNTERS_ALLOWED",
  "COUNTERS_DENIED",
  "COUNTERS_EVICTED",
  "COUNTERS_CONTENDED",
  "COUNTERS_FULL_DENIED",
  "COUNTERS_FULL_ALLOWED",
  "COUNTERS_CLAIMED",
  "COUNTERS_SHADOWED",
  "COUNTERS_LIVE",
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
  "MAX_BURST_UNITS",
  "MAX_AHEAD",
  "QUICK_PRE_SHIFT",
  "PAGE_SETS",
  "LINE_GROUP_SETS",
  "LEASE_MAX_TOKENS",
] as const;

/** @internal */
export interface KernelNumbers extends Readonly<Record<(typeof numbers)[number], number>> {}
/** @internal */
export interface KernelBigints extends Readonly<Record<(typeof bigints)[number], bigint>> {}

/**
 * A shared WebAssembly.Memory, by a name that users' type checkers know: TypeScript has WebAssembly
 * for browsers only.
 */
export interface SharedMemory {
  readonly buffer: SharedArrayBuffer;
}

/** @internal  An instance of the kernel over a table's memory. */
export interface Kernel extends KernelExports {
  /** Too many to be quick: hot paths store the few that they need. */
  readonly at: KernelNumbers;
  readonly wide: KernelBigints;
}

let compiled: WebAssembly.Module | undefined;

function module(): WebAssembly.Module {
  return (compiled ??= new WebAssembly.Module(Buffer.from(kernelBase64, "base64")));
}

/** @internal  Instantiates the kernel. Each thread has its own instance; the memory is shared. */
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

/** @internal  A kernel that has no table: its constants, and what can be worked out from sizes alone. */
export function kernelConstants(): Kernel {
  return (constants ??= instantiate(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })));
}
