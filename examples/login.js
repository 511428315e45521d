/**
 * A login over HTTP that nobody can guess at: at most 5 wrong passwords for an
 * account and 20 from an address, however many are tried at once; right ones do
 * not count.
 *
 *   node examples/login.js --port 8080
 *   curl -d '{"account":"alice","password":"correct horse"}' http://127.0.0.1:8080/login
 *
 * docs/login.md says why it is done in this way.
 */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { parseArgs, promisify } from "node:util";
import { every, Sluice } from "sluice";

const MINUTE_MS = 60_000;
const sluice = Sluice.create({ capacity: 1_000_000 });
// 5 failures at once, and one more every 3 minutes. Worker threads find these by name: Sluice.attach(handle).limiter('login account')
const perAccount = sluice.tokenBucket("login account", { rate: every(3 * MINUTE_MS), burst: 5 });
const perAddress = sluice.tokenBucket("login address", { rate: every(MINUTE_MS), burst: 20 });

/** Checks a password: { ok: true }, { ok: false }, or { ok: false, retryAfterMs } if it was not even looked at. */
async function login(account, address, password) {
  // What a failure costs is taken before the password is looked at, so that a thousand at once cannot all pass.
  const { allowed, retryAfterMs } = sluice.all([[perAccount, account], [perAddress, address]]);
  if (!allowed) return { ok: false, retryAfterMs };
  // Should the check throw, it counts as a failure.
  const ok = await isPasswordOf(account, password);
  if (ok) {
    perAccount.refund(account);
    perAddress.refund(address);
  }
  return { ok };
}

// --- accounts: replace these by yours ------------------------------------------

const hash = promisify(scrypt);
const accounts = new Map();
async function addAccount(account, password) {
  const salt = randomBytes(16);
  accounts.set(account, { salt, hashed: await hash(password, salt, 32) });
}
await addAccount("alice", "correct horse");

/** Takes as long for an account that does not exist. */
const nobody = { salt: randomBytes(16), hashed: randomBytes(32) };
async function isPasswordOf(account, password) {
  const { salt, hashed } = accounts.get(account) ?? nobody;
  return timingSafeEqual(await hash(password, salt, 32), hashed);
}

// --- the server ------------------------------------------------------------------

const { values } = parseArgs({ options: { port: { type: "string", default: "8080" } } });

const server = createServer(async (request, response) => {
  const answer = (status, body, headers = {}) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  if (request.method !== "POST" || request.url !== "/login") return answer(404, { error: "POST to /login" });
  const { account, password } = (await json(request).catch(() => undefined)) ?? {};
  if (typeof account !== "string" || typeof password !== "string") {
    return answer(400, { error: "expected { \"account\", \"password\" }" });
  }
  const { ok, retryAfterMs } = await login(account, request.socket.remoteAddress, password);
  if (retryAfterMs !== undefined) {
    return answer(429, { error: "too many wrong passwords" }, { "retry-after": Math.ceil(retryAfterMs / 1000) });
  }
  return ok ? answer(200, { welcome: account }) : answer(401, { error: "wrong account or password" });
});
server.listen(Number(values.port), "127.0.0.1");
await once(server, "listening");
console.log(`http://127.0.0.1:${server.address().port}/login`);
