/** Forwards requests to the upstream and its answers to the client. Streams both bodies and keeps connections open. */
import { EventEmitter } from "node:events";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { Pool } from "undici";
import type { UpstreamOptions } from "./sections.js";

/** Headers that concern one connection only (RFC 9110, 7.6.1), and `expect`, which the server has answered already. */
const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "expect",
];

/** Headers to set on the request to the upstream; undefined removes one. Names in lower case. */
export type OwnHeaders = Record<string, string | undefined>;

export interface Upstream {
  /**
   * Answers `request` with the upstream's answer; with 504 if none begins within
   * `timeoutMs`, with 502 if the upstream cannot be reached.
   */
  forward(request: IncomingMessage, response: ServerResponse, headers: OwnHeaders): Promise<void>;
  /** Resolves when the open requests are done. */
  close(): Promise<void>;
}

export function openUpstream({ url, connections, timeoutMs }: UpstreamOptions): Upstream {
  const pool = new Pool(url, {
    connections,
    bodyTimeout: timeoutMs,
    headersTimeout: 0,
    connect: { timeout: timeoutMs },
  });

  async function forward(request: IncomingMessage, response: ServerResponse, headers: OwnHeaders): Promise<void> {
    // undici accepts an emitter as a signal: 0.2 µs, where an AbortSignal takes some 20 µs.
    const ending = new EventEmitter();
    let isLate = false;
    response.once("close", () => ending.emit("abort"));
    // Unlike undici's headersTimeout, this includes the wait for a free connection.
    const timer = setTimeout(() => {
      isLate = true;
      ending.emit("abort");
    }, timeoutMs);
    const options = {
      method: request.method ?? "GET",
      path: request.url ?? "/",
      headers: { ...withoutTwins(endToEnd(request.headers), headers), ...headers },
      body: hasBody(request) ? request : null,
      signal: ending,
    };
    try {
      await pool.stream(options, (answer) => {
        clearTimeout(timer);
        return response.writeHead(answer.statusCode, endToEnd(answer.headers));
      });
    } catch (error) {
      clearTimeout(timer);
      fail(response, isLate || (error as { code?: unknown }).code === "UND_ERR_CONNECT_TIMEOUT");
    }
  }

  return { forward, close: () => pool.close() };
}

function fail(response: ServerResponse, isLate: boolean): void {
  if (response.headersSent || response.destroyed) {
    // Cut off, so that the client does not take a partial answer for the whole.
    response.destroy();
    return;
  }
  response.writeHead(isLate ? 504 : 502, { "content-type": "text/plain" }).end(
    isLate ? "the upstream took too long\n" : "the upstream cannot be reached\n",
  );
}

function hasBody({ headers }: IncomingMessage): boolean {
  return "transfer-encoding" in headers || Number(headers["content-length"]) > 0;
}

/**
 * Removes `x_tenant` where we set `x-tenant`: CGI and its successors turn both into
 * the same variable, so an upstream could read the client's value.
 */
function withoutTwins(kept: IncomingHttpHeaders, headers: OwnHeaders): IncomingHttpHeaders {
  for (const name in kept) if (name.includes("_") && name.replaceAll("_", "-") in headers) delete kept[name];
  return kept;
}

/** The headers without those that concern one connection only. */
function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const kept = { ...headers };
  for (const name of HOP_BY_HOP) delete kept[name];
  // The sender can name more of them in `connection`.
  for (const name of String(headers.connection ?? "").toLowerCase().split(",")) delete kept[name.trim()];
  return kept;
}
