// A service that a proxy asks before it lets a request through: nginx's
// auth_request, Caddy's forward_auth, Traefik's ForwardAuth. They send a request
// of their own, which tells the original one in its headers.

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { checkOptions, shown } from "../engine/errors.js";
import type { ClientAddress } from "./client/client-address.js";
import { peerAddress, plainReader, type PlainRequest } from "./client/reader.js";
import { type Answer, Guard, type GuardOptions } from "./guard/guard.js";

export interface ForwardAuthOptions extends GuardOptions<PlainRequest> {
  /** Who asks, and whether to believe what it says of the original request: `clientAddress({ hops })` or `clientAddress({ trusted })`. */
  client: ClientAddress;
  /**
   * The headers in which your proxy tells method and URI: 'x-forwarded-method' and
   * 'x-forwarded-uri' by default, as Caddy and Traefik do. Name those that it
   * always sets: others come from the client.
   */
  original?: { method: string; uri: string };
  /** Answers so instead of 429 or 503: for nginx, whose auth_request passes on nothing but 401 and 403. */
  limitedStatus?: 401 | 403;
  /** Called with what a function of the options threw, after the proxy was answered 500. By default a warning of the process. */
  onError?: (error: unknown, request: PlainRequest) => void;
}

const ERROR = JSON.stringify({ type: "about:blank", title: "Internal Server Error", status: 500 });

/**
 * A request listener that answers 204 if the original request may go ahead, and
 * else as a guard does, with the same header fields. The options' functions get the
 * original request: its method and URL, the proxy's headers, the proxy's address.
 * Of a peer that the rule does not trust, its own request is the original one.
 */
export function forwardAuth(options: ForwardAuthOptions): RequestListener {
  checkOptions(options);
  const {
    client,
    original = { method: "x-forwarded-method", uri: "x-forwarded-uri" },
    limitedStatus,
    onError = (error) =>
      process.emitWarning(error instanceof Error ? error : `a function of the options threw ${shown(error)}`),
  } = options;
  if (typeof client !== "function" || !client.readsHeaders) {
    const got = typeof client === "function" ? "one that reads no header" : shown(client);
    throw new TypeError(
      `"client" expected clientAddress({ hops }) or clientAddress({ trusted }), which say whose headers to believe, got ${got}`,
    );
  }
  checkOptions(original, "original");
  for (const [name, header] of [["method", original.method], ["uri", original.uri]]) {
    if (typeof header !== "string") {
      throw new TypeError(`"original.${name}" expected the name of a header, got ${shown(header)}`);
    }
  }
  if (limitedStatus !== undefined && limitedStatus !== 401 && limitedStatus !== 403) {
    throw new RangeError(`"limitedStatus" expected 401 or 403, got ${shown(limitedStatus)}`);
  }
  if (typeof onError !== "function") throw new TypeError(`"onError" expected a function, got ${shown(onError)}`);
  const methodHeader = original.method.toLowerCase();
  const uriHeader = original.uri.toLowerCase();
  const guard = new Guard(options, plainReader);

  const originalOf = ({ method = "", url = "", headers, socket }: IncomingMessage): PlainRequest => {
    const asked = { method, url, headers, remoteAddress: peerAddress(socket) };
    if (!client.trustsPeer(asked, plainReader)) return asked;
    return {
      ...asked,
      method: headerOf(asked, methodHeader) ?? method,
      url: pathOf(headerOf(asked, uriHeader) ?? url),
    };
  };
  const reply = (response: ServerResponse, { allowed, status, fields, body, refusal }: Answer): void => {
    for (let i = 0; i < fields.length; i += 2) response.setHeader(fields[i], fields[i + 1]);
    response.statusCode = allowed ? 204 : refusal === "limited" && limitedStatus !== undefined ? limitedStatus : status;
    response.end(allowed ? undefined : body);
  };
  return (request, response) => {
    const asked = originalOf(request);
    const fail = (error: unknown): void => {
      response.writeHead(500, { "Content-Type": "application/problem+json" }).end(ERROR);
      onError(error, asked);
    };
    try {
      const answer = guard.decide(asked);
      if (answer instanceof Promise) answer.then((later) => reply(response, later)).catch(fail);
      else reply(response, answer);
    } catch (error) {
      fail(error);
    }
  };
}

function headerOf(request: PlainRequest, name: string): string | undefined {
  const value = plainReader.header(request, name);
  return typeof value === "string" ? value : value?.[0];
}

/** The path and query of a URI, which some proxies tell with scheme and host. */
function pathOf(uri: string): string {
  return uri.replace(/^https?:\/\/[^/?#]*/i, "") || "/";
}
