/**
 * Passes requests on to the upstream and its answers back, streaming both
 * bodies, over connections that are kept open.
 */
import { EventEmitter } from "node:events";
import { Pool } from "undici";

/** What concerns one connection only (RFC 9110, 7.6.1), and `expect`, which the server has answered already. */
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

/** @param {import('./config.js').Config['upstream']} options */
export function openUpstream({ url, connections, timeoutMs }) {
  const pool = new Pool(url, {
    connections,
    bodyTimeout: timeoutMs,
    headersTimeout: 0,
    connect: { timeout: timeoutMs },
  });

  /**
   * Answers `request` with what the upstream answers, with 504 if it does not
   * begin to within `timeoutMs`, or 502 if it cannot be reached.
   * @param {import('node:http').IncomingMessage} request
   * @param {import('node:http').ServerResponse} response
   * @param {Record<string, string | undefined>} headers  to set for the upstream; undefined removes one
   */
  async function forward(request, response, headers) {
    // undici takes an emitter for a signal; an AbortSignal costs more than the rest of this function.
    const ending = new EventEmitter();
    let isLate = false;
    response.once("close", () => ending.emit("abort"));
    // Covers the wait for a free connection, too.
    const timer = setTimeout(() => {
      isLate = true;
      ending.emit("abort");
    }, timeoutMs);
    const options = {
      method: request.method,
      path: request.url,
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
      fail(response, isLate || error.code === "UND_ERR_CONNECT_TIMEOUT");
    }
  }

  return { forward, close: () => pool.close() };
}

function fail(response, isLate) {
  if (response.headersSent || response.destroyed) {
    // Cut off, so that the client does not take a part for the whole.
    response.destroy();
    return;
  }
  response.writeHead(isLate ? 504 : 502, { "content-type": "text/plain" }).end(
    isLate ? "the upstream took too long\n" : "the upstream cannot be reached\n",
  );
}

function hasBody({ headers }) {
  return "transfer-encoding" in headers || Number(headers["content-length"]) > 0;
}

/** Without `x_tenant` beside an `x-tenant` that we set: by CGI and its like, an upstream takes the one for the other. */
function withoutTwins(kept, headers) {
  for (const name in kept) if (name.includes("_") && name.replaceAll("_", "-") in headers) delete kept[name];
  return kept;
}

/** The headers that are meant for the other end. */
function endToEnd(headers) {
  const kept = { ...headers };
  for (const name of HOP_BY_HOP) delete kept[name];
  // What the sender itself calls hop-by-hop.
  for (const name of String(headers.connection ?? "").toLowerCase().split(",")) delete kept[name.trim()];
  return kept;
}
