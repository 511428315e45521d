// The lists of requests that no limit counts, let through or refused: by address
// and by key.

import { shown } from "../../engine/errors.js";
import { checkOptions } from "../../engine/options.js";
import type { Key } from "../../engine/table/key.js";
import { GONE, inRanges } from "../client/address.js";
import type { ClientAddress } from "../client/client-address.js";
import type { Reader } from "../client/reader.js";

export interface ListOptions {
  /**
   * IP addresses and ranges such as `10.0.0.0/8`; `'unix'` for peers on a Unix socket.
   * They need the guard's `client`.
   */
  addresses?: readonly string[];
  /** Keys, as the `key` functions of the limits give them. */
  keys?: readonly (string | number | bigint)[];
}

export class List {
  readonly #inAddresses: ((address: string) => boolean) | undefined;
  readonly #keys: ReadonlySet<Key> | undefined;
  readonly #client: ClientAddress | undefined;
  /** A disconnected peer has no address: it counts as denied and never as allowed. */
  readonly #hasGone: boolean;

  /** Throws TypeError or RangeError for wrong options. */
  constructor(name: "allow" | "deny", options: ListOptions, client: ClientAddress | undefined) {
    checkOptions(options, ["addresses", "keys"], name);
    const { addresses, keys } = options;
    if (addresses !== undefined) {
      if (!client) {
        throw new TypeError(`"client" expected clientAddress(...), which "${name}.addresses" needs, got undefined`);
      }
      this.#inAddresses = inRanges(`${name}.addresses`, addresses);
    }
    if (keys !== undefined) {
      if (!Array.isArray(keys)) throw new TypeError(`"${name}.keys" expected an array of keys, got ${shown(keys)}`);
      keys.forEach((key, i) => {
        if (!["string", "number", "bigint"].includes(typeof key)) {
          throw new TypeError(`"${name}.keys[${i}]" expected a string, number or bigint, got ${shown(key)}`);
        }
      });
      this.#keys = new Set<Key>(keys);
    }
    this.#client = client;
    this.#hasGone = name === "deny";
  }

  hasAddress<Request>(request: Request, reader: Reader<Request>): boolean {
    if (this.#inAddresses === undefined) return false;
    const address = this.#client!.address(request, reader);
    return address === GONE ? this.#hasGone : this.#inAddresses(address);
  }

  hasKeyOf(charges: readonly { readonly key: Key | undefined }[]): boolean {
    return this.#keys !== undefined && charges.some(({ key }) => key !== undefined && this.#keys!.has(key));
  }
}
