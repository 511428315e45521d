// How the guard reads a request, whatever the framework: it needs no more than
// this, and makes no object of it.

import { GONE } from "./address.js";

export interface Reader<Request> {
  /** The value of a header by its lower-case name, or its values; undefined if there is none. */
  header(request: Request, name: string): string | readonly string[] | undefined;
  /** The address of the connection's peer; undefined on a Unix socket, 'gone' if the peer hung up before it was asked for. */
  remoteAddress(request: Request): string | undefined;
}

/**
 * The address of a socket's peer. The system forgets that of a peer that has
 * reset its connection, but not our own end of it; a Unix socket has neither.
 */
export function peerAddress(
  socket: { remoteAddress?: string | undefined; localAddress?: string | undefined; destroyed?: boolean },
): string | undefined {
  return socket.remoteAddress ?? (socket.localAddress !== undefined || socket.destroyed === true ? GONE : undefined);
}

/** A request of no framework. */
export interface PlainRequest {
  readonly method: string;
  /** As on the request line: the path with its query. */
  readonly url: string;
  /** By lower-case names. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly remoteAddress?: string | undefined;
}

/** Reads requests of no framework. */
export const plainReader: Reader<PlainRequest> = {
  header: (request, name) => (Object.hasOwn(request.headers, name) ? request.headers[name] : undefined),
  remoteAddress: (request) => request.remoteAddress,
};
