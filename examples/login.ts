/**
 * Login protection over HTTP: at most 5 wrong passwords for an account and 20 from an
 * address, however many logins arrive at once. Right passwords do not count.
 *
 *   node build/examples/login.js --port 8080
 *   curl -d '{"account":"alice","password":"correct horse"}' http://127.0.0.1:8080/login
 *
 * docs/login.md explains the design.
 */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { parseArgs, promisify } from "node:util";
import { every, Sluice } from "sluice";

const MINUTE_MS = 60_000;
const sluice = Sluice.create({ capacity: 1_000_000 });
// 5 failures at once, then one every 3 minutes. Worker threads find the limiters by name:
// Sluice.attach(handle).limiter("login account").
const perAccount = sluice.tokenBucket("login account", { rate: every(3 * MINUTE_MS), burst: 5 });
const perAddress = sluice.tokenBucket("login address", { rate: every(MINUTE_MS), burst: 20 });

/** `retryAfterMs` is there if a limit refused and the password was not checked. */
interface Outcome {
  ok: boolean;
  retryAfterMs?: number;
}

async function login(account: string, address: string, password: string): Promise<Outcome> {
  // Take a failure from both limits before the check, so that of 1,000 logins at once only a few are checked.
  const { allowed, retryAfterMs } = sluice.all([[perAccount, account], [perAddress, address]]);
  if (!allowed) return { ok: false, retryAfterMs };
  // If the check throws, nothing is refunded: it counts as a failure.
  const ok = await isPasswordOf(account, password);
  if (ok) {
    perAccount.refund(account);
    perAddress.refund(address);
  }
  return { ok };
}

// --- accounts: replace these with yours ------------------------------------------

const hash = promisify<string, Buffer, number, Buffer>(scrypt);
const accounts = new Map<string, { salt: Buffer; hashed: Buffer }>();

async function addAccount(account: string, password: string): Promise<void> {
  const salt = randomBytes(16);
  accounts.set(account, { salt, hashed: await hash(password, salt, 32) });
}
await addAccount("alice", "correct horse");

/** Stands in for an account that does not exist, so that the check takes as long. */
const unknown = { salt: randomBytes(16), hashed: randomBytes(32) };

async function isPasswordOf(account: string, password: string): Promise<boolean> {
  const { salt, hashed } = accounts.get(account) ?? unknown;
  return timingSafeEqual(await hash(password, salt, 32), hashed);
}

// --- the server ------------------------------------------------------------------

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const reply = (status: number, body: object, headers: Record<string, string> = {}) =>
    void response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  // Behind a proxy of your own, use clientAddress() from sluice/http instead.
  const address = request.socket.remoteAddress;
  // The client has disconnected.
  if (address === undefined) return void response.destroy();
  if (request.method !== "POST" || request.url !== "/login") return reply(404, { error: "POST to /login" });
  const { account, password } = await readBody(request);
  if (typeof account !== "string" || typeof password !== "string") {
    return reply(400, { error: "expected { \"account\", \"password\" }" });
  }
  const { ok, retryAfterMs } = await login(account, address, password);
  if (retryAfterMs !== undefined) {
    const headers = { "retry-after": String(Math.ceil(retryAfterMs / 1000)) };
    return reply(429, { error: "too many wrong passwords" }, headers);
  }
  return ok ? reply(200, { welcome: account }) : reply(401, { error: "wrong account or password" });
}

/** An empty object if the body is not JSON. */
async function readBody(request: IncomingMessage): Promise<{ account?: unknown; password?: unknown }> {
  return (await json(request).catch(() => undefined)) ?? {};
}

const { values } = parseArgs({ options: { port: { type: "string", default: "8080" } } });

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    console.error(error);
    response.writeHead(500).end();
  });
});
server.listen(Number(values.port), "127.0.0.1");
await once(server, "listening");
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/login`);
