// A table's clock cell: the time as shared memory holds it, for the clocks that
// are moved by one thread, a ticker or a ManualClock, and read by all.

const LATEST_NS = 2n ** 63n - 1n;

/** A time in ms as whole ns, as far as 64 bits reach. */
export function wholeNanoseconds(ms: number): bigint {
  const ns = Math.round(ms * 1e6);
  return ns < Number(LATEST_NS) ? BigInt(ns) : LATEST_NS;
}

/** The time since the table's epoch: ms for TypeScript, ns for the kernel. */
export class ClockCell {
  /** Its one element is the time. */
  readonly ms: Float64Array;
  readonly #ns: BigInt64Array;

  constructor(buffer: SharedArrayBuffer, msAt: number, nsAt: number) {
    this.ms = new Float64Array(buffer, msAt, 1);
    this.#ns = new BigInt64Array(buffer, nsAt, 1);
  }

  set(ms: number): void {
    this.#ns[0] = wholeNanoseconds(ms);
    this.ms[0] = ms;
  }
}
