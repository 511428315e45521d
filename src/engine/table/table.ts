// One table as one thread sees it: the shared memory, this thread's instance of
// the kernel, its lane, and the clock.

import { getRandomValues } from "node:crypto";
import { getEnvironmentData, isMainThread, setEnvironmentData, threadId } from "node:worker_threads";
import { Clock, ClockCell, type ClockKind, clockKinds, ManualClock, monotonicNs } from "../clock.js";
import { shown, SluiceError } from "../errors.js";
import { instantiate, type Kernel, kernelConstants, type SharedMemory } from "./kernel.js";

export type WhenFull = "evict" | "deny" | "allow";
export const whenFullChoices: readonly WhenFull[] = ["evict", "deny", "allow"];

/** What another thread needs to attach. Structured-cloneable: put it in `workerData` or post it. */
export interface SluiceHandle {
  /** Layout version of the table. */
  readonly sluice: number;
  /** A shared WebAssembly.Memory. */
  readonly memory: SharedMemory;
}

export interface TableOptions {
  capacity: number;
  lineCapacity: number;
  maxThreads: number;
  whenFull: WhenFull;
  clock: "precise" | "coarse" | ManualClock;
}

/** Workers inherit it: the thread that started them, if that had a table by then. */
const PARENT = "sluice: parent thread";

/** Tells workers that this thread starts from now on who started them. */
export function adopt(): void {
  setEnvironmentData(PARENT, threadId + 1);
}

/** The thread that started this one, + 1; 0 if it is not known. */
const inherited = isMainThread ? 0 : Number(getEnvironmentData(PARENT) ?? 0);

const PAGE_BYTES = 65536;
/** Share of slots that `capacity` keys fill: both sets of a key are then full for about 1 key in 36,000. */
const FILL = 0.7;
/** The same for lines, whose sets are smaller: about 1 key in 60,000. */
const LINE_FILL = 0.65;

export class Table {
  readonly memory: SharedMemory;
  readonly kernel: Kernel;
  readonly at: Kernel["at"];
  readonly clock: Clock;
  /** This thread's number in the table. */
  readonly thread: number;
  /** Address of this thread's lane. */
  readonly lane: number;
  /** Address of the lane's key bytes, and how many there are. */
  readonly textAt: number;
  readonly textMax: number;
  readonly id: string;
  readonly epochNs: bigint;
  readonly capacity: number;
  readonly bytes: Uint8Array;
  readonly words: Int32Array;
  readonly unsigned: Uint32Array;
  readonly doubles: Float64Array;
  readonly longs: BigUint64Array;
  readonly clockCell: ClockCell;
  readonly #ends = new Set<() => void>();

  private constructor(memory: SharedMemory, manual?: ManualClock) {
    const kernel = instantiate(memory);
    const at = kernel.at;
    this.memory = memory;
    this.kernel = kernel;
    this.at = at;
    this.bytes = new Uint8Array(memory.buffer);
    this.words = new Int32Array(memory.buffer);
    this.unsigned = new Uint32Array(memory.buffer);
    this.doubles = new Float64Array(memory.buffer);
    this.longs = new BigUint64Array(memory.buffer);
    this.clockCell = new ClockCell(memory.buffer, at.HEADER_CLOCK, at.HEADER_CLOCK_NS);
    this.epochNs = this.longs[at.HEADER_EPOCH / 8];
    this.capacity = this.unsigned[at.HEADER_CAPACITY / 4];
    this.id = this.longs[at.HEADER_TABLE_ID / 8].toString(36);
    const kind = clockKinds[this.words[at.HEADER_CLOCK_KIND / 4]];
    if (manual) manual.drive(this.clockCell);
    this.clock = new Clock(kind, this.epochNs, this.clockCell, manual);
    this.thread = this.#claimThread();
    this.lane = at.THREADS + this.thread * at.THREAD_BYTES;
    this.textAt = this.lane + at.LANE_BYTES;
    this.textMax = at.LANE_BYTES_MAX;
    kernel.enter(this.thread);
  }

  static create(options: TableOptions): Table {
    const { at, wide, lineSetsOffset } = kernelConstants();
    const pageSets = Number(wide.PAGE_SETS);
    const setCount = Math.ceil(options.capacity / FILL / at.SLOT_COUNT / pageSets) * pageSets;
    const groupSets = Number(wide.LINE_GROUP_SETS);
    const lineSetCount = Math.ceil(options.lineCapacity / LINE_FILL / at.LINE_SLOT_COUNT / groupSets) * groupSets;
    const byteLength = lineSetsOffset(options.maxThreads, setCount) + lineSetCount * at.LINE_SET_BYTES;
    const pages = Math.ceil(byteLength / PAGE_BYTES);
    // Fixed size: growing a shared memory makes atomics in other threads trap.
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
    const words = new Int32Array(memory.buffer);
    const kind: ClockKind = options.clock instanceof ManualClock ? "manual" : options.clock;
    const longs = new BigUint64Array(memory.buffer);
    const random = getRandomValues(new BigUint64Array(3));
    longs[at.HEADER_HASH_KEY / 8] = random[0];
    longs[at.HEADER_HASH_KEY / 8 + 1] = random[1];
    longs[at.HEADER_TABLE_ID / 8] = random[2];
    longs[at.HEADER_EPOCH / 8] = monotonicNs();
    words[at.HEADER_SET_COUNT / 4] = setCount;
    words[at.HEADER_LINE_SET_COUNT / 4] = lineSetCount;
    words[at.HEADER_THREAD_COUNT / 4] = options.maxThreads;
    words[at.HEADER_CAPACITY / 4] = options.capacity;
    words[at.HEADER_CLOCK_KIND / 4] = clockKinds.indexOf(kind);
    words[at.HEADER_WHEN_FULL / 4] = whenFullChoices.indexOf(options.whenFull);
    words[at.HEADER_VERSION / 4] = at.LAYOUT_VERSION;
    words[at.HEADER_MAGIC / 4] = at.MAGIC;
    return new Table(memory, options.clock instanceof ManualClock ? options.clock : undefined);
  }

  /** Throws ERR_SLUICE_LAYOUT unless the handle is of this version. */
  static attach(handle: SluiceHandle): Table {
    checkHandle(handle);
    return new Table(handle.memory);
  }

  /** Milliseconds since the table's epoch on the monotonic source, whatever clock the table has. */
  sinceEpochMs(): number {
    return Number(monotonicNs() - this.epochNs) / 1e6;
  }

  ownerAt(thread: number): number {
    return (this.at.THREADS + thread * this.at.THREAD_BYTES + this.at.LANE_OWNER) / 4;
  }

  /** Where the lane says which thread started its owner. */
  parentAt(thread: number): number {
    return (this.at.THREADS + thread * this.at.THREAD_BYTES + this.at.LANE_PARENT) / 4;
  }

  get maxThreads(): number {
    return this.words[this.at.HEADER_THREAD_COUNT / 4];
  }

  #claimThread(): number {
    for (let thread = 0; thread < this.maxThreads; thread++) {
      if (Atomics.compareExchange(this.words, this.ownerAt(thread), 0, threadId + 1) !== 0) continue;
      this.words[this.parentAt(thread)] = inherited;
      return thread;
    }
    throw new SluiceError(
      "ERR_SLUICE_TOO_MANY_THREADS",
      `all ${this.maxThreads} threads of this table are in use; create it with a larger "maxThreads", or close() what is attached`,
    );
  }

  /** Gives this thread's number, and so its lane, to whoever attaches next. */
  leave(): void {
    Atomics.compareExchange(this.words, this.ownerAt(this.thread), threadId + 1, 0);
  }

  /** Calls `end` before this thread leaves, until the returned function is called. */
  onClose(end: () => void): () => void {
    this.#ends.add(end);
    return () => this.#ends.delete(end);
  }

  /** Leaves for good: what still holds a limiter gets ERR_SLUICE_CLOSED, and cannot reach a lane that is another's by now. */
  close(): void {
    for (const end of [...this.#ends]) end();
    this.leave();
    for (const view of ["bytes", "words", "unsigned", "doubles", "longs"]) {
      Object.defineProperty(this, view, { get: refuse });
    }
    const functions = this.kernel as unknown as Record<string, unknown>;
    for (const [name, value] of Object.entries(functions)) if (typeof value === "function") functions[name] = refuse;
  }

  /** Takes back what a thread held that has ended for good, and those that it had started, which end with it. */
  bury(deadThreadId: number): void {
    for (let thread = 0; thread < this.maxThreads; thread++) {
      const owner = Atomics.load(this.words, this.ownerAt(thread));
      if (owner === 0 || owner === threadId + 1) continue;
      if (owner !== deadThreadId + 1) {
        if (this.words[this.parentAt(thread)] === deadThreadId + 1) this.bury(owner - 1);
        continue;
      }
      this.kernel.recover(thread + 1);
      Atomics.compareExchange(this.words, this.ownerAt(thread), owner, 0);
    }
  }

  get handle(): SluiceHandle {
    return { sluice: this.at.LAYOUT_VERSION, memory: this.memory };
  }
}

/** The error for what is done after, or waits for what comes after, a close. */
export function closed(): SluiceError {
  return new SluiceError("ERR_SLUICE_CLOSED", "this Sluice was closed in this thread");
}

function refuse(): never {
  throw closed();
}

/** The table's id, before anything is attached. */
export function idOf(handle: SluiceHandle): string {
  checkHandle(handle);
  return new BigUint64Array(handle.memory.buffer)[kernelConstants().at.HEADER_TABLE_ID / 8].toString(36);
}

function checkHandle(handle: SluiceHandle): void {
  if (typeof handle !== "object" || handle === null || !(handle.memory instanceof WebAssembly.Memory)) {
    throw new TypeError(`"handle" expected the handle of a Sluice, got ${shown(handle)}`);
  }
  const { at } = kernelConstants();
  const words = new Int32Array(handle.memory.buffer);
  const magic = words[at.HEADER_MAGIC / 4];
  const version = words[at.HEADER_VERSION / 4];
  if (magic !== at.MAGIC) {
    throw new SluiceError(
      "ERR_SLUICE_LAYOUT",
      `"handle" expected a table (first word ${at.MAGIC}), got a memory whose first word is ${magic}`,
    );
  }
  if (version !== at.LAYOUT_VERSION || handle.sluice !== at.LAYOUT_VERSION) {
    throw new SluiceError(
      "ERR_SLUICE_LAYOUT",
      `this thread's sluice has table layout ${at.LAYOUT_VERSION}, the table has ${version} (handle: ${
        shown(handle.sluice)
      }); load the same version of sluice in every thread`,
    );
  }
}
