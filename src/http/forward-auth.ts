// A service that a proxy asks before it lets a request through: nginx's
// auth_request, Caddy's forward_auth, Traefik's ForwardAuth. They send a request
// of their own, whose headers describe the original one.

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { shown } from "../engine/errors.js";
import { checkOptions } from "../engine/options.js";
import type { ClientAddress } from "./client/client-address.js";
import { peerAddress, plainReader, type PlainRequest } from "./client/reader.js";
import type { Answer } from "./guard/answer.js";
import { Guard, GUARD_OPTIONS, type GuardOptions } from "./guard/guard.js";
import { PROBLEM_JSON } from "./guard/problem.js";

export interface ForwardAuthOptions extends GuardOptions<PlainRequest> {
  /**
   * Which peers are believed, both for the client's address and for the original
   * request: `clientAddress({ hops })` or `clientAddress({ trusted })`.
   */
  client: ClientAddress;
  /**
   * The headers with the original method and URI. Default: 'x-forwarded-method' and
   * 'x-forwarded-uri', as Caddy and Traefik send them. Name headers that your proxy
   * always sets: any other comes from the client.
   */
  original?: { method: string; uri: string };
  /**
   * The status in place of 429 or 503, for nginx, whose auth_request passes on only 401
   * and 403. Default: the status of the guard's answer.
   */
  limitedStatus?: 401 | 403;
  /**
   * Called with the error of a function of the options, after a response of 500.
   * Default: a warning of the process.
   */
  onError?: (error: unknown, request: PlainRequest) => void;
}

const ERROR = JSON.stringify({ type: "about:blank", title: "Internal Server Error", status: 500 });

/**
 * A request listener that answers 204 if the original request may proceed, and
 * otherwise as a guard does, with the same header fields. The functions of the
 * options get the original request: its method and URL, with the headers and the peer
 * address of the proxy's request. The request of a peer that `client` does not trust
 * is itself the original one.
 * @throws {TypeError | RangeError} if an option is wrong or unknown, or if `client`
 * reads no headers
 */
export function forwardAuth(options: ForwardAuthOptions): RequestListener {
  const { client, original, limitedStatus, onError, guardOptions } = checked(options);
  const guard = new Guard(guardOptions, plainReader);
  const originalOf = originalReader(client, original.method.toLowerCase(), original.uri.toLowerCase());
  const reply = (response: ServerResponse, { allowed, status, fields, body, refusal }: Answer): void => {
    for (let i = 0; i < fields.length; i += 2) response.setHeader(fields[i], fields[i + 1]);
    response.statusCode = allowed ? 204 : refusal === "limited" && limitedStatus !== undefined ? limitedStatus : status;
    response.end(allowed ? undefined : body);
  };
  return (request, response) => {
    const asked = originalOf(request);
    const fail = (error: unknown): void => {
      response.writeHead(500, { "Content-Type": PROBLEM_JSON }).end(ERROR);
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

/** The options with their defaults, those of the guard apart. */
function checked(options: ForwardAuthOptions) {
  checkOptions(options, [...GUARD_OPTIONS, "original", "limitedStatus", "onError"]);
  const {
    original = { method: "x-forwarded-method", uri: "x-forwarded-uri" },
    limitedStatus,
    onError = (error) =>
      process.emitWarning(error instanceof Error ? error : `a function of the options threw ${shown(error)}`),
    ...guardOptions
  } = options;
  const { client } = guardOptions;
  if (typeof client !== "function" || !client.readsHeaders) {
    const got = typeof client === "function" ? "a rule that reads no headers" : shown(client);
    throw new TypeError(`"client" expected clientAddress({ hops }) or clientAddress({ trusted }), got ${got}`);
  }
  checkOptions(original, ["method", "uri"], "original");
  for (const [name, header] of [["method", original.method], ["uri", original.uri]]) {
    if (typeof header !== "string") {
      throw new TypeError(`"original.${name}" expected the name of a header, got ${shown(header)}`);
    }
  }
  if (limitedStatus !== undefined && limitedStatus !== 401 && limitedStatus !== 403) {
    throw new RangeError(`"limitedStatus" expected 401 or 403, got ${shown(limitedStatus)}`);
  }
  if (typeof onError !== "function") throw new TypeError(`"onError" expected a function, got ${shown(onError)}`);
  return { client, original, limitedStatus, onError, guardOptions };
}

/** Reads the original request from that of the proxy. */
function originalReader(
  client: ClientAddress,
  methodHeader: string,
  uriHeader: string,
): (request: IncomingMessage) => PlainRequest {
  return ({ method = "", url = "", headers, socket }) => {
    const asked = { method, url, headers, remoteAddress: peerAddress(socket) };
    if (!client.trustsPeer(asked, plainReader)) return asked;
    return {
      ...asked,
      method: headerOf(asked, methodHeader) ?? method,
      url: pathOf(headerOf(asked, uriHeader) ?? url),
    };
  };
}

function headerOf(request: PlainRequest, name: string): string | undefined {
  const value = plainReader.header(request, name);
  return typeof value === "string" ? value : value?.[0];
}

/** The path and query of a URI, which some proxies send with scheme and host. */
function pathOf(uri: string): string {
  return uri.replace(/^https?:\/\/[^/?#]*/i, "") || "/";
}
