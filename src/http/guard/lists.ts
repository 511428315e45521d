// Who is let through uncounted and who is refused unasked: by address and by key.

import { checkOptions, shown } from "../../engine/errors.js";
import type { Key } from "../../engine/table/key.js";
import { GONE, inRanges } from "../client/address.js";
import type { ClientAddress } from "../client/client-address.js";
import type { Reader } from "../client/reader.js";

export interface ListOptions {
  /** IP addresses and ranges, as `10.0.0.0/8`; `'unix'` for peers on a Unix socket. They need `client`. */
  addresses?: readonly string[];
  /** Keys as any of the limits has them. */
  keys?: readonly (string | number | bigint)[];
}

export class List {
  readonly #inAddresses: ((address: string) => boolean) | undefined;
  readonly #keys: ReadonlySet<Key> | undefined;
  readonly #client: ClientAddress | undefined;
  /** Whoever has hung up cannot show that it is not on the list of those who are refused, nor on that of those who are let through. */
  readonly #hasGone: boolean;

  constructor(name: string, options: ListOptions, client: ClientAddress | undefined) {
    checkOptions(options, name);
    if (Array.isArray(options)) throw new TypeError(`"${name}" expected { addresses?, keys? }, got an array`);
    const { addresses, keys } = options;
    if (addresses !== undefined) {
      if (!client) {
        throw new TypeError(
          `"client" expected clientAddress(...), by which "${name}.addresses" knows who asks, got undefined`,
        );
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

  hasKey(key: Key | undefined): boolean {
    return this.#keys !== undefined && key !== undefined && this.#keys.has(key);
  }
}
