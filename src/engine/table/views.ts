// Typed arrays over a table's memory.

import { closed } from "../errors.js";

export class Views {
  readonly bytes: Uint8Array;
  /** 32-bit words, signed and not. */
  readonly words: Int32Array;
  readonly unsigned: Uint32Array;
  readonly doubles: Float64Array;
  readonly longs: BigUint64Array;

  constructor(buffer: SharedArrayBuffer) {
    this.bytes = new Uint8Array(buffer);
    this.words = new Int32Array(buffer);
    this.unsigned = new Uint32Array(buffer);
    this.doubles = new Float64Array(buffer);
    this.longs = new BigUint64Array(buffer);
  }

  /** From now on every access throws ERR_SLUICE_CLOSED. */
  revoke(): void {
    for (const view of ["bytes", "words", "unsigned", "doubles", "longs"]) {
      Object.defineProperty(this, view, { get: refuse });
    }
  }
}

/** Throws ERR_SLUICE_CLOSED. */
export function refuse(): never {
  throw closed();
}
