// How the guard reads a request, whatever the framework: it needs no more than
// this, and makes no object of it.

export interface Reader<Request> {
  /** The value of a header by its lower-case name, or its values; undefined if there is none. */
  header(request: Request, name: string): string | readonly string[] | undefined
  /** The address of the connection's peer; undefined on a Unix socket, and once the peer is gone. */
  remoteAddress(request: Request): string | undefined
}

/** A request of no framework. */
export interface PlainRequest {
  readonly method: string
  /** As on the request line: the path with its query. */
  readonly url: string
  /** By lower-case names. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly remoteAddress?: string | undefined
}

/** Reads requests of no framework. */
export const plainReader: Reader<PlainRequest> = {
  header: (request, name) => (Object.hasOwn(request.headers, name) ? request.headers[name] : undefined),
  remoteAddress: (request) => request.remoteAddress,
}
