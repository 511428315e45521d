/** The limited fetch, with real servers on the loopback and a clock that is moved by hand. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Limiter, ManualClock, Sluice } from "sluice";
import { limitedFetch, type LimitedFetchOptions } from "sluice/fetch";
import {
  fetch as undiciFetch,
  FormData as UndiciFormData,
  Request as UndiciRequest,
  Response as UndiciResponse,
} from "undici";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { Crew, sum, until } from "./threads/crew.js";

const open: Sluice[] = [];

afterEach(() => {
  vi.restoreAllMocks();
  for (const sluice of open.splice(0)) sluice.close();
});

function create(options = { rate: 10, burst: 1000 }): { sluice: Sluice; clock: ManualClock; limiter: Limiter } {
  const clock = new ManualClock(1000);
  const sluice = Sluice.create({ capacity: 1000, clock });
  open.push(sluice);
  return { sluice, clock, limiter: sluice.tokenBucket("api", options) };
}

interface Seen {
  at: number;
  method: string;
  path: string;
  body: string;
}

/** A server that answers as it is told, in turn, and the last answer for ever; says what it saw and when. */
async function serve(
  clock: ManualClock,
  ...answers: [status: number, headers?: Record<string, string>][]
): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    seen.push({ at: clock.nowMs, method: request.method!, path: request.url!, body: Buffer.concat(chunks).toString() });
    const [status, headers = {}] = answers[Math.min(seen.length, answers.length) - 1];
    response.sendDate = false;
    response.writeHead(status, headers).end(`answer ${seen.length}`);
  });
  server.listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, seen };
}

/** Moves the clock on in steps of `ms`, with real time between, until the promise has settled. */
async function whileMoving<T>(clock: ManualClock, ms: number, promise: Promise<T>): Promise<T> {
  let isSettled = false;
  const settled = promise.finally(() => (isSettled = true));
  settled.catch(() => {});
  while (!isSettled) {
    await new Promise((resolve) => setTimeout(resolve, 3));
    if (!isSettled) clock.advance(ms);
  }
  return settled;
}

/** Lets what is under way come to rest: requests arrive, answers come back. */
const rest = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));

describe("a limited fetch", () => {
  it("lets calls go as the limiter lets them", async () => {
    const { clock, limiter } = create({ rate: 10, burst: 2 });
    const { url, seen } = await serve(clock, [200]);
    const limited = limitedFetch(limiter);
    const calls = Promise.all(Array.from({ length: 5 }, async () => (await limited(url)).text()));
    for (let ready = 2; ready <= 5; ready++) {
      await until(() => seen.length === ready);
      await rest();
      expect(seen.length).toBe(ready);
      clock.advance(100);
    }
    await calls;
    expect(seen.map(({ at }) => at)).toEqual([1000, 1000, 1100, 1200, 1300]);
  });

  it("takes its cost from the bucket of its key: one key, one a host, or the global one", async () => {
    const { clock, limiter } = create();
    const { url } = await serve(clock, [200]);
    await limitedFetch(limiter, { key: "one", cost: 3 })(url);
    await limitedFetch(limiter, { key: ({ host }) => host })(new URL(url));
    await limitedFetch(limiter, { key: ({ pathname }) => pathname })(new Request(`${url}path`));
    await limitedFetch(limiter, { cost: 7 })(url);
    const left = (key?: string): number => limiter.peek(key).remaining;
    expect([left("one"), left(new URL(url).host), left("/path"), left()]).toEqual([997, 999, 999, 993]);
  });

  it("gives the address, the options and the answer through", async () => {
    const { clock, limiter } = create();
    const { url, seen } = await serve(clock, [201, { "x-own": "yes" }]);
    const response = await limitedFetch(limiter)(`${url}a?b`, { method: "POST", body: "hello" });
    expect([response.status, response.headers.get("x-own"), await response.text()]).toEqual([201, "yes", "answer 1"]);
    expect(seen).toEqual([{ at: 1000, method: "POST", path: "/a?b", body: "hello" }]);
  });

  it("takes null for no options, as fetch does", async () => {
    const { clock, limiter } = create();
    const { url } = await serve(clock, [200]);
    expect((await limitedFetch(limiter)(url, null as never)).status).toBe(200);
  });

  it("calls undici's fetch with undici's types, if it is given that", async () => {
    const { clock, limiter } = create();
    const { url, seen } = await serve(clock, [429, { "retry-after": "0" }], [200]);
    const limited: typeof undiciFetch = limitedFetch(limiter, { fetch: undiciFetch });
    expect(await limited(new UndiciRequest(url, { method: "PUT", body: "hello" }))).toBeInstanceOf(UndiciResponse);
    expect(seen.map(({ body }) => body)).toEqual(["hello", "hello"]);
  });

  it("rejects as fetch does for what is no address, or no server", async () => {
    const { limiter } = create();
    await expect(limitedFetch(limiter)("nonsense")).rejects.toThrow(TypeError);
    await expect(limitedFetch(limiter, { key: ({ host }) => host })("nonsense")).rejects.toThrow(TypeError);
    await expect(limitedFetch(limiter)("http://127.0.0.1:1/")).rejects.toThrow(TypeError);
  });

  it.each<[string, (url: string, signal: AbortSignal) => [string | Request, RequestInit?]]>([
    ["its options", (url, signal) => [url, { signal }]],
    ["a Request", (url, signal) => [new Request(url, { signal })]],
  ])("heeds the signal of %s: before, while it waits, and while the server answers", async (_, call) => {
    const { clock, limiter } = create({ rate: 1, burst: 1 });
    const { url, seen } = await serve(clock, [200]);
    const limited = limitedFetch(limiter);
    await expect(limited(...call(url, AbortSignal.abort(new Error("before"))))).rejects.toThrow("before");
    expect(limiter.peek().remaining).toBe(1);

    await limited(url);
    const stop = new AbortController();
    const waiting = limited(...call(url, stop.signal));
    waiting.catch(() => {});
    await rest();
    stop.abort(new Error("meanwhile"));
    await expect(waiting).rejects.toThrow("meanwhile");
    expect(seen.length).toBe(1);
    // The turn went back.
    clock.advance(1000);
    expect(limiter.peek().remaining).toBe(1);
  });

  it("is not aborted by a Request's signal when the options' is null", async () => {
    const { clock, limiter } = create();
    const { url } = await serve(clock, [200]);
    expect((await limitedFetch(limiter)(new Request(url, { signal: AbortSignal.abort() }), { signal: null })).status)
      .toBe(200);
  });

  it("rejects at once, and takes nothing, if its turn is not within timeoutMs", async () => {
    const { clock, limiter } = create({ rate: 1, burst: 1 });
    const { url, seen } = await serve(clock, [200]);
    const limited = limitedFetch(limiter, { timeoutMs: 999 });
    await limited(url);
    await expect(limited(url)).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
    clock.advance(1);
    expect((await whileMoving(clock, 100, limited(url))).status).toBe(200);
    expect(seen.length).toBe(2);
  });
});

describe("Retry-After", () => {
  const wallMs = Date.UTC(2030, 0, 1);
  const dated = (ms: number): string => new Date(wallMs + ms).toUTCString();

  it.each<[string, Record<string, string>, number]>([
    ["seconds", { "retry-after": "7" }, 7000],
    ["no time at all", { "retry-after": "0" }, 0],
    ["a date", { "retry-after": dated(5000) }, 5000],
    [
      "a date on a server whose clock is an hour behind",
      { "retry-after": dated(-3_595_000), date: dated(-3_600_000) },
      5000,
    ],
    ["a date, and says no time of its own", { "retry-after": dated(3000), date: "yesterday" }, 3000],
    ["a date in the past", { "retry-after": dated(-60_000) }, 0],
    ["a date in the oldest format", { "retry-after": "Tue Jan  1 00:00:09 2030" }, 9000],
    ["a date in the older format", { "retry-after": "Tuesday, 01-Jan-30 00:00:04 GMT" }, 4000],
  ])("of %s holds the key back for so long, and the call is made again", async (_, headers, waitMs) => {
    vi.spyOn(Date, "now").mockReturnValue(wallMs);
    const { clock, limiter } = create();
    const { url, seen } = await serve(clock, [429, headers], [200]);
    const call = limitedFetch(limiter, { key: "host" })(url);
    if (waitMs > 0) {
      await until(() => seen.length === 1 && !limiter.peek("host").allowed);
      await rest();
      clock.advance(waitMs - 0.001);
      await rest();
      expect(seen.length).toBe(1);
      // Nor may another thread go.
      expect(limiter.peek("host").allowed).toBe(false);
      expect(limiter.peek("other").allowed).toBe(true);
      // The charge is in whole tokens, of which one takes 100 ms.
      clock.advance(0.001);
      await rest();
      if (seen.length === 1) clock.advance(100);
    }
    expect((await call).status).toBe(200);
    expect(seen.length).toBe(2);
  });

  it.each([
    "",
    "soon",
    "-5",
    "1.5",
    "1e3",
    "0x10",
    "5 s",
    "NaN",
    "2030-01-01T00:00:05Z",
    "Tue, 99 Jan 2030 00:00:05 GMT",
    "5, 7",
  ])("of %j is none: the answer is the caller's", async (value) => {
    const { clock, limiter } = create();
    const { url, seen } = await serve(clock, [429, { "retry-after": value }]);
    expect((await limitedFetch(limiter)(url)).status).toBe(429);
    expect([seen.length, limiter.peek().remaining]).toEqual([1, 999]);
  });

  it.each([200, 301, 404, 500])("with status %i means nothing", async (status) => {
    const { clock, limiter } = create();
    const { url, seen } = await serve(clock, [status, { "retry-after": "5" }]);
    expect((await limitedFetch(limiter)(url)).status).toBe(status);
    expect([seen.length, limiter.peek().remaining]).toEqual([1, 999]);
  });

  it.each(["61", "9".repeat(400), dated(86_400_000)])(
    "of %s is longer than is believed: the answer is the caller's, and the key is held back for the most",
    async (value) => {
      vi.spyOn(Date, "now").mockReturnValue(wallMs);
      const { clock, limiter } = create();
      const { url, seen } = await serve(clock, [429, { "retry-after": value }], [200]);
      const limited = limitedFetch(limiter, { maxRetryAfterMs: 60_000 });
      expect((await limited(url)).status).toBe(429);
      expect(limiter.peek().retryAfterMs).toBeGreaterThanOrEqual(60_000);
      expect(limiter.peek().retryAfterMs).toBeLessThan(60_100);
      const next = limited(url);
      await rest();
      expect(seen.length).toBe(1);
      clock.advance(60_100);
      expect((await next).status).toBe(200);
    },
  );

  it("is heeded by all callers of the key, those whose turn had come too, and costs a key nothing twice", async () => {
    const { clock, limiter } = create({ rate: 1000, burst: 1000 });
    const { url, seen } = await serve(clock, [429, { "retry-after": "10" }], [429, { "retry-after": "10" }], [429, {
      "retry-after": "10",
    }], [200]);
    const limited = limitedFetch(limiter, { key: ({ host }) => host });
    const first = Promise.all([limited(url), limited(url), limited(url)]);
    await until(() => seen.length === 3);
    await rest();
    const others = Promise.all(Array.from({ length: 20 }, () => limited(url)));
    // Three answers to hold it back are one pause, not three.
    expect(limiter.peek(new URL(url).host).retryAfterMs).toBeLessThan(10_030);
    clock.advance(9_999);
    await rest();
    expect(seen.length).toBe(3);
    expect((await whileMoving(clock, 10, Promise.all([first, others]))).flat().map(({ status }) => status)).toEqual(
      Array(23).fill(200),
    );
    expect(Math.min(...seen.slice(3).map(({ at }) => at))).toBeGreaterThanOrEqual(11_000);
  });

  it("holds back a call that waited for its turn when the answer came", async () => {
    const { clock, limiter } = create({ rate: 1, burst: 1 });
    const { url, seen } = await serve(clock, [429, { "retry-after": "5" }], [200]);
    const limited = limitedFetch(limiter, { maxRetries: 0 });
    const calls = [limited(url), limited(url)];
    expect((await calls[0]).status).toBe(429);
    clock.advance(1000);
    await rest();
    expect(seen.length).toBe(1);
    clock.advance(4000);
    expect((await calls[1]).status).toBe(200);
    expect(seen.map(({ at }) => at)).toEqual([1000, 6000]);
  });

  it.each<[string, (sluice: Sluice) => Limiter]>([
    ["a token bucket", (sluice) => sluice.tokenBucket("l", { rate: 10, burst: 1 })],
    ["a leaky queue, which has no place for the pause", (sluice) => sluice.leakyBucket("l", { rate: 10, queue: 20 })],
    [
      "several limits",
      (sluice) => sluice.tokenBucket("l", { limits: [{ rate: 10, burst: 1 }, { rate: 20, burst: 5 }] }),
    ],
  ])("ends for one call after the other, at the rate of %s", async (_, make) => {
    const { sluice, clock } = create();
    const { url, seen } = await serve(clock, [429, { "retry-after": "20" }], [200]);
    const limited = limitedFetch(make(sluice), { maxRetries: 0 });
    await limited(url);
    const calls = Promise.all(Array.from({ length: 10 }, () => limited(url)));
    expect((await whileMoving(clock, 50, calls)).map(({ status }) => status)).toEqual(Array(10).fill(200));
    const times = seen.slice(1).map(({ at }) => at);
    expect(times[0]).toBeGreaterThanOrEqual(21_000);
    expect(times.at(-1)! - times[0]).toBeGreaterThanOrEqual(800);
  });

  it("leaves the answer to the caller if the limiter has no turn for another attempt", async () => {
    const { sluice, clock } = create();
    const { url, seen } = await serve(clock, [429, { "retry-after": "0" }], [200]);
    const response = await limitedFetch(sluice.tokenBucket("once", { rate: 0, burst: 1 }))(url);
    expect([response.status, await response.text(), seen.length]).toEqual([429, "answer 1", 1]);
  });

  it("is given up after maxRetries, and by the signal", async () => {
    const { clock, limiter } = create();
    const { url, seen } = await serve(clock, [429, { "retry-after": "1" }]);
    expect((await whileMoving(clock, 100, limitedFetch(limiter, { maxRetries: 3 })(url))).status).toBe(429);
    expect(seen.length).toBe(4);
    const stop = new AbortController();
    const call = limitedFetch(limiter, { key: "other" })(url, { signal: stop.signal });
    call.catch(() => {});
    await until(() => seen.length === 5);
    await rest();
    stop.abort(new Error("enough"));
    await expect(call).rejects.toThrow("enough");
  });

  it("of more than is left of timeoutMs gives the answer to the caller, whole", async () => {
    const { clock, limiter } = create();
    const { url, seen } = await serve(clock, [429, { "retry-after": "10" }]);
    const limited = limitedFetch(limiter, { timeoutMs: 9_999 });
    const response = await limited(url);
    expect([response.status, await response.text(), seen.length]).toEqual([429, "answer 1", 1]);
    await expect(limited(url)).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
  });

  it("holds back a key of bytes, whichever array has them, and no other key", async () => {
    const { sluice, clock } = create();
    const limiter = sluice.tokenBucket("all", { rate: Infinity, burst: 10 });
    const { url } = await serve(clock, [429, { "retry-after": "5" }], [200]);
    const options = { maxRetries: 0, timeoutMs: 100 };
    const limited = limitedFetch(limiter, {
      ...options,
      key: ({ pathname }) => (pathname === "/text" ? "\x01" : Uint8Array.of(pathname === "/" ? 1 : 2)),
    });
    expect((await limited(url)).status).toBe(429);
    await expect(limited(url)).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
    for (const path of ["text", "other"]) expect((await limited(url + path)).status).toBe(200);
  });

  it("does not charge a limiter that has no rate to charge", async () => {
    const { sluice, clock } = create();
    const { url, seen } = await serve(clock, [429, { "retry-after": "5" }], [200]);
    for (const [name, rate] of [["none", 0], ["all", Infinity]] as const) {
      const limiter = sluice.tokenBucket(name, { rate, burst: 10 });
      seen.length = 0;
      const call = limitedFetch(limiter)(url);
      await until(() => seen.length === 1);
      await rest();
      expect(limiter.peek().allowed).toBe(true);
      clock.advance(5000);
      expect((await call).status).toBe(200);
    }
  });
});

describe("a call that may be made again", () => {
  const form = (made: FormData | UndiciFormData): typeof made => (made.append("a", "b"), made);
  const bytes = new TextEncoder().encode("hello");
  it.each<[string, string, unknown]>([
    ["a string", "hello", "hello"],
    ["bytes", "hello", bytes],
    ["an ArrayBuffer", "hello", bytes.buffer],
    ["a Blob", "hello", new Blob(["hello"])],
    ["parameters", "a=b", new URLSearchParams({ a: "b" })],
  ])("has a body that can be sent anew: %s", async (_, text, body) => {
    const { clock, limiter } = create();
    for (const [fetch, make] of [[globalThis.fetch, Request], [undiciFetch, UndiciRequest]] as const) {
      const { url, seen } = await serve(clock, [429, { "retry-after": "0" }], [200]);
      const limited = limitedFetch(limiter, { fetch: fetch as typeof globalThis.fetch });
      expect((await limited(url, { method: "POST", body: body as RequestInit["body"] })).status).toBe(200);
      expect(seen.map((each) => each.body)).toEqual([text, text]);

      const second = await serve(clock, [429, { "retry-after": "0" }], [200]);
      expect((await limited(new make(second.url, { method: "POST", body: body as never }) as Request)).status).toBe(
        200,
      );
      expect(second.seen.map((each) => each.body)).toEqual([text, text]);
    }
  });

  it("has a form, of either kind", async () => {
    const { clock, limiter } = create();
    for (
      const [fetch, body] of [[globalThis.fetch, form(new FormData())], [
        undiciFetch,
        form(new UndiciFormData()),
      ]] as const
    ) {
      const { url, seen } = await serve(clock, [429, { "retry-after": "0" }], [200]);
      expect(
        (await limitedFetch(limiter, { fetch: fetch as typeof globalThis.fetch })(url, {
          method: "POST",
          body: body as FormData,
        })).status,
      ).toBe(200);
      for (const each of seen) expect(each.body).toMatch(/name="a"\r\n\r\nb/);
    }
  });

  it.each<[string, () => unknown]>([
    ["a stream", () => new Blob(["hello"]).stream()],
    ["what yields its body", async function*() {
      yield bytes;
    }],
  ])("is none with %s: it is sent once, and the key held back", async (_, body) => {
    const { clock, limiter } = create();
    const { url, seen } = await serve(clock, [429, { "retry-after": "5" }], [200]);
    const response = await limitedFetch(limiter)(
      url,
      { method: "POST", body: body() as RequestInit["body"], duplex: "half" } as RequestInit,
    );
    expect([response.status, seen.map((each) => each.body)]).toEqual([429, ["hello"]]);
    expect(limiter.peek().allowed).toBe(false);
  });

  it.each([
    ["GET", 503, true],
    ["HEAD", 503, true],
    ["PUT", 503, true],
    ["DELETE", 503, true],
    ["post", 503, false],
    ["PATCH", 503, false],
    ["post", 429, true],
    ["PATCH", 429, true],
  ])("%s on %i: %s", async (method, status, isRetried) => {
    const { clock, limiter } = create();
    const { url, seen } = await serve(clock, [status, { "retry-after": "0" }], [200]);
    expect((await limitedFetch(limiter)(url, { method })).status).toBe(isRetried ? 200 : status);
    expect(seen.length).toBe(isRetried ? 2 : 1);
  });

  it("is not left with an answer that nobody reads", async () => {
    const { clock, limiter } = create();
    const { url } = await serve(clock, [429, { "retry-after": "0" }], [200]);
    const cancelled: (boolean | undefined)[] = [];
    const spying = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
      const response = await fetch(input, init);
      cancelled.push(false);
      const place = cancelled.length - 1;
      const { body } = response;
      if (body) {
        const cancel = body.cancel.bind(body);
        body.cancel = (reason) => {
          cancelled[place] = true;
          return cancel(reason);
        };
      }
      return response;
    };
    await limitedFetch(limiter, { fetch: spying as typeof fetch })(url);
    expect(cancelled).toEqual([true, false]);
  });
});

describe("other kinds of limiters", () => {
  it.each<[string, (sluice: Sluice) => Limiter]>([
    ["a leaky bucket", (sluice) => sluice.leakyBucket("l", { rate: 10, burst: 5 })],
    ["a leaky queue", (sluice) => sluice.leakyBucket("l", { rate: 10, queue: 1000 })],
    [
      "several limits",
      (sluice) => sluice.tokenBucket("l", { limits: [{ rate: 10, burst: 10 }, { rate: 1, burst: 100 }] }),
    ],
    ["a fixed window", (sluice) => sluice.fixedWindow("l", { limit: 10, windowMs: 1000 })],
    ["a sliding window", (sluice) => sluice.slidingWindow("l", { limit: 10, windowMs: 1000 })],
    ["a sliding window with slots", (sluice) => sluice.slidingWindow("l", { limit: 10, windowMs: 1000, slots: 10 })],
    ["a warm-up", (sluice) => sluice.warmUp("l", { rate: 10, warmupMs: 1000 })],
  ])("%s: its key is held back in this thread for the whole time", async (_, make) => {
    const { sluice, clock } = create();
    const limiter = make(sluice);
    const { url, seen } = await serve(clock, [429, { "retry-after": "20" }], [200]);
    const call = limitedFetch(limiter, { key: "host" })(url);
    await until(() => seen.length === 1);
    await rest();
    expect((await whileMoving(clock, 250, call)).status).toBe(200);
    expect(seen[1].at).toBeGreaterThanOrEqual(21_000);
    expect(seen[1].at).toBeLessThan(24_000);
  });
});

describe("4 threads", { timeout: 60_000 }, () => {
  it("share one limit on their calls, and one pause that a server asks of one of them", async () => {
    const sluice = Sluice.create({ capacity: 1000 });
    open.push(sluice);
    const limiter = sluice.tokenBucket("api", { rate: 1e-9, burst: 100 });
    const clock = new ManualClock();
    const { url, seen } = await serve(clock, [200]);
    const crew = await Crew.hire<{ answered: number; refused: number }>(4, "fetch.js", "calls", sluice.handle, {
      url,
      calls: 50,
    });
    const reports = await crew.work();
    expect(sum(reports.map(({ answered }) => answered))).toBe(100);
    expect(sum(reports.map(({ refused }) => refused))).toBe(100);
    expect(reports.filter(({ answered }) => answered > 0).length).toBeGreaterThan(1);
    expect(seen.length).toBe(100);
    expect(limiter.peek().allowed).toBe(false);

    const paused = sluice.tokenBucket("paused", { rate: 10, burst: 100 });
    const busy = await serve(clock, [429, { "retry-after": "3000" }]);
    const limited = limitedFetch(paused, { maxRetries: 0, maxRetryAfterMs: Infinity });
    await limited(busy.url);
    const others = await Crew.hire<{ answered: number; refused: number }>(4, "fetch.js", "calls", sluice.handle, {
      url: busy.url,
      calls: 10,
      name: "paused",
    });
    expect(await others.work()).toEqual(Array(4).fill({ answered: 0, refused: 10 }));
    expect(busy.seen.length).toBe(1);
  });
});

describe("options", () => {
  it.each<[LimitedFetchOptions | unknown, string]>([
    [{ cost: -1 }, "\"cost\" expected an integer from 0 to 2147483647, got -1"],
    [{ timeoutMs: NaN }, "\"timeoutMs\" expected a number of milliseconds >= 0, or Infinity, got NaN"],
    [{ maxRetries: 1.5 }, "\"maxRetries\" expected an integer from 0 to 9007199254740991, got 1.5"],
    [{ maxRetryAfterMs: "5" }, "\"maxRetryAfterMs\" expected a number of milliseconds >= 0, or Infinity, got \"5\""],
    [{ fetch: 5 }, "\"fetch\" expected a function, got 5"],
    [null, "\"options\" expected an object, got null"],
  ])("%j are refused", (options, message) => {
    const { limiter } = create();
    expect(() => limitedFetch(limiter, options as LimitedFetchOptions)).toThrow(message);
  });

  it("refuse what is no limiter, and what is no key when it is asked for", async () => {
    const { limiter } = create();
    expect(() => limitedFetch({} as Limiter)).toThrow("\"limiter\" expected a Limiter, got an object");
    await expect(limitedFetch(limiter, { key: () => null as never })("http://127.0.0.1:1/")).rejects.toThrow(
      "\"key\" expected a string, number, bigint or Uint8Array, got null",
    );
  });
});
