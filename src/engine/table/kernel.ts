// The bridge to the Wasm kernel: the only file that names its exports.

import { kernelBase64 } from "./kernel-binary.js";

/** What assembly/index.ts exports. Policies are record addresses, times ms since the table's epoch. */
export interface KernelExports {
  enter(thread: number): void;
  setsOffset(threadCount: number): number;
  lineSetsOffset(threadCount: number, setCount: number): number;
  recover(dead: number): number;
  keyOfBytes(policy: number, kind: number, length: number): void;
  keyOfNumber(policy: number, key: number): void;
  keyOfWords(low: number, high: number, a: number): void;
  keyPart(policy: number, kind: number, isFirst: number): void;
  keyEnd(policy: number, length: number, total: number): void;
  allowText(policy: number, length: number, cost: number, ms: number): number;
  allowNumber(policy: number, key: number, cost: number, ms: number): number;
  allowWords(policy: number, low: number, high: number, a: number, cost: number, ms: number): number;
  allowSlot(piece: number, slot: number, low: number, high: number, cost: number, ms: number): number;
  allowSlotByCell(stats: number, slot: number, low: number, high: number, cost: number): number;
  allowGlobalByCell(stats: number, cost: number): number;
  allowGlobal(piece: number, cost: number, ms: number): number;
  decideText(
    policy: number,
    length: number,
    mode: number,
    cost: number,
    ms: number,
    maxWaitMs: number,
  ): number;
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
  refund(policy: number, mode: number, cost: number, ms: number): number;
  cancel(policy: number, mode: number, cost: number, dueAtLow: number, dueAtHigh: number, ms: number): number;
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

let compiled: WebAssembly.Module | undefined;

function module(): WebAssembly.Module {
  return (compiled ??= new WebAssembly.Module(Buffer.from(kernelBase64, "base64")));
}

/** A shared WebAssembly.Memory, by a name that users' type checkers know: TypeScript has WebAssembly for browsers only. */
export interface SharedMemory {
  readonly buffer: SharedArrayBuffer;
}

/** An instance of the kernel over a table's memory. */
export interface Kernel extends KernelExports {
  /** Sizes, offsets and flags by their names in assembly/layout.ts. Too many to be quick: hot paths keep what they need. */
  readonly at: Readonly<Record<string, number>>;
  readonly wide: Readonly<Record<string, bigint>>;
}

/** Instantiates the kernel. Each thread has its own instance; the memory is shared. */
export function instantiate(memory: SharedMemory): Kernel {
  const { exports } = new WebAssembly.Instance(module(), { env: { memory } });
  const functions: Record<string, unknown> = {};
  const at: Record<string, number> = {};
  const wide: Record<string, bigint> = {};
  for (const [name, value] of Object.entries(exports)) {
    if (!(value instanceof WebAssembly.Global)) functions[name] = value;
    else if (typeof value.value === "bigint") wide[name] = BigInt.asUintN(64, value.value);
    else at[name] = value.value;
  }
  return { ...functions, at, wide } as unknown as Kernel;
}

let constants: Kernel | undefined;

/** The kernel's constants, for whoever has no table yet. */
export function kernelConstants(): Kernel {
  return (constants ??= instantiate(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })));
}
