// One table as one thread sees it: the shared memory, this thread's instance of
// the kernel, its scratch, and the clock.

import { getRandomValues } from "node:crypto";
import { getEnvironmentData, isMainThread, setEnvironmentData, threadId } from "node:worker_threads";
import type { ClockCell } from "../clock-cell.js";
import { Clock, monotonicNs } from "../clock.js";
import { SluiceError } from "../errors.js";
import { ManualClock } from "../manual-clock.js";
import { Header, headerOf, type SluiceHandle, type WhenFull } from "./header.js";
import { instantiate, type Kernel, kernelConstants, type SharedMemory } from "./kernel.js";
import { Scratch } from "./scratch.js";
import { ThreadRecords } from "./thread-records.js";
import { refuse, Views } from "./views.js";

export interface TableOptions {
  capacity: number;
  lineCapacity: number;
  maxThreads: number;
  whenFull: WhenFull;
  clock: "precise" | "coarse" | ManualClock;
}

/** Workers inherit it: which thread started them, if that thread had a table by then. */
const PARENT = "sluice: parent thread";

/** Workers that this thread starts from now on know that it started them. */
export function adopt(): void {
  setEnvironmentData(PARENT, threadId + 1);
}

/** threadId + 1 of the thread that started this one; 0 if it is not known. */
const inherited = isMainThread ? 0 : Number(getEnvironmentData(PARENT) ?? 0);

const PAGE_BYTES = 65536;
/** Share of slots that `capacity` keys fill: both sets of a key are then full for about 1 key in 36,000. */
const FILL = 0.7;
/** The same for lines, whose sets are smaller: about 1 key in 60,000. */
const LINE_FILL = 0.65;

export class Table extends Views {
  readonly memory: SharedMemory;
  readonly kernel: Kernel;
  readonly at: Kernel["at"];
  readonly header: Header;
  readonly threads: ThreadRecords;
  /** This thread's number in the table. */
  readonly thread: number;
  readonly scratch: Scratch;
  readonly clock: Clock;
  readonly clockCell: ClockCell;
  readonly id: string;
  readonly epochNs: bigint;
  readonly #ends = new Set<() => void>();

  private constructor(memory: SharedMemory, header: Header, manual?: ManualClock) {
    super(memory.buffer);
    this.memory = memory;
    this.kernel = instantiate(memory);
    this.at = this.kernel.at;
    this.header = header;
    this.id = header.id;
    this.epochNs = header.epochNs;
    this.clockCell = header.clockCell();
    if (manual) manual.drive(this.clockCell);
    this.clock = new Clock(header.clockKind, this.epochNs, this.clockCell, manual);
    this.threads = new ThreadRecords(memory.buffer, this.at, header.threadCount);
    this.thread = this.threads.claim(inherited);
    if (this.thread < 0) throw noThreadFree(this.threads.count);
    this.scratch = new Scratch(memory.buffer, this.at, this.thread);
    this.kernel.enter(this.thread);
  }

  /** Makes a table of fixed size, and attaches this thread to it. */
  static create(options: TableOptions): Table {
    const { capacity, lineCapacity, maxThreads, whenFull, clock } = options;
    const { at, wide, lineSetsOffset } = kernelConstants();
    const pageSets = Number(wide.PAGE_SETS);
    const setCount = Math.ceil(capacity / FILL / at.SLOT_COUNT / pageSets) * pageSets;
    const groupSets = Number(wide.LINE_GROUP_SETS);
    const lineSetCount = Math.ceil(lineCapacity / LINE_FILL / at.LINE_SLOT_COUNT / groupSets) * groupSets;
    const byteLength = lineSetsOffset(maxThreads, setCount) + lineSetCount * at.LINE_SET_BYTES;
    const pages = Math.ceil(byteLength / PAGE_BYTES);
    // Fixed size: growing a shared memory makes atomics in other threads trap.
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
    const header = new Header(memory.buffer);
    header.write({
      setCount,
      lineSetCount,
      threadCount: maxThreads,
      capacity,
      clockKind: clock instanceof ManualClock ? "manual" : clock,
      whenFull,
      epochNs: monotonicNs(),
      random: getRandomValues(new BigUint64Array(3)),
    });
    return new Table(memory, header, clock instanceof ManualClock ? clock : undefined);
  }

  /**
   * Attaches this thread to the table behind a handle.
   * @throws TypeError for another value, SluiceError ERR_SLUICE_LAYOUT for a
   * table of another version, ERR_SLUICE_TOO_MANY_THREADS if no thread number is free.
   */
  static attach(handle: SluiceHandle): Table {
    const header = headerOf(handle);
    return new Table(handle.memory, header);
  }

  /** ms since the table's epoch on the monotonic source, even if the table has another clock. */
  sinceEpochMs(): number {
    return Number(monotonicNs() - this.epochNs) / 1e6;
  }

  /** Gives this thread's number, and so its scratch, to the thread that attaches next. */
  leave(): void {
    this.threads.release(this.thread);
  }

  /** Calls `end` before this thread leaves, until the returned function is called. */
  onClose(end: () => void): () => void {
    this.#ends.add(end);
    return () => this.#ends.delete(end);
  }

  /**
   * Leaves for good. A limiter of this thread then throws ERR_SLUICE_CLOSED, and
   * cannot reach a scratch that may be another thread's by now.
   */
  close(): void {
    for (const end of [...this.#ends]) end();
    this.leave();
    this.revoke();
    this.scratch.revoke();
    const functions = this.kernel as unknown as Record<string, unknown>;
    for (const [name, value] of Object.entries(functions)) if (typeof value === "function") functions[name] = refuse;
  }

  /** Frees what a thread that has ended held, and what the threads held that it had started, which end with it. */
  bury(deadThreadId: number): void {
    const { threads } = this;
    for (let thread = 0; thread < threads.count; thread++) {
      const owner = threads.owner(thread);
      if (owner === 0 || owner === threadId + 1) continue;
      if (owner !== deadThreadId + 1) {
        if (threads.parent(thread) === deadThreadId + 1) this.bury(owner - 1);
        continue;
      }
      this.kernel.recover(thread + 1);
      threads.release(thread, owner);
    }
  }

  get handle(): SluiceHandle {
    return { sluice: this.at.LAYOUT_VERSION, memory: this.memory };
  }
}

function noThreadFree(count: number): SluiceError {
  return new SluiceError(
    "ERR_SLUICE_TOO_MANY_THREADS",
    `all ${count} threads of this table are in use; create it with a larger "maxThreads", or close() what is attached`,
  );
}
