// How the guard reads a framework's request: by two functions, without an object
// for each request.

import { GONE } from "./address.js";

/** Reads the requests of a framework. */
export interface Reader<Request> {
  /** The value or values of a header, by its lower-case name; undefined without one. */
  header(request: Request, name: string): string | readonly string[] | undefined;
  /**
   * The address of the connection's peer; undefined on a Unix socket, 'gone' if the
   * peer disconnected before it was read.
   */
  remoteAddress(request: Request): string | undefined;
}

/**
 * The address of a socket's peer; undefined on a Unix socket. When a peer resets its
 * connection, the system forgets its address but keeps our own: then it is 'gone'.
 */
export function peerAddress(
  socket: { remoteAddress?: string | undefined; localAddress?: string | undefined; destroyed?: boolean },
): string | undefined {
  return socket.remoteAddress ?? (socket.localAddress !== undefined || socket.destroyed === true ? GONE : undefined);
}

/** A request without a framework. */
export interface PlainRequest {
  /** GET, POST, ... */
  readonly method: string;
  /** The path with its query, as on the request line. */
  readonly url: string;
  /** Values by lower-case name. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The address of the connection's peer; undefined on a Unix socket. */
  readonly remoteAddress?: string | undefined;
}

/** Reads a PlainRequest. */
export const plainReader: Reader<PlainRequest> = {
  header: (request, name) => (Object.hasOwn(request.headers, name) ? request.headers[name] : undefined),
  remoteAddress: (request) => request.remoteAddress,
};
