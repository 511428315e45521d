// The waiters of a limiter, as rows of numbers. A hundred thousand of them are
// columns of typed arrays, which the garbage collector need not walk through, and
// one function each.
//
// A row is in the queue of its key, first come first served, and in a heap by the
// time to look at it. A queue is a ring of links; its first row stands for it in a
// hash table with chains. Neither takes longer to leave when there are more rows.
//
//   column     of a row                       of a queue's first row as well
//   dueAtMs    when its reservation may act
//   deadlineMs Infinity: none
//   dueAt      virtual time to act (2 words; both 0: unknown)
//   key        low, high, setA (all 0: the global bucket)
//   cost
//   order      of arrival, among equal times
//   place      in the heap
//   next       in the queue; the last one's is the first
//   previous   in the queue; the first one's is the last
//   link                                      next in the chain, + 1
//   length                                    of the queue

import type { KeyWords } from "../bucket/bucket.js";

const MIN_ROWS = 16;
/** With more rows than this, memory is given back when no row is left. */
const MAX_IDLE_ROWS = 1024;
/** Doubling would leave up to half of the memory idle: 74 bytes a row, just when there are many. */
const GROWTH = 1.25;

export class Queue {
  /** Rows in use. */
  count = 0;
  dueAtMs = new Float64Array(MIN_ROWS);
  deadlineMs = new Float64Array(MIN_ROWS);
  dueAtLow = new Uint32Array(MIN_ROWS);
  dueAtHigh = new Uint32Array(MIN_ROWS);
  low = new Int32Array(MIN_ROWS);
  high = new Int32Array(MIN_ROWS);
  setA = new Int32Array(MIN_ROWS);
  cost = new Int32Array(MIN_ROWS);
  /** Resolves the promise of the wait; undefined in a free row. */
  readonly resolve: (((outcome: void | Promise<void>) => void) | undefined)[] = [];
  #order = new Uint32Array(MIN_ROWS);
  #place = new Uint32Array(MIN_ROWS);
  #heap = new Uint32Array(MIN_ROWS);
  #next = new Uint32Array(MIN_ROWS);
  #previous = new Uint32Array(MIN_ROWS);
  #link = new Uint32Array(MIN_ROWS);
  #length = new Uint32Array(MIN_ROWS);
  #chains = new Uint32Array(MIN_ROWS);
  /** First free row, + 1; the others by their `next`. */
  #free = 0;
  #made = 0;
  #arrivals = 0;

  /** The row to look at first; -1 if there is none. */
  get first(): number {
    return this.count === 0 ? -1 : this.#heap[0];
  }

  /** When to look at a row. */
  wakeMs(row: number): number {
    const dueAtMs = this.dueAtMs[row];
    const deadlineMs = this.deadlineMs[row];
    return dueAtMs < deadlineMs ? dueAtMs : deadlineMs;
  }

  /** The row behind it in its queue; -1 if it is the last. */
  behind(row: number): number {
    const next = this.#next[row];
    // The first row's `previous` is the last one.
    return this.#previous[this.#headOf(row)] === row ? -1 : next;
  }

  /** How many rows the queue of a key has. */
  lengthOf(key: KeyWords): number {
    const head = this.#find(key);
    return head < 0 ? 0 : this.#length[head];
  }

  /** All rows, in no order. */
  *[Symbol.iterator](): Iterator<number> {
    for (let i = 0; i < this.count; i++) yield this.#heap[i];
  }

  /** All rows, the last to arrive first. */
  latestFirst(): number[] {
    return [...this].sort((a, b) => (this.#order[b] - this.#order[a]) | 0);
  }

  /** Adds a row at the end of its key's queue. The caller fills in its virtual time. */
  add(
    { low, high, setA }: KeyWords,
    cost: number,
    dueAtMs: number,
    deadlineMs: number,
    resolve: (outcome: void | Promise<void>) => void,
  ): number {
    const row = this.#take();
    this.low[row] = low;
    this.high[row] = high;
    this.setA[row] = setA;
    this.cost[row] = cost;
    this.dueAtMs[row] = dueAtMs;
    this.deadlineMs[row] = deadlineMs;
    this.resolve[row] = resolve;
    this.#order[row] = this.#arrivals++;
    this.#append(row);
    this.#heap[this.count] = row;
    this.#place[row] = this.count++;
    this.replace(row);
    return row;
  }

  /** Frees a row. */
  remove(row: number): void {
    this.#unlink(row);
    const last = this.#heap[--this.count];
    if (last !== row) {
      this.#heap[this.#place[row]] = last;
      this.#place[last] = this.#place[row];
      this.replace(last);
    }
    this.resolve[row] = undefined;
    this.#next[row] = this.#free;
    this.#free = row + 1;
    if (this.count === 0 && this.#made > MAX_IDLE_ROWS) this.#shrink();
  }

  // --- queues -------------------------------------------------------------------

  #chainOf(low: number, high: number, setA: number): number {
    return (Math.imul(low ^ setA, 0x9e3779b1) ^ Math.imul(high, 0x85ebca6b)) & (this.#chains.length - 1);
  }

  /** First row of a key's queue; -1 if there is none. */
  #find({ low, high, setA }: KeyWords): number {
    low |= 0;
    high |= 0;
    setA |= 0;
    let row = this.#chains[this.#chainOf(low, high, setA)] - 1;
    while (row >= 0 && !(this.low[row] === low && this.high[row] === high && this.setA[row] === setA)) {
      row = this.#link[row] - 1;
    }
    return row;
  }

  #headOf(row: number): number {
    return this.#find({ low: this.low[row], high: this.high[row], setA: this.setA[row] });
  }

  #append(row: number): void {
    const head = this.#headOf(row);
    if (head < 0) {
      this.#next[row] = this.#previous[row] = row;
      this.#length[row] = 1;
      this.#chain(row);
      return;
    }
    const last = this.#previous[head];
    this.#next[last] = row;
    this.#previous[row] = last;
    this.#next[row] = head;
    this.#previous[head] = row;
    this.#length[head]++;
  }

  #unlink(row: number): void {
    const head = this.#headOf(row);
    const length = this.#length[head] - 1;
    const next = this.#next[row];
    const previous = this.#previous[row];
    this.#next[previous] = next;
    this.#previous[next] = previous;
    if (row !== head) {
      this.#length[head] = length;
      return;
    }
    this.#unchain(row);
    if (length === 0) return;
    this.#length[next] = length;
    this.#chain(next);
  }

  #chain(head: number): void {
    const chain = this.#chainOf(this.low[head], this.high[head], this.setA[head]);
    this.#link[head] = this.#chains[chain];
    this.#chains[chain] = head + 1;
  }

  #unchain(head: number): void {
    const chain = this.#chainOf(this.low[head], this.high[head], this.setA[head]);
    if (this.#chains[chain] === head + 1) {
      this.#chains[chain] = this.#link[head];
      return;
    }
    let before = this.#chains[chain] - 1;
    while (this.#link[before] !== head + 1) before = this.#link[before] - 1;
    this.#link[before] = this.#link[head];
  }

  // --- the heap: binary, by time to wake, ties by order of arrival ----------------

  /** Puts a row in its place in the heap, after its times changed. */
  replace(row: number): void {
    const heap = this.#heap;
    let place = this.#place[row];
    while (place > 0 && this.#isBefore(row, heap[(place - 1) >> 1])) {
      const above = heap[(place - 1) >> 1];
      this.#place[above] = place;
      heap[place] = above;
      place = (place - 1) >> 1;
    }
    for (;;) {
      let below = 2 * place + 1;
      if (below + 1 < this.count && this.#isBefore(heap[below + 1], heap[below])) below++;
      if (below >= this.count || !this.#isBefore(heap[below], row)) break;
      this.#place[heap[below]] = place;
      heap[place] = heap[below];
      place = below;
    }
    this.#place[row] = place;
    heap[place] = row;
  }

  #isBefore(a: number, b: number): boolean {
    const aMs = this.wakeMs(a);
    const bMs = this.wakeMs(b);
    return aMs < bMs || (aMs === bMs && ((this.#order[a] - this.#order[b]) | 0) < 0);
  }

  // --- room -----------------------------------------------------------------------

  #take(): number {
    if (this.#free === 0) {
      if (this.#made === this.cost.length) this.#resize(Math.ceil(this.#made * GROWTH));
      return this.#made++;
    }
    const row = this.#free - 1;
    this.#free = this.#next[row];
    return row;
  }

  /** Gives back the memory that a rush needed, when no row is left. */
  #shrink(): void {
    this.#made = this.#free = this.resolve.length = 0;
    this.#resize(MIN_ROWS);
  }

  #resize(length: number): void {
    const moved = <Column extends Float64Array | Uint32Array | Int32Array>(column: Column): Column => {
      const longer = new (column.constructor as new(length: number) => Column)(length);
      longer.set(column.subarray(0, Math.min(length, this.#made)));
      return longer;
    };
    this.dueAtMs = moved(this.dueAtMs);
    this.deadlineMs = moved(this.deadlineMs);
    this.dueAtLow = moved(this.dueAtLow);
    this.dueAtHigh = moved(this.dueAtHigh);
    this.low = moved(this.low);
    this.high = moved(this.high);
    this.setA = moved(this.setA);
    this.cost = moved(this.cost);
    this.#order = moved(this.#order);
    this.#place = moved(this.#place);
    this.#heap = moved(this.#heap);
    this.#next = moved(this.#next);
    this.#previous = moved(this.#previous);
    this.#link = moved(this.#link);
    this.#length = moved(this.#length);
    const chains = 2 ** Math.floor(Math.log2(length));
    if (chains === this.#chains.length) return;
    const heads: number[] = [];
    for (const row of this) if (this.#headOf(row) === row) heads.push(row);
    this.#chains = new Uint32Array(chains);
    for (const head of heads) this.#chain(head);
  }
}
